#!/usr/bin/env bash
# Installs what is missing, builds, runs all tests. Ends with a line
# "N passed, N failed, N skipped". Arguments go to `meson test`, e.g.
# --suite unit. How exact the shaper is (--suite accuracy) is judged on an idle
# machine only: `meson test -C build --suite accuracy`.
set -euo pipefail
. "$(dirname "$0")/.ci/prepare.sh"

install_packages packages
install_packages packages-test optional
build
say "running the tests"
cd "$root"
logs=$BUILD/meson-logs
rm -f "$logs"/{testlog,unit,netns,whole,fuzz,again,third}.{json,list}	# an earlier call's
export PYTHONDONTWRITEBYTECODE=1
run() {
	local base=$1
	shift
	# What is to be in the log: else a run that ends half-way looks like a good one.
	meson test -C "$BUILD" --no-rebuild --list "$@" 2>/dev/null | grep ' / ' >"$BUILD/meson-logs/$base.list" || true
	# Time-outs are for what hangs; a busy machine may take three times as long.
	meson test -C "$BUILD" --no-rebuild --print-errorlogs -t 3 --logbase "$base" "$@"
}
if [ $# -gt 0 ]; then
	run testlog --num-processes 1 "$@" || true
	exec "$root/.ci/summary" "$logs/testlog.json"
fi
run unit --suite unit --no-suite timed || true
# What is timed runs alone.
run netns --num-processes 1 --suite timed --suite netns || true
run whole --num-processes 1 --suite uml --suite lab --suite deb --suite compilers || true
logs=("$logs/unit.json" "$logs/netns.json" "$logs/whole.json")
# The fuzzers, so many seconds each.
if [ -n "${BACE_FUZZ_S:-}" ]; then
	run fuzz --suite fuzz || true
	logs+=("$BUILD/meson-logs/fuzz.json")
fi
# On a busy machine whole labs time out, or a cell is invalid: what failed, once
# more, and once more after a while; the summary names what then passed. What is
# pure has no such excuse.
judged=("$BUILD"/meson-logs/{netns,whole}.json)
for base in again third; do
	again=$("$root/.ci/summary" --failed "${judged[@]}")
	[ -n "$again" ] || break
	[ $base = again ] || sleep 30
	say "$base:" $again
	# shellcheck disable=SC2086
	run $base --num-processes 1 $again || true
	logs+=("$BUILD/meson-logs/$base.json")
	judged+=("$BUILD/meson-logs/$base.json")
done
exec "$root/.ci/summary" "${logs[@]}"
