#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# go.sh <go> <module> <folder of libraries> <go cache>: a program outside the tree takes a copy of the module, as `go get` would make,
# and an installed library, without a network.
set -eu
go=$1 module=$2 libdir=$3 GOCACHE=$4
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

cp -R "$module" "$work/module"
chmod -R a-w "$work/module" # the module cache cannot be written either
mkdir "$work/program"
cp "$module/testdata/consumer/main.go" "$work/program"
cd "$work/program"
export GOCACHE GOPROXY=off GOFLAGS=-mod=mod PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
"$go" mod init consumer
"$go" mod edit -require libkvcache/bindings/go@v0.0.0 -replace "libkvcache/bindings/go=$work/module"
"$go" run .
