#!/usr/bin/env bash
# run.sh [tidy] [cppcheck] [analyzer] [coverage]: looks at the code instead of
# running it (coverage: runs it). Without an argument the first three. Builds into
# $BUILD (default build-analysis). Exit 1 when something was found that is not in
# the suppressions beside this file, each of which says why it is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
BUILD=${BUILD:-$root/build-analysis}
jobs=${JOBS:-$(nproc)}
found=0

need() { command -v "$1" >/dev/null || { echo "skipped: no $1 (apt-get install $2)"; exit 77; }; }

setup() {	# FOLDER, meson's options
	local folder=$1
	shift
	[ -f "$folder/build.ninja" ] || meson setup "$folder" "$root" "$@" >/dev/null
}

# Generated headers are wanted by all three.
prepare() {
	setup "$BUILD"
	ninja -C "$BUILD" >/dev/null
}

sources() { (cd "$root" && git ls-files '*.c' | grep -vE '^tests/'); }

tidy() {
	need clang-tidy clang-tidy
	prepare
	local out
	out=$(cd "$root" && sources | xargs -P "$jobs" -n 4 clang-tidy -p "$BUILD" --quiet 2>/dev/null || true)
	# What is compiled only where CUDA and NCCL are has no compile command elsewhere.
	out=$(grep -E '(warning|error): ' <<<"$out" | sort -u | grep -vFf <(grep -v '^#' "$here/tidy.txt") || true)
	echo "clang-tidy: $(grep -c . <<<"$out" || true) findings in $(sources | wc -l) files"
	[ -z "$out" ] || { echo "$out"; found=1; }
}

cppcheck_() {
	need cppcheck cppcheck
	prepare
	local out
	# The macros of jansson and cmocka are loops that it cannot see.
	out=$(cd "$root" && cppcheck --project="$BUILD/compile_commands.json" --enable=warning,portability,performance \
		--inline-suppr -q -j "$jobs" --suppress='*:/usr/*' --suppressions-list="$here/cppcheck.txt" \
		--library=gnu --library=posix -D'json_array_foreach(a,i,v)=for(i=0;i<1;i++)' \
		-D'json_object_foreach(o,k,v)=for(;k&&v;)' --template='{file}:{line}: {severity}: {id}: {message}' 2>&1 | sort -u || true)
	echo "cppcheck: $(grep -c . <<<"$out" || true) findings"
	[ -z "$out" ] || { echo "$out"; found=1; }
}

analyzer() {
	need gcc gcc
	local out log=$BUILD-analyzer/log
	setup "$BUILD-analyzer" -Dc_args=-fanalyzer -Dtests=false -Dnccl=disabled -Dcuda=disabled
	ninja -C "$BUILD-analyzer" -j "$jobs" -t clean >/dev/null
	ninja -C "$BUILD-analyzer" -j "$jobs" >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
	out=$(grep -E 'warning: .*Wanalyzer' "$log" | sed 's!^\(\.\./\)*!!' | sort -u | grep -vFf <(grep -v '^#' "$here/analyzer.txt") || true)
	echo "gcc -fanalyzer: $(grep -c . <<<"$out" || true) findings"
	[ -z "$out" ] || { echo "$out"; found=1; }
}

coverage() {
	need gcovr gcovr
	local b=$BUILD-coverage
	# Several processes and threads count at once: without atomic counters some end below 0.
	setup "$b" -Db_coverage=true -Dc_args=-fprofile-update=atomic
	ninja -C "$b" >/dev/null
	find "$b" -name '*.gcda' -delete
	# shellcheck disable=SC2086
	meson test -C "$b" --num-processes 1 --suite unit ${SUITES:---suite netns --suite lab} >"$b/tests.log" 2>&1 || tail -n 12 "$b/tests.log"
	(cd "$root" && gcovr --root . --object-directory "$b" --exclude 'tests/.*' --exclude '(.*/)?b(uild|san|-)?[^/]*/.*' --exclude-unreachable-branches \
		--sort-uncovered --txt "$b/coverage.txt" --print-summary --fail-under-line 85 --fail-under-branch 70 "$b") || found=1
	echo "by file: $b/coverage.txt"
}

[ $# -gt 0 ] || set -- tidy cppcheck analyzer
for what in "$@"; do
	case $what in
	tidy) tidy ;;
	cppcheck) cppcheck_ ;;
	analyzer) analyzer ;;
	coverage) coverage ;;
	*) sed -n '2,5s/^# //p' "$0"; exit 2 ;;
	esac
done
exit $found
