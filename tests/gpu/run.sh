#!/usr/bin/env bash
# Four NCCL ranks on one GPU, in four network namespaces joined by shaped links:
# what NCCL moves, how, how fast, and what it does when a rank or a link goes. One
# table, in five minutes at most. Needs a C compiler, python3, iproute2, root or user namespaces, CUDA
# and NCCL, and of libraries only jansson; no package registry.
#   tests/gpu/run.sh               on a machine with an NVIDIA GPU
#   tests/gpu/run.sh --stand-in    all of it but the GPU, with tests/standin
#   tests/gpu/run.sh --pack DIR    puts jansson into DIR, for a machine without it
# $TOOLKIT: where CUDA and NCCL are (/usr/local/cuda). $CARRY: such a DIR
# (tests/gpu/carry). $CC: the compiler (cc).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
toolkit=${TOOLKIT:-/usr/local/cuda}
carry=${CARRY:-$root/tests/gpu/carry}
CC=${CC:-cc}
standin=
case ${1:-} in
--stand-in) standin=1 ;;
--pack) pack=${2:?a folder} ;;
"") ;;
*) sed -n '2,11s/^# \?//p' "$0"; exit 2 ;;
esac

if [ -n "${pack:-}" ]; then
	mkdir -p "$pack"
	archive=$("$CC" -print-file-name=libjansson.a)
	[ -f "$archive" ] || { echo "no libjansson.a here: apt-get install libjansson-dev"; exit 3; }
	cp "$archive" "$(dirname "$(echo '#include <jansson.h>' | "$CC" -E - | sed -n 's/.*"\(.*jansson.h\)".*/\1/p' | head -1)")"/jansson*.h "$pack"
	ls -l "$pack"
	exit 0
fi

# ---- what is missing, all of it at once ----
missing=()
need() { command -v "$1" >/dev/null || missing+=("$1: $2"); }
has() { echo "$2" | "$CC" -x c - -fsyntax-only $1 2>/dev/null; }
need "$CC" "a C compiler, such as gcc"
need python3 "python3, without further modules"
need ip "iproute2"
need tc "iproute2"
need unshare "util-linux"
jansson="-ljansson"
if [ -f "$carry/libjansson.a" ]; then
	jansson="-I$carry $carry/libjansson.a"
elif ! has "" '#include <jansson.h>'; then
	missing+=("jansson.h: libjansson-dev, or a folder made elsewhere by $0 --pack in $carry")
fi
cuda=()
if [ -z "$standin" ]; then
	for h in cuda_runtime.h cublas_v2.h nccl.h; do
		[ -f "$toolkit/include/$h" ] || missing+=("$h: not in $toolkit/include")
	done
	for l in cudart cublas nccl; do
		for d in "$toolkit/lib64" "$toolkit/lib"; do
			[ -f "$d/lib$l.so" ] && { cuda+=("$d/lib$l.so" "-Wl,-rpath,$d"); continue 2; }
		done
		missing+=("lib$l.so: not in $toolkit/lib64 or lib")
	done
	[ -e /dev/nvidia0 ] || missing+=("/dev/nvidia0: an NVIDIA GPU")
fi
if [ ${#missing[@]} -gt 0 ]; then
	echo "tests/gpu: cannot run here; missing:"
	printf '  %s\n' "${missing[@]}"
	exit 3
fi

# ---- build, without meson ----
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#define BACE_VERSION "gpu-check"' > "$work/config.h"
echo '#define GIT_REVISION ""' > "$work/git_revision.h"
cd "$root"
flags=(-std=gnu17 -O2 -g -D_GNU_SOURCE -w -I. "-I$work")
worker=()
for f in workloads/worker/*.c; do
	# Its own main, and no BLAS for the processor.
	case $f in */main.c | */compute_cpu.c) ;; *) worker+=("$f") ;; esac
done
shared=(common/*.c workloads/schedule/*.c profiles/names.c)
if [ -n "$standin" ]; then
	flags+=(-O0 -Itests/standin/include)
	"$CC" "${flags[@]}" -shared -fPIC -o "$work/libnvidia-ml.so.1" tests/standin/nvml.c
	cuda=(tests/standin/boot.c tests/standin/cublas.c tests/standin/cuda.c tests/standin/move.c tests/standin/nccl.c)
else
	flags+=("-isystem$toolkit/include")
fi
# shellcheck disable=SC2086
"$CC" "${flags[@]}" -o "$work/bace-worker-nccl" workloads/nccl/*.c "${worker[@]}" "${shared[@]}" "${cuda[@]}" \
	$jansson ${LIBS:-} -lm -ldl -lpthread
"$CC" "${flags[@]}" -o "$work/predict" tests/gpu/predict.c harness/sim/pipeline.c harness/sim/pipeline_check.c \
	"${shared[@]}" -lm

# ---- run ----
status=0
BACE_WORKER=$work/bace-worker-nccl BACE_PREDICT=$work/predict BACE_STAND_IN=$standin PYTHONDONTWRITEBYTECODE=1 \
	LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	timeout -k 5 300 python3 tests/gpu/check.py || status=$?
[ "$status" = 124 ] && echo "tests/gpu: not done within 300 s"
exit "$status"
