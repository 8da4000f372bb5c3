// SPDX-License-Identifier: Apache-2.0
// LLMIR's spellings are read, imported, and lowered like any other program.
// RUN: kvc-opt %s | kvc-opt | FileCheck %s --check-prefix=LLM
// RUN: kvc-opt %s --kvc-import-llm="blocks=64" | FileCheck %s
// RUN: kvc-opt %s --pass-pipeline="builtin.module(kvc-import-llm{blocks=64},func.func(convert-elementwise-to-linalg),one-shot-bufferize{bufferize-function-boundaries=true},kvc-to-calls)" | FileCheck %s --check-prefix=CALLS

// LLM: llm.append_kv %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {block_size = 32 : i32, max_seq_len = 128 : i32} : (!llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>
// CALLS: llvm.call @kvc_storage_store
// CALLS: llvm.call @kvc_storage_attend
// CALLS: llvm.call @kvc_storage_gather

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[CACHE:[^:]*]]: !kvc.paged_cache<f32, 1, 4, 32, 32, 64>
// CHECK-SAME: %[[SLOTS:[^:]*]]: tensor<?xi64>, %[[TABLES:[^:]*]]: tensor<?x?xi32>) -> (tensor<2x1x8x32xf32>, !kvc.paged_cache<f32, 1, 4, 32, 32, 64>, tensor<2x8x4x32xf32>)
// CHECK: kvc.append_kv %{{.*}}, %{{.*}} into %[[CACHE]][%{{.*}}] slots(%[[SLOTS]] : tensor<?xi64>) : tensor<2x4x32xf32>
// CHECK: %[[LENS:.*]] = arith.extsi %{{.*}} : tensor<2xi32> to tensor<2xi64>
// CHECK: kvc.paged_attention %{{.*}}, %[[CACHE]][%{{.*}}] tables(%[[TABLES]] : tensor<?x?xi32>) lens(%[[LENS]] : tensor<2xi64>) offsets(
// CHECK-SAME: {scale = 1.250000e-01 : f32}
// CHECK: scf.for
// CHECK: kvc.lookup_kv %[[CACHE]][%{{.*}}] table(
// CHECK-NOT: llm.
func.func @step(%cache: !llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, %keys: tensor<2x1x4x32xf32>, %values: tensor<2x1x4x32xf32>,
                %ids: tensor<2xi32>, %lens: tensor<2xi32>, %query: tensor<2x1x8x32xf32>)
    -> (tensor<2x1x8x32xf32>, !llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, tensor<2x8x4x32xf32>) {
  %new, %blocks = llm.append_kv %cache, %keys, %values, %ids {block_size = 32 : i32, max_seq_len = 128 : i32}
      : (!llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, tensor<2x1x4x32xf32>, tensor<2x1x4x32xf32>, tensor<2xi32>)
      -> (!llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, tensor<2x1xi32>)
  %out = llm.paged_attention %query, %new, %blocks, %lens {num_heads = 8 : i32, head_dim = 32 : i32, scale = 0.125 : f32}
      : (tensor<2x1x8x32xf32>, !llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x1x8x32xf32>
  %k, %v = llm.lookup_kv %new, %blocks, %lens {num_heads = 4 : i32, head_dim = 32 : i32}
      : (!llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, tensor<2x1xi32>, tensor<2xi32>) -> (tensor<2x8x4x32xf32>, tensor<2x8x4x32xf32>)
  return %out, %new, %k : tensor<2x1x8x32xf32>, !llm.paged_kv_cache<f32, 1, 4, 32, 32, 128>, tensor<2x8x4x32xf32>
}

// Two appends of two layers stay two, in order; a table that is an argument is used as it is.
// CHECK-LABEL: func.func @layers(
// CHECK-SAME: %[[GIVEN:[^:]*]]: tensor<1x4xi32>
// CHECK: arith.constant 0 : index
// CHECK: kvc.append_kv
// CHECK: arith.constant 1 : index
// CHECK: kvc.append_kv
// CHECK: kvc.paged_attention {{.*}} tables(%[[GIVEN]] : tensor<1x4xi32>)
func.func @layers(%table: tensor<1x4xi32>, %cache: !llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>, %keys: tensor<1x3x4x32xf16>,
                  %ids: tensor<1xi32>, %lens: tensor<1xi32>, %query: tensor<1x3x4x32xf16>) -> tensor<1x3x4x32xf16> {
  %c1, %b1 = llm.append_kv %cache, %keys, %keys, %ids {layer = 0 : i32}
      : (!llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>, tensor<1x3x4x32xf16>, tensor<1x3x4x32xf16>, tensor<1xi32>)
      -> (!llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>, tensor<1x1xi32>)
  %c2, %b2 = llm.append_kv %c1, %keys, %keys, %ids {layer = 1 : i32}
      : (!llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>, tensor<1x3x4x32xf16>, tensor<1x3x4x32xf16>, tensor<1xi32>)
      -> (!llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>, tensor<1x1xi32>)
  %out = llm.paged_attention %query, %c2, %table, %lens {layer = 1 : i32}
      : (tensor<1x3x4x32xf16>, !llm.paged_kv_cache<f16, 2, 4, 32, 32, 128>, tensor<1x4xi32>, tensor<1xi32>) -> tensor<1x3x4x32xf16>
  return %out : tensor<1x3x4x32xf16>
}
