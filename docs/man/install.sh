#!/bin/sh
# install.sh MADE MANDIR DATADIR: pages and completion into the prefix.
set -e
made=$1
man=$MESON_INSTALL_DESTDIR_PREFIX/$2/man1
data=$MESON_INSTALL_DESTDIR_PREFIX/$3
mkdir -p "$man" "$data/bash-completion/completions" "$data/zsh/site-functions"
for page in "$made"/*.1; do
	install -m 644 "$page" "$man/"
done
install -m 644 "$made/bace.bash" "$data/bash-completion/completions/bace"
install -m 644 "$made/_bace" "$data/zsh/site-functions/_bace"
