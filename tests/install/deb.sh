#!/bin/sh
# deb.sh SOURCE: the Debian packages build, install, work and go again without a
# trace. Installed for real, but in an overlay over this system that nobody else
# sees and that ends with the test.
set -eu
if [ "${2:-}" = inside ]; then
	dir=$3
	mount -t tmpfs tmpfs "$dir/over"
	mkdir "$dir/over/upper" "$dir/over/work" "$dir/over/root"
	mount -t overlay -o "lowerdir=/,upperdir=$dir/over/upper,workdir=$dir/over/work" overlay "$dir/over/root" ||
		{ echo "skipped: built, but no overlay to install into"; exit 77; }
	for path in dev proc sys; do mount --rbind "/$path" "$dir/over/root/$path"; done
	mount -t tmpfs tmpfs "$dir/over/root/tmp"
	cp "$dir"/*.deb "$1/tests/install/model.c" "$dir/over/root/tmp"
	cat >"$dir/over/root/tmp/script" <<'END'
set -eux
cd /tmp
getent group bace && groupdel bace
dpkg -i ./*.deb
getent group bace
for program in bace bace-agent bace-shaperd bace-worker; do
	[ "$(which $program)" = /usr/bin/$program ]
	$program --version
done
bace check six-regions
bace sim tiny
# What a busy machine says of a link or a cell, as tests/common/outcome.py has it.
for try in 1 2 3 4 5; do
	bace --store /tmp/run.db run tiny 2>said && break
	cat said
	grep -qE 'the machine is overloaded|out of tolerance: RTT [+]' said && [ $try -lt 5 ] || exit 1
	sleep 5
done
bace --store /tmp/run.db report last -o /tmp/run.html
for page in man1/bace.1 man1/bace-run.1 man1/bace-agent.1 man8/bace-shaperd.8; do
	[ -f /usr/share/man/$page.gz ]
done
for unit in bace-agent bace-shaperd; do
	[ -f /lib/systemd/system/$unit.service ] && [ -f /etc/default/$unit ]
done
grep -q 'name the interfaces' /lib/systemd/system/bace-shaperd.service
# shellcheck disable=SC2046
cc -std=gnu17 -o model model.c $(pkg-config --static --cflags --libs bace-model)
[ "$(./model)" = 10 ]
dpkg --purge bace libbace-model-dev
[ ! -e /etc/default/bace-agent ] && [ ! -e /usr/share/bace ] && [ ! -e /usr/include/bace ]
END
	chroot "$dir/over/root" sh /tmp/script >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; exit 1; }
	exit 0
fi
command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null || {
	echo "skipped: no dpkg-buildpackage or debhelper"
	exit 77
}
[ "$(id -u)" = 0 ] || { echo "skipped: installs packages, which wants root"; exit 77; }
dir=$(mktemp -d /tmp/bace-deb-test-XXXXXX)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/over"
"$1/packaging/build-deb.sh" "$dir" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; exit 1; }
rm -f "$dir"/*-dbgsym_*.deb
dpkg-deb --field "$dir"/bace_*.deb Package Version Depends
unshare --mount --propagation private sh "$0" "$1" inside "$dir"
