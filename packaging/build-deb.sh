#!/bin/sh
# build-deb.sh OUT-FOLDER: the Debian packages, from what git tracks.
set -eu
[ $# = 1 ] || { sed -n '2s/^# //p' "$0"; exit 2; }
for p in build-essential debhelper; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="${missing:-} $p"
done
[ -z "${missing:-}" ] || { echo "build-deb.sh: apt-get install$missing"; exit 3; }
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/bace-deb-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bace"
(cd "$root" && git ls-files -z | xargs -0 tar -cf -) | tar -xf - -C "$work/bace"
cp -r "$root/packaging/debian" "$work/bace/debian"
(cd "$work/bace" && dpkg-buildpackage -b -us -uc)
mv "$work"/*.deb "$out"
