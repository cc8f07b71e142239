#!/bin/sh
# build-deb.sh OUT-FOLDER: the Debian packages, from what git tracks.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/bace-deb-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bace"
(cd "$root" && git ls-files -z | xargs -0 tar -cf -) | tar -xf - -C "$work/bace"
cp -r "$root/packaging/debian" "$work/bace/debian"
(cd "$work/bace" && dpkg-buildpackage -b -us -uc)
mv "$work"/*.deb "$out"
