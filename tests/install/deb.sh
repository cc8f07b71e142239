#!/bin/sh
# deb.sh SOURCE: the Debian package builds, unpacks into a scratch root and runs
# there. Minutes: not part of ./test.sh.
set -eu
command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null || {
	echo "skipped: no dpkg-buildpackage or debhelper"
	exit 77
}
dir=$(mktemp -d /tmp/bace-deb-test-XXXXXX)
trap 'rm -rf "$dir"' EXIT
"$1/packaging/build-deb.sh" "$dir" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; exit 1; }
for deb in "$dir"/bace_*.deb "$dir"/libbace-model-dev_*.deb; do
	dpkg-deb --extract "$deb" "$dir/root"
done
"$dir/root/usr/bin/bace" --version
cd "$dir"
BACE_PROFILES=$dir/root/usr/share/bace/profiles "$dir/root/usr/bin/bace" check tiny
dpkg-deb --field "$dir"/bace_*.deb Package Version Depends
[ -f "$dir/root/usr/share/man/man1/bace-run.1.gz" ]
[ -f "$dir/root/usr/include/bace/harness/sim/sim.h" ]
