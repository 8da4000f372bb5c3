// SPDX-License-Identifier: Apache-2.0
// kvc-opt: mlir-opt with the kvc dialect.
#include <mlir/Tools/mlir-opt/MlirOptMain.h>

#include "dialects.h"

int main(int argc, char** argv) {
  mlir::kvc::register_passes();
  mlir::DialectRegistry registry;
  mlir::kvc::register_dialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "The kvc dialect: a KV cache of blocks on libkvcache\n", registry));
}
