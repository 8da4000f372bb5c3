// SPDX-License-Identifier: Apache-2.0
// What is printed is what was read, in the custom and in the generic form.
// RUN: kvc-opt %s | kvc-opt | FileCheck %s
// RUN: kvc-opt %s --mlir-print-op-generic | kvc-opt | FileCheck %s

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: !kvc.paged_cache<f16, 12, 16, 64, 16, 4096>
// CHECK-SAME: !kvc.paged_cache<f32, 1, 1, 1, 1, 1>
// CHECK-SAME: !kvc.paged_cache<bf16, 2, 3, 4, 5, 6>
// CHECK-SAME: !kvc.paged_cache<f8E4M3FN, 2, 3, 4, 5, 6>
// CHECK-SAME: !kvc.paged_cache<f8E5M2, 2, 3, 4, 5, 6>
// CHECK-SAME: !kvc.paged_cache<i8, 2, 3, 4, 5, 6>
// CHECK-SAME: !kvc.paged_cache<i4, 2, 8, 16, 64, 2147483582>
func.func private @types(!kvc.paged_cache<f16, 12, 16, 64, 16, 4096>, !kvc.paged_cache<f32, 1, 1, 1, 1, 1>,
                 !kvc.paged_cache<bf16, 2, 3, 4, 5, 6>, !kvc.paged_cache<f8E4M3FN, 2, 3, 4, 5, 6>,
                 !kvc.paged_cache<f8E5M2, 2, 3, 4, 5, 6>, !kvc.paged_cache<i8, 2, 3, 4, 5, 6>,
                 !kvc.paged_cache<i4, 2, 8, 16, 64, 2147483582>)

// CHECK-LABEL: func.func @handles
func.func @handles(%tokens: memref<?xi32>, %slots: memref<?xi64>, %table: memref<?xi32>, %first: index,
                   %count: index) {
  // CHECK: kvc.create_manager blocks = 64, block_size = 16
  %manager = kvc.create_manager blocks = 64, block_size = 16
  // CHECK: kvc.lookup %{{.*}}, %{{.*}} : memref<?xi32>
  %hit, %s0 = kvc.lookup %manager, %tokens : memref<?xi32>
  // CHECK: %[[R:.*]], %{{.*}}, %{{.*}} = kvc.allocate %{{.*}}, %{{.*}} : memref<?xi32>
  %request, %cached, %s1 = kvc.allocate %manager, %tokens : memref<?xi32>
  // CHECK: kvc.require %
  kvc.require %s1
  // CHECK: kvc.request_id %[[R]]
  %id = kvc.request_id %request
  // CHECK: kvc.append %{{.*}}, %[[R]], %{{.*}} : memref<?xi32>
  %s2 = kvc.append %manager, %request, %tokens : memref<?xi32>
  // CHECK: kvc.slots %{{.*}}, %[[R]] from %{{.*}} into %{{.*}} : memref<?xi64>
  %s3 = kvc.slots %manager, %request from %first into %slots : memref<?xi64>
  // CHECK: kvc.block_table %{{.*}}, %[[R]] into %{{.*}} : memref<?xi32>
  %s4 = kvc.block_table %manager, %request into %table : memref<?xi32>
  // CHECK: kvc.commit %{{.*}}, %[[R]], %
  %s5 = kvc.commit %manager, %request, %count
  // CHECK: kvc.free %{{.*}}, %[[R]]
  %s6 = kvc.free %manager, %request
  // CHECK: kvc.destroy_manager %
  kvc.destroy_manager %manager
  return
}

// CHECK-LABEL: func.func @step
func.func @step(%manager: !kvc.manager, %ids: memref<?xi64>, %counts: memref<?xi64>, %offsets: memref<?xi64>,
                %tokens: memref<?xi32>, %tables: memref<?x8xi32>, %slots: memref<?xi64>, %all: memref<?xi32>) -> i32 {
  // CHECK: kvc.step %{{.*}} commit(%{{.*}}, %{{.*}}) extend(%{{.*}}, %{{.*}}) into(%{{.*}}, %{{.*}}, %{{.*}}) : memref<?xi64>
  %status = kvc.step %manager commit(%ids, %counts) extend(%offsets, %tokens) into(%tables, %slots, %all)
      : memref<?xi64>, memref<?xi64>, memref<?xi64>, memref<?xi32>, memref<?x8xi32>, memref<?xi64>, memref<?xi32>
  return %status : i32
}

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// CHECK-LABEL: func.func @caches
func.func @caches(%storage: !kvc.storage, %memory: memref<2x16x2x2x4x8xf16>) {
  // CHECK: kvc.create_cache : !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  %own = kvc.create_cache : !cache
  // CHECK: kvc.adopt_memref %{{.*}} : memref<2x16x2x2x4x8xf16> to !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  %adopted = kvc.adopt_memref %memory : memref<2x16x2x2x4x8xf16> to !cache
  // CHECK: kvc.export_memref %{{.*}} : !kvc.paged_cache<f16, 2, 2, 8, 4, 16> to memref<2x16x2x2x4x8xf16>
  %back = kvc.export_memref %own : !cache to memref<2x16x2x2x4x8xf16>
  // CHECK: kvc.cache_of %{{.*}} : !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  %engines = kvc.cache_of %storage : !cache
  // CHECK: kvc.destroy_cache %{{.*}} : !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  kvc.destroy_cache %own : !cache
  kvc.destroy_cache %adopted : !cache
  return
}

// CHECK-LABEL: func.func @tensors
func.func @tensors(%cache: !cache, %layer: index, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>,
                   %table: tensor<?xi32>, %first: index, %q: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>,
                   %lens: tensor<?xi64>, %offsets: tensor<?xi64>, %mask: tensor<?xi8>, %starts: tensor<?xi64>,
                   %logits: tensor<4xf32>, %tree: tensor<?xi64>, %slopes: tensor<4xf32>) -> tensor<?x4x8xf32> {
  // CHECK: kvc.append_kv %{{.*}}, %{{.*}} into %{{.*}}[%{{.*}}] slots(%{{.*}} : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !cache
  // CHECK: kvc.append_kv %{{.*}}, %{{.*}} into %{{.*}}[%{{.*}}] table(%{{.*}} : tensor<?xi32>) from %{{.*}} : tensor<?x2x8xf32>
  kvc.append_kv %k, %v into %cache[%layer] table(%table : tensor<?xi32>) from %first : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !cache
  // CHECK: kvc.lookup_kv %{{.*}}[%{{.*}}] slots(%{{.*}} : tensor<?xi64>) outs(%{{.*}}, %{{.*}} : tensor<?x2x8xf32>, tensor<?x2x8xf32>) : !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  %k1, %v1 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<?xi64>) outs(%k, %v : tensor<?x2x8xf32>, tensor<?x2x8xf32>)
      : !cache -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  // CHECK: kvc.lookup_kv %{{.*}}[%{{.*}}] table(%{{.*}} : tensor<?xi32>) from %{{.*}} outs(
  %k2, %v2 = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %first
      outs(%k1, %v1 : tensor<?x2x8xf32>, tensor<?x2x8xf32>) : !cache -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  // CHECK: kvc.paged_attention %{{.*}}, %{{.*}}[%{{.*}}] tables(%{{.*}} : tensor<?x?xi32>) lens(%{{.*}} : tensor<?xi64>) outs(%{{.*}} : tensor<?x4x8xf32>) : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  %o1 = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>)
      outs(%q : tensor<?x4x8xf32>) : tensor<?x4x8xf32>, !cache -> tensor<?x4x8xf32>
  // CHECK: offsets(%{{.*}} : tensor<?xi64>) mask(%{{.*}} : tensor<?xi8>) mask_offsets(%{{.*}} : tensor<?xi64>) mask_starts(%{{.*}} : tensor<?xi64>) sink_logits(%{{.*}} : tensor<4xf32>) alibi_slopes(%{{.*}} : tensor<4xf32>)
  // CHECK-SAME: {bidirectional, scale = 2.500000e-01 : f32, sinks = 2 : i64, soft_cap = 3.000000e+01 : f32, window = 64 : i64}
  %o2 = kvc.paged_attention %o1, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>)
      offsets(%offsets : tensor<?xi64>) mask(%mask : tensor<?xi8>) mask_offsets(%starts : tensor<?xi64>)
      mask_starts(%tree : tensor<?xi64>) sink_logits(%logits : tensor<4xf32>) alibi_slopes(%slopes : tensor<4xf32>) outs(%q : tensor<?x4x8xf32>)
      {bidirectional, scale = 0.25 : f32, sinks = 2, soft_cap = 30.0 : f32, window = 64}
      : tensor<?x4x8xf32>, !cache -> tensor<?x4x8xf32>
  return %o2 : tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func @memrefs
func.func @memrefs(%cache: !cache, %layer: index, %k: memref<?x2x8xf16, strided<[64, 8, 1], offset: ?>>,
                   %v: memref<?x2x8xf16>, %slots: memref<?xi64>, %q: memref<?x4x8xf16>, %tables: memref<?x8xi32>,
                   %lens: memref<?xi64>) {
  // CHECK: kvc.append_kv %{{.*}} : memref<?x2x8xf16, strided<[64, 8, 1], offset: ?>>, memref<?x2x8xf16> into
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : memref<?xi64>)
      : memref<?x2x8xf16, strided<[64, 8, 1], offset: ?>>, memref<?x2x8xf16> into !cache
  // CHECK: kvc.paged_attention %{{.*}} outs(%{{.*}} : memref<?x4x8xf16>) : memref<?x4x8xf16>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  // CHECK-NOT: ->
  kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<?x8xi32>) lens(%lens : memref<?xi64>)
      outs(%q : memref<?x4x8xf16>) : memref<?x4x8xf16>, !cache
  return
}
