#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh <pkg-config> <cc> <prefix> <libdir> <version> <work folder> [backend...]: builds main.c by what kvcache.pc says, with the shared
# library and with the static one, and runs it.
set -eu
pkg_config=$1 cc=$2 prefix=$3 libdir=$4 version=$5 work=$6
shift 6
backends=$*
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
case $pkg_config in
  *-NOTFOUND | '') echo "skipped: there is no pkg-config (package pkg-config)"; exit 77 ;;
esac

build_and_run() { # build_and_run <prefix>
  PKG_CONFIG_PATH="$1/$libdir/pkgconfig"
  export PKG_CONFIG_PATH
  found=$("$pkg_config" --modversion kvcache)
  [ "$found" = "$version" ] || { echo "kvcache.pc says $found, not $version" >&2; exit 1; }
  # shellcheck disable=SC2046,SC2086 # the words are separate arguments
  "$cc" -std=c11 -Wall -Wextra -Werror "$here/main.c" -o "$work/main" $("$pkg_config" --cflags --libs kvcache)
  LD_LIBRARY_PATH="$1/$libdir" "$work/main" "$version" $backends
  [ -e "$1/$libdir/libkvcache.a" ] || return 0
  # shellcheck disable=SC2046,SC2086
  "$cc" -std=c11 "$here/main.c" -o "$work/main" $("$pkg_config" --cflags --static --libs kvcache | sed 's/-lkvcache /-l:libkvcache.a /')
  "$work/main" "$version" $backends
}

rm -rf "$work"
mkdir -p "$work"
build_and_run "$prefix"
# Again after the tree was moved: every path in kvcache.pc must be relative to the file.
cp -a "$prefix" "$work/moved"
build_and_run "$work/moved"
case $("$pkg_config" --cflags --libs kvcache) in
  *"$prefix"*) echo "kvcache.pc still names $prefix after a move" >&2; exit 1 ;;
esac
