#!/bin/sh
# install.sh MADE MANDIR DATADIR: pages and completion into the prefix.
set -e
made=$1
man=$MESON_INSTALL_DESTDIR_PREFIX/$2
data=$MESON_INSTALL_DESTDIR_PREFIX/$3
mkdir -p "$man/man1" "$man/man8" "$data/bash-completion/completions" "$data/zsh/site-functions"
install -m 644 "$made"/*.1 "$man/man1/"
install -m 644 "$made"/*.8 "$man/man8/"
install -m 644 "$made/bace.bash" "$data/bash-completion/completions/bace"
install -m 644 "$made/_bace" "$data/zsh/site-functions/_bace"
