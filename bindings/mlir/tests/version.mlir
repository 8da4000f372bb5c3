// SPDX-License-Identifier: Apache-2.0
// Another version of MLIR is refused, and a missing one is said, when the build is configured.
// RUN: rm -rf %t && mkdir -p %t/other
// RUN: echo "set(LLVM_VERSION_MAJOR 18)" > %t/other/MLIRConfig.cmake
// RUN: echo "set(LLVM_PACKAGE_VERSION 18.1.3)" >> %t/other/MLIRConfig.cmake
// RUN: not cmake -S %root -B %t/a %options -DMLIR_DIR=%t/other 2>&1 | tr -s ' \n' ' ' | FileCheck %s --check-prefix=OTHER
// RUN: not cmake -S %root -B %t/b %options -DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON 2>&1 | tr -s ' \n' ' ' | FileCheck %s --check-prefix=MISSING

// OTHER: has version 18.1.3; the dialect needs 19
// OTHER: give -DMLIR_DIR=
// MISSING: MLIR was not found: run scripts/mlir
