// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-to-calls -verify-diagnostics

func.func @tensors(%cache: !kvc.paged_cache<f16, 1, 2, 8, 4, 16>, %k: tensor<1x2x8xf32>, %slots: tensor<1xi64>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'kvc.append_kv' op has tensors; run one-shot-bufferize before kvc-to-calls}}
  kvc.append_kv %k, %k into %cache[%c0] slots(%slots : tensor<1xi64>) : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !kvc.paged_cache<f16, 1, 2, 8, 4, 16>
  return
}
