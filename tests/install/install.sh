#!/bin/sh
# install.sh BUILD SOURCE: installed under DESTDIR, everything is there, and the
# library serves a program of somebody else's.
set -eu
build=$1
source=$2
dir=$(mktemp -d /tmp/bace-install-XXXXXX)
trap 'rm -rf "$dir"' EXIT
DESTDIR=$dir meson install -C "$build" --no-rebuild >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
bin=$(dirname "$(find "$dir" -name bace -path '*/bin/*' -type f)")
prefix=$(dirname "$bin")
for file in bin/bace bin/bace-agent bin/bace-shaperd bin/bace-worker share/bace/profiles/experiments/tiny.cfg \
	share/bace/profiles/policies/largest_region.py share/doc/bace/policy.md share/man/man1/bace.1 share/man/man1/bace-run.1 share/man/man8/bace-shaperd.8 \
	share/bash-completion/completions/bace share/zsh/site-functions/_bace include/bace/harness/sim/sim.h; do
	[ -f "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
# The service's shaper is told its interfaces, or does not start.
unit=$prefix/lib/systemd/system/bace-shaperd.service
refuse=$(sed -n "s/^ExecStartPre=\/bin\/sh -c '\(.*\)'\$/\1/p" "$unit" | sed 's/\$\$/$/g')
BACE_SHAPERD_OPTS="--prefix 10.0.0.0/8 --iface eth1" sh -ec "$refuse"
for opts in "" "--prefix 10.0.0.0/8"; do
	if said=$(BACE_SHAPERD_OPTS=$opts sh -ec "$refuse" 2>&1) || [ "${said%%:*}" != "name the interfaces" ]; then
		echo "the service would start with \"$opts\": $said"
		exit 1
	fi
done
cd "$dir"
BACE_PROFILES=$prefix/share/bace/profiles "$bin/bace" check tiny >/dev/null
BACE_PROFILES=$prefix/share/bace/profiles "$bin/bace" doctor --json | grep -q '"programs"'
pc=$(find "$prefix" -name bace-model.pc)
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR= pkg-config --define-variable=prefix="$prefix" \
	--static --cflags --libs bace-model)
# shellcheck disable=SC2086
${CC:-cc} -std=gnu17 -o model "$source/tests/install/model.c" $flags || { echo "flags: $flags"; exit 1; }
[ "$(./model)" = 10 ]
echo "installed $(find "$prefix" -type f | wc -l) files, the library works"
