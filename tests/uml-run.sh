#!/usr/bin/env bash
# Runs a command inside User-Mode Linux, a real kernel with sch_netem and all
# other qdiscs, with this machine's file system as its root.
#
# usage: tests/uml-run.sh [-t SECONDS] COMMAND [ARGUMENT...]
#
# Exits with the command's status; 125: UML did not run it (why is printed); 77:
# this machine has no UML; 124: it ran past the time given. Everything runs in a
# pid namespace of its own, so that nothing is left when this script ends,
# however it ends.
set -u

limit_s=300
while getopts t: opt; do
	case $opt in
	t) limit_s=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }

uml=/usr/bin/linux.uml
modules=/usr/lib/uml/modules
if [ ! -x $uml ] || [ ! -d $modules ]; then
	echo "uml-run: no User-Mode Linux here (Debian package user-mode-linux)" >&2
	exit 77
fi

# The guest reads its init from here; its memory file wants a tmpfs that allows
# execution, which the guest cannot see (it has its own /dev).
dir=$(mktemp -d "${TMPDIR:-/tmp}/bace-uml.XXXXXX") || exit 125
memory=$dir
[ -d /dev/shm ] && [ -w /dev/shm ] && memory=$(mktemp -d /dev/shm/bace-uml.XXXXXX)
trap 'rm -rf "$dir" "$memory"' EXIT
trap 'exit 143' INT TERM HUP
marker="uml-run-status-$$-$RANDOM"

# The guest's init. It gets the caller's environment and directory.
{
	echo '#!/bin/bash'
	export -p
	cat <<-GUEST
	export HOME=/run TMPDIR=/run/tmp XTABLES_LOCKFILE=/run/xtables.lock
	export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	export BACE_IN_UML=1
	mount -t proc proc /proc
	mount -t sysfs sysfs /sys
	mount -t tmpfs tmpfs /run
	mkdir -p /run/netns /run/tmp /run/m/lib
	ln -s $modules /run/m/lib/modules
	for m in ipv6 veth dummy ifb bridge sch_htb sch_netem sch_ingress sch_fq sch_fq_codel sch_mqprio \\
		sch_prio sch_tbf cls_u32 cls_flower cls_matchall act_mirred act_gact tun ip_tables \\
		iptable_mangle ip6_tables ip6table_mangle nfnetlink_queue xt_NFQUEUE tcp_bbr bonding; do
		modprobe -q -d /run/m \$m 2>/dev/null
	done
	ip link set lo up
	cd $(printf %q "$PWD")
	$(printf '%q ' "$@")
	echo "$marker \$?"
	echo o > /proc/sysrq-trigger
	sleep 60
	GUEST
} > "$dir/init"
chmod +x "$dir/init"

namespace=(unshare --fork --pid --kill-child)
[ "$(id -u)" = 0 ] || namespace=(unshare --user --map-root-user --fork --pid --kill-child)
HOME=$memory TMPDIR=$memory timeout --foreground -k 5 "$limit_s" "${namespace[@]}" \
	$uml mem=1G root=/dev/root rootfstype=hostfs rootflags=/ rw init="$dir/init" \
	loglevel=1 panic=-1 con0=fd:0,fd:1 con=null ssl=null uml_dir="$memory/uml" umid=guest \
	</dev/null >"$dir/output" 2>"$dir/errors" &
machine=$!
trap 'kill $machine 2>/dev/null; exit 143' INT TERM HUP
wait $machine
machine_status=$?

tr -d '\r' < "$dir/output" | sed "/^$marker /,\$d"
status=$(tr -d '\r' < "$dir/output" | sed -n "s/^$marker \([0-9]*\)$/\1/p" | tail -n 1)
[ -n "$status" ] && exit "$status"
[ $machine_status = 124 ] || [ $machine_status = 137 ] && { echo "uml-run: stopped after $limit_s s" >&2; exit 124; }
echo "uml-run: UML did not run the command (status $machine_status); its last words:" >&2
tail -n 5 "$dir/errors" >&2
exit 125
