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
logs=$BUILD/meson-logs
run() {
	local base=$1
	shift
	meson test -C "$BUILD" --no-rebuild --print-errorlogs --num-processes 1 --logbase "$base" "$@"
}
if [ $# -gt 0 ]; then
	run testlog "$@" || true
	exec "$root/.ci/summary" "$logs/testlog.json"
fi
run plain --suite unit --suite netns || true
# Whole labs and User-Mode Linux time out on a busy machine: once more, then.
run whole --suite uml --suite lab || { say "again"; run whole --suite uml --suite lab || true; }
exec "$root/.ci/summary" "$logs/plain.json" "$logs/whole.json"
