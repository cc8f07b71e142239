# Sourced by demo.sh and test.sh: installs what is missing (root) or says what
# to install (exit 3), then builds into $BUILD.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${BUILD:-$root/build}
start_s=$SECONDS

say() { printf '[%3d s] %s\n' $((SECONDS - start_s)) "$*"; }

missing_packages() {	# LIST
	local want
	want=$(grep -v '^#' "$root/.ci/$1")
	# shellcheck disable=SC2086
	comm -23 <(printf '%s\n' $want | sort) <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $want 2>/dev/null |
		awk '$2 == "installed" { print $1 }' | sort) | tr '\n' ' '
}

# A list of .ci/; "optional": without them something is skipped.
install_packages() {
	local list=$1 optional=${2:-} missing
	if ! command -v dpkg-query >/dev/null; then
		say "not a Debian system: taking the packages of .ci/$list for granted"
		return
	fi
	missing=$(missing_packages "$list")
	if [ -z "$missing" ]; then
		say "$list: all present"
		return
	fi
	if [ "$(id -u)" != 0 ] && [ -n "$optional" ]; then
		say "some tests will skip without: $missing"
		return
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "packages are missing; as root, run:" >&2
		echo "  apt-get install -y --no-install-recommends $missing" >&2
		exit 3
	fi
	say "installing: $missing"
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086
	if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } \
			>"$root/.apt.log" 2>&1 </dev/null; then
		tail -n 20 "$root/.apt.log" >&2
		echo "could not install: $missing" >&2
		[ -n "$optional" ] || exit 3
	fi
	rm -f "$root/.apt.log"
}

# Targets of ninja; none: everything.
build() {
	local path log=$BUILD/build.log
	# What root made and left, e.g. by one `sudo ./demo.sh`: else it is a stray "Permission denied" later.
	for path in "$BUILD" "$root/results/bace.db"; do
		if [ -e "$path" ] && [ ! -w "$path" ]; then
			echo "$path is not yours: chown -R $(id -un) $path, or set BUILD to another folder" >&2
			exit 3
		fi
	done
	mkdir -p "$BUILD"
	say "building into $BUILD"
	if [ ! -f "$BUILD/build.ninja" ]; then
		meson setup "$BUILD" "$root" >"$log" 2>&1 ||
			{ tail -n 30 "$log" >&2; exit 1; }
	fi
	ninja -C "$BUILD" "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; exit 1; }
	rm -f "$log"
	say "built"
}
