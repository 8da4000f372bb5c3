#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# package.sh <cc> <cxx> <pkg-config> <version> <GPU backends> <work folder> <package>...: unpacks Debian packages, or one archive, into
# an empty folder, and uses what lies there: programs built by pkg-config and by CMake, the command, and the backends.
set -eu
cc=$1 cxx=$2 pkg_config=$3 version=$4 backends=$5 work=$6
shift 6
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
fail() { echo "package.sh: $*" >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work/root"
for package in "$@"; do
  case $package in
    *.deb)
      for field in Section Description Depends; do
        [ -n "$(dpkg-deb -f "$package" "$field")" ] || fail "$package has no field $field"
      done
      case $package in
        */libkvcache-cuda_* | */libkvcache-hip_*)
          depends=$(dpkg-deb -f "$package" Depends)
          echo "$depends" | grep -q "\blibkvcache0 (= $version" || fail "$package does not need libkvcache0 of its own version: $depends"
          case $package in
            *-hip_*) echo "$depends" | grep -q '\blibamdhip64' || fail "$package does not need the runtime of HIP: $depends" ;;
            *) if echo "$depends" | grep -Eqi 'cuda|nvidia'; then fail "$package needs a driver to be installed: $depends"; fi ;;
          esac ;;
        */libkvcache0_*) dpkg-deb -f "$package" Depends | grep -q '\blibc6 (>=' || fail "$package names no version of libc6" ;;
      esac
      dpkg-deb -x "$package" "$work/root" ;;
    *.tar.gz) tar -xzf "$package" -C "$work/root" ;;
    *) fail "$package: neither a Debian package nor an archive" ;;
  esac
done

pc=$(find "$work/root" -name kvcache.pc)
command=$(find "$work/root" -type f -path '*/bin/kvcache')
[ -n "$pc" ] && [ -n "$command" ] || fail "kvcache.pc or the command is missing"
prefix=$(dirname "$(dirname "$command")")
libdir=$(dirname "$(dirname "$pc")")
for file in "$libdir/libkvcache.so.0" "$libdir/libkvcache.a" "$prefix/include/kvcache.h" "$prefix/include/kvcache.hpp" \
  "$prefix/include/kvcache/attention.h" "$prefix/include/kvcache/storage.hpp" "$prefix"/share/man/man1/kvcache.1* "$prefix/share/bash-completion/completions/kvcache" \
  "$prefix/share/fish/vendor_completions.d/kvcache.fish"; do
  [ -e "$file" ] || fail "$file is missing"
done
for file in README.md docs/FAQ.md docs/SEMANTICS.md $(cd "$here/../.." && ls examples/[0-9]*); do
  [ -n "$(find "$prefix/share/doc" -path "*/$file")" ] || fail "no $file below $prefix/share/doc"
done
if readelf -S --wide "$libdir/libkvcache.so.0" | grep -q '\.symtab'; then fail "libkvcache.so.0 is not stripped"; fi

sh "$here/pkg_config/run.sh" "$pkg_config" "$cc" "$prefix" "${libdir#"$prefix"/}" "$version" "$work/pkg_config"
ctest --build-and-test "$here/find_package" "$work/find_package" --build-generator Ninja \
  --build-options "-DCMAKE_PREFIX_PATH=$prefix" "-Dexpected_version=$version" "-Dexpected_prefix=$prefix" -Dwith_static=ON \
  "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_COMPILER=$cxx" \
  --test-command ctest --output-on-failure --no-tests=error
# Below /usr the loader's own folders hold the library; here it has to be told.
if [ "$(basename "$prefix")" = usr ]; then
  LD_LIBRARY_PATH=$libdir
  export LD_LIBRARY_PATH
fi
unset KVC_BACKEND_PATH
"$command" info --json >"$work/info.json"
grep -q "\"$version\"" "$work/info.json" || fail "kvcache info does not say $version"
for backend in $backends; do
  if readelf -S --wide "$libdir/kvcache/libkvcache_$backend.so" | grep -q '\.symtab'; then fail "libkvcache_$backend.so is not stripped"; fi
  grep -q "\"path\": \"[^\"]*/kvcache/libkvcache_$backend.so\"" "$work/info.json" || fail "kvcache info does not find libkvcache_$backend.so"
done
for file in "$libdir"/kvcache/libkvcache_*.so; do
  [ -e "$file" ] || continue
  name=${file##*/libkvcache_}
  case " $backends " in *" ${name%.so} "*) continue ;; esac
  [ "$(nm -D --defined-only "$file" | cut -d' ' -f3)" = kvc_plugin_entry_v1 ] || fail "$file is neither a backend that was expected nor a plug-in"
  if readelf -S --wide "$file" | grep -q '\.symtab'; then fail "$file is not stripped"; fi
done
