#!/usr/bin/env bash
# Runs ./demo.sh and ./test.sh from a fresh clone on a fresh Debian 12: a root
# file system made by debootstrap in a directory of its own, with its own
# package database, so that nothing installed by hand on this machine helps.
# Needs root, debootstrap and a Debian mirror (the one of this machine's apt).
#
# usage: tests/fresh.sh [DIR]     (default: a new directory, removed at the end)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "fresh.sh: must be root, for debootstrap and chroot" >&2; exit 3; }
command -v debootstrap >/dev/null ||
	{ echo "fresh.sh: apt-get install debootstrap" >&2; exit 3; }

keep=${1:-}
dir=${keep:-$(mktemp -d /var/tmp/bace-fresh.XXXXXX)}

# In a mount and pid namespace of its own: its mounts and processes end with it.
if [ -z "${BACE_FRESH_INSIDE:-}" ]; then
	status=0
	BACE_FRESH_INSIDE=1 unshare --mount --pid --fork --kill-child --propagation private \
		"$0" "$dir" || status=$?
	[ -n "$keep" ] || rm -rf "$dir"
	exit "$status"
fi

mirror=$(apt-get indextargets --format '$(SITE)|$(CODENAME)|$(CREATED_BY)' 2>/dev/null |
	awk -F'|' '$2 == "bookworm" && $3 == "Packages" { print $1; exit }')
[ -d "$dir/usr" ] || debootstrap --variant=minbase --include=ca-certificates,git bookworm "$dir" \
	"${mirror:?no Debian 12 source in apt}"
# The clone must use the same package source as this machine.
for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d \
	/etc/apt/keyrings /etc/resolv.conf /etc/hosts /etc/ssl/certs; do
	[ ! -e "$path" ] || { mkdir -p "$dir$(dirname "$path")"; cp -aLT "$path" "$dir$path" 2>/dev/null || true; }
done
chmod 755 "$dir"	# it is /, for everybody
# A root that is a mount of its own, as on a real machine.
mount --bind "$dir" "$dir"
mount -t proc proc "$dir/proc"
mount --rbind /sys "$dir/sys"
mount --rbind /dev "$dir/dev"
mount -t tmpfs tmpfs "$dir/tmp"
rm -rf "$dir/src"
git clone -q "$here" "$dir/src"
for script in demo.sh test.sh; do
	echo "== $script"
	chroot "$dir" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
		"/src/$script"
done
