#!/usr/bin/env bash
# other.sh SOURCE BUILD: builds everything, tests too, by the compiler of gcc and clang that
# BUILD was not made with, and takes a warning for an error. Skipped (77) where it is
# missing.
set -euo pipefail
source=$1 build=$2
log=$build/compilers.log
other=clang
grep -q '^C compiler for the host machine:.*clang' "$build/meson-logs/meson-log.txt" && other=gcc
command -v $other >/dev/null || { echo "skipped: no $other (apt-get install $other)"; exit 77; }
folder=$build/by-$other
rm -rf "$folder"
trap 'rm -rf "$folder"' EXIT
CC=$other meson setup "$folder" "$source" -Dwerror=true >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
nice ninja -C "$folder" >"$log" 2>&1 || { grep -E -A6 'error:|FAILED' "$log" | head -n 60; exit 1; }
echo "built by $("$other" --version | head -n 1): $(sed -n 's!^\[\([0-9]*\)/.*!\1!p' "$log" | tail -n 1) steps, no warning"
