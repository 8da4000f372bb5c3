#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pack.sh <TGZ or DEB> <build folder> <work folder> <cc> <cxx> <pkg-config> <version> [<GPU backends>]: packs that build by cpack and
# uses the result.
set -eu
generator=$1 build=$2 work=$3 cc=$4 cxx=$5 pkg_config=$6 version=$7 backends=${8:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ "$generator" = DEB ] && ! command -v dpkg-shlibdeps >/dev/null; then
  echo "skipped: there is no dpkg-shlibdeps (package dpkg-dev)"
  exit 77
fi

rm -rf "$work"
cpack --config "$build/CPackConfig.cmake" -G "$generator" -B "$work/packages"
case $generator in
  TGZ) set -- "$work"/packages/*.tar.gz ;;
  DEB) set -- "$work"/packages/*.deb ;;
esac
sh "$here/package.sh" "$cc" "$cxx" "$pkg_config" "$version" "$backends" "$work/used" "$@"
