#!/usr/bin/env bash
# run.sh SOURCE BUILD [SECONDS]: builds the fuzzers with clang, ASan and UBSan,
# and runs each for SECONDS (default $BACE_FUZZ_S, else 60) from its seeds, two
# at a time. New inputs that reach new code stay in BUILD/corpus for the next
# time; what breaks is in BUILD/found, and its command is printed.
set -euo pipefail
source=$1 build=$2 seconds=${3:-${BACE_FUZZ_S:-60}}
command -v clang >/dev/null || { echo "skipped: no clang"; exit 77; }
mkdir -p "$build"
[ -f "$build/build.ninja" ] || CC=clang meson setup "$build" "$source" -Dfuzz=true -Dnccl=disabled \
	-Dcuda=disabled >"$build/setup.log" 2>&1 || { tail -n 20 "$build/setup.log"; exit 1; }
targets=$(ninja -C "$build" -t targets all | sed -n 's!^\(tests/fuzz/[a-z/]*fuzz-[a-z-]*\): c_LINKER$!\1!p' | grep -v fuzz-seeds)
# shellcheck disable=SC2086
ninja -C "$build" $targets >"$build/build.log" 2>&1 || { grep -A5 error "$build/build.log"; exit 1; }
mkdir -p "$build/found"

one() {
	local target=$1 name=${1##*/fuzz-} rc=0
	mkdir -p "$build/corpus/$name"
	"$build/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
		-artifact_prefix="$build/found/$name-" "$build/corpus/$name" "$source/tests/fuzz/seeds/$name" \
		>"$build/$name.log" 2>&1 || rc=$?
	echo "$name: $(sed -n 's/stat::number_of_executed_units: *//p' "$build/$name.log") inputs," \
		"$(ls "$build/corpus/$name" | wc -l) kept, status $rc"
	[ $rc = 0 ] || { grep -E -m 3 'ERROR|runtime error|libFuzzer' "$build/$name.log" || true
		echo "  $build/$target $build/found/$name-*"; }
	return $rc
}
export -f one
export build source seconds
# shellcheck disable=SC2086
printf '%s\n' $targets | xargs -P 2 -I {} bash -c 'one {}' || { echo "what was found is in $build/found"; exit 1; }
