#!/usr/bin/env bash
# Installs what is missing, builds, runs the main job and says where the report
# is. Options are passed on to `bace run`, e.g. --backend uml.
set -euo pipefail
. "$(dirname "$0")/.ci/prepare.sh"

install_packages packages
build programs
say "bace run profiles/experiments/six-regions.cfg $*"
cd "$root"
exec "$BUILD/harness/cmd/bace" run profiles/experiments/six-regions.cfg "$@"
