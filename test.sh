#!/usr/bin/env bash
# Installs what is missing, builds, runs all tests. Ends with a line
# "N passed, N failed, N skipped". Arguments go to `meson test`, e.g.
# --suite unit. How exact the shaper is (--suite accuracy) is judged on an idle
# machine only: `meson test -C build --suite accuracy`.
set -euo pipefail
. "$(dirname "$0")/.ci/prepare.sh"

install_packages
build
say "running the tests"
cd "$root"
status=0
meson test -C "$BUILD" --no-rebuild --print-errorlogs --num-processes 1 --no-suite accuracy "$@" || status=$?
exec "$root/.ci/summary" "$BUILD/meson-logs/testlog.json" "$status"
