#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vendor_build.sh cuda|hip: that vendor's backend compiles without the other's compiler, as a part of the library and as a library of its
# own, says why it finds no device, and goes into a package. Needs no GPU.
set -eu
cd "$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)"
vendor=$1 build=build/gpu-$1
version=$(sed -n 's/^#define KVC_VERSION_[MP][A-Z]* *\([0-9]*\).*/\1/p' include/kvcache.h | paste -sd.)

for static in ON OFF; do
  cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release "-DKVC_GPU=$vendor" -DKVC_STATIC_BACKENDS=$static -DKVC_TESTS=OFF -DKVC_BENCH=OFF \
    -DKVC_EXAMPLES=OFF
  cmake --build "$build"
  KVC_BACKEND_PATH=$PWD/$build/lib "$build/bin/kvcache" info
  parts=$("$build/bin/kvcache" info --json | grep -c '"path": ""')
  [ "$parts" = "$([ $static = ON ] && echo 2 || echo 1)" ] # the CPU is one
  KVC_LIBRARY=$build/lib/libkvcache.so KVC_COMMAND=$build/bin/kvcache python3 tests/gpu/backends_test.py
done
sh tests/consumer/pack.sh DEB "$build" "$PWD/$build/packed" cc c++ pkg-config "$version" "$vendor"
