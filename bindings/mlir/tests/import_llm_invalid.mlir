// SPDX-License-Identifier: Apache-2.0
// What the importer cannot know it says.
// RUN: kvc-opt %s --kvc-import-llm="blocks=64" -split-input-file -verify-diagnostics
// RUN: not kvc-opt %s --kvc-import-llm -split-input-file 2>&1 | FileCheck %s
// CHECK: kvc-import-llm needs the option blocks: a cache of llm does not say how many it has

!llm = !llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>

func.func @layer(%cache: !llm, %keys: tensor<1x3x4x32xf16>, %ids: tensor<1xi32>) {
  // expected-error @below {{'llm.append_kv' op has no attribute `layer`, and its cache has 2 layers; set it to 0 .. 1}}
  %c, %b = llm.append_kv %cache, %keys, %keys, %ids : (!llm, tensor<1x3x4x32xf16>, tensor<1x3x4x32xf16>, tensor<1xi32>) -> (!llm, tensor<1x1xi32>)
  return
}

// -----

!llm = !llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>

func.func @block_size(%cache: !llm, %keys: tensor<1x3x4x32xf16>, %ids: tensor<1xi32>) {
  // expected-error @below {{'llm.append_kv' op block_size is 16; the type of its operand has 32}}
  %c, %b = llm.append_kv %cache, %keys, %keys, %ids {block_size = 16 : i32} : (!llm, tensor<1x3x4x32xf16>, tensor<1x3x4x32xf16>, tensor<1xi32>) -> (!llm, tensor<1x1xi32>)
  return
}

// -----

!llm = !llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>

func.func @blocks_used(%cache: !llm, %keys: tensor<1x3x4x32xf16>, %ids: tensor<1xi32>) -> tensor<1x1xi32> {
  // expected-error @below {{'llm.append_kv' op has a result that an op outside llm uses; it has no meaning in kvc}}
  %c, %b = llm.append_kv %cache, %keys, %keys, %ids : (!llm, tensor<1x3x4x32xf16>, tensor<1x3x4x32xf16>, tensor<1xi32>) -> (!llm, tensor<1x1xi32>)
  return %b : tensor<1x1xi32>
}

// -----

!llm = !llm.paged_kv_cache<f64, 1, 4, 32, 32, 128>

// expected-error @below {{element type is 'f64'; use f32, f16, bf16, f8E4M3FN, f8E5M2, i8 or i4}}
func.func @element(%cache: !llm) {
  return
}
