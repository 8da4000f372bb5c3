#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# go.sh <go> <sources> <folder of libraries> <go cache> <version>: programs outside the tree take the module as docs/GO.md says, without
# a network: from a tag of a repository, from the module cache of another machine, and from a folder.
set -eu
go=$1 sources=$2 libdir=$3 GOCACHE=$4 version=$5
module=github.com/libkvcache/libkvcache/bindings/go
command -v git >/dev/null || { echo "no git"; exit 77; }
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export GOCACHE GOMODCACHE="$work/cache" GOSUMDB=off GOFLAGS='' PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"

# A repository that has the module's tag, in place of the one at the module's address.
mkdir -p "$work/repository/bindings"
cp -R "$sources/bindings/go" "$work/repository/bindings/go"
cp "$sources/LICENSE" "$work/repository"
export HOME="$work" GIT_CONFIG_NOSYSTEM=1 GIT_ALLOW_PROTOCOL=file
git config --global "url.file://$work/repository.insteadOf" https://github.com/libkvcache/libkvcache
git config --global user.name test
git config --global user.email test@localhost
git -C "$work/repository" init -q
git -C "$work/repository" add .
git -C "$work/repository" commit -q -m release
git -C "$work/repository" tag "bindings/go/v$version"

# fresh <name>: an empty folder with a program that is not a module yet.
fresh() {
  mkdir "$work/$1"
  cp "$sources/bindings/go/testdata/consumer/main.go" "$work/$1"
  cd "$work/$1"
  "$go" mod init consumer 2>/dev/null
}

fresh from_tag
GOPROXY=direct "$go" get "$module@v$version"
"$go" run .
"$go" doc "$module" Manager.EvictBlocks | grep -q maxBlocks

chmod u+w "$work/cache"
mv "$work/cache" "$work/proxy" # in a folder of the same name it is not compiled again
fresh from_proxy
GOPROXY="file://$work/proxy/cache/download" "$go" get "$module@v$version"
GOPROXY=off "$go" run .

fresh from_folder
GOMODCACHE="$work/none" GOPROXY=off "$go" mod edit -require "$module@v$version" -replace "$module=$sources/bindings/go"
GOMODCACHE="$work/none" GOPROXY=off "$go" run .
