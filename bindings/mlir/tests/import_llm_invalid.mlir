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

// -----

!llm = !llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>

func.func @num_heads(%cache: !llm, %query: tensor<1x3x4x32xf16>, %blocks: tensor<1x1xi32>, %lens: tensor<1xi32>) {
  // expected-error @below {{'llm.paged_attention' op num_heads is 8; the type of its operand has 4}}
  %o = llm.paged_attention %query, %cache, %blocks, %lens {num_heads = 8 : i32} : (tensor<1x3x4x32xf16>, !llm, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x3x4x32xf16>
  return
}

// -----

!llm = !llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>

func.func @results(%cache: !llm, %blocks: tensor<1x1xi32>, %lens: tensor<1xi32>) {
  // expected-error @below {{'llm.lookup_kv' op has results 'tensor<1x?x4x32xf16>' and 'tensor<1x?x4x32xf16>'; they must be equal and static}}
  %k, %v = llm.lookup_kv %cache, %blocks, %lens : (!llm, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x?x4x32xf16>, tensor<1x?x4x32xf16>)
  return
}

// -----

// expected-error @below {{'func.func' op has a cache of llm and no body; the importer needs it}}
func.func private @external(!llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>)

// -----

!llm = !llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>

func.func @from_elsewhere(%other: i32, %blocks: tensor<1x1xi32>, %lens: tensor<1xi32>) {
  %cache = builtin.unrealized_conversion_cast %other : i32 to !llm
  // expected-error @below {{'llm.lookup_kv' op has a cache that is neither an argument of its function nor that of an append}}
  %k, %v = llm.lookup_kv %cache, %blocks, %lens : (!llm, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x8x4x32xf16>, tensor<1x8x4x32xf16>)
  return
}

// -----

!llm = !llm.paged_kv_cache<f16, 1, 4, 32, 32, 128>

func.func @used_elsewhere(%cache: !llm) {
  // expected-error @below {{'builtin.unrealized_conversion_cast' op uses a cache of llm; inline it first}}
  %other = builtin.unrealized_conversion_cast %cache : !llm to i32
  return
}
