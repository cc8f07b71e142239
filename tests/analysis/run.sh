#!/usr/bin/env bash
# run.sh [tidy] [cppcheck] [analyzer] [coverage] [sanitize] [threads] [valgrind]: looks
# at the code instead of running it, and from coverage on runs it. Without an argument
# the first three. Builds into $BUILD (default build-analysis). Exit 1 when something was
# found that is not in the suppressions beside this file, each of which says why it is there.
# TESTS="NAME ..." are the tests of sanitize or threads.
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

# What counts are the sanitizers' own logs, of every process: a test need not look at
# the standard error or the status of all that it starts. A test that is late in such a
# build is no finding; what failed is named.
under() {	# NAME, b_sanitize, what meson test is to run
	local b=$BUILD-$1 logs common
	setup "$b" -Db_sanitize="$2" -Db_lundef=false -Dc_args=-fsanitize=float-cast-overflow
	ninja -C "$b" -j "$jobs" >/dev/null
	logs=$b/sanitizer
	rm -rf "$logs"
	mkdir -m 1777 "$logs"	# some processes are of other users
	common=log_path=$logs/$1:log_exe_name=1
	ASAN_OPTIONS=$common:detect_stack_use_after_return=1 \
	UBSAN_OPTIONS=$common:print_stacktrace=1 \
	TSAN_OPTIONS=$common:die_after_fork=0:second_deadlock_stack=1 \
		setarch -R meson test -C "$b" --no-rebuild --num-processes 1 -t 5 "${@:3}" >"$b/tests.log" 2>&1 || true
	grep -E ' (FAIL|TIMEOUT) ' "$b/tests.log" || true
	local out
	out=$(find "$logs" -type f -size +0)
	echo "$1: $(grep -c . <<<"$out" || true) processes with findings, $(grep -cE '^ *[0-9]+/[0-9]+ ' "$b/tests.log") tests; logs in $logs"
	[ -z "$out" ] || { found=1; grep -hE '^SUMMARY|runtime error' -r "$logs" | sort | uniq -c | sort -rn; }
}

sanitize() {
	# shellcheck disable=SC2086
	under sanitize address,undefined ${TESTS:---suite unit --suite netns --suite lab}
}

# Those that use threads: simulations, the controller, agents, the delay line, matrix
# products, the NCCL worker.
threads() {
	# shellcheck disable=SC2086
	under threads thread ${TESTS:-cluster-sweep cluster-claims robust control-cell control-faults control-inside \
		agent-lease-unit monitor-sample agent-shaped shaper-lease-nfqueue shaper-packets-nfqueue worker-traffic \
		nccl-complete run-native compute-native}
}

# One run in a lab, with all that it starts. What they say goes through a pipe: in their
# PID namespaces processes have the same numbers, and would overwrite each other's files.
valgrind_() {
	need valgrind valgrind
	prepare
	local logs=$BUILD/valgrind reader
	rm -rf "$logs"
	mkdir "$logs"
	mkfifo "$logs/pipe"
	exec 9<>"$logs/pipe"
	cat <&9 >"$logs/log" &
	reader=$!
	valgrind -q --vgdb=no --read-inline-info=no --trace-children=yes --trace-children-skip='/usr/*,/bin/*,/sbin/*' \
		--leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect --error-exitcode=9 \
		--suppressions="$here/valgrind.txt" --log-file="$logs/pipe" "$BUILD/harness/cmd/bace" --store "$logs/x.db" \
		run "$root/profiles/experiments/tiny.cfg" --no-report >"$logs/out" 2>&1 9>&- || true
	sleep 1
	kill "$reader"
	exec 9>&-
	# A cell that is too slow under valgrind is no finding; that none was tried is.
	tail -n 6 "$logs/out"
	grep -q 'n = [0-9]* placements' "$logs/out" || found=1
	echo "valgrind: $(grep -cE '^==[0-9]+== {1,3}at 0x' "$logs/log" || true) findings"
	[ ! -s "$logs/log" ] || { found=1; cat "$logs/log"; }
}

[ $# -gt 0 ] || set -- tidy cppcheck analyzer
for what in "$@"; do
	case $what in
	tidy) tidy ;;
	cppcheck) cppcheck_ ;;
	analyzer) analyzer ;;
	coverage) coverage ;;
	sanitize) sanitize ;;
	threads) threads ;;
	valgrind) valgrind_ ;;
	*) sed -n '2,6s/^# //p' "$0"; exit 2 ;;
	esac
done
exit $found
