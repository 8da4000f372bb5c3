// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-narrow-caches | FileCheck %s

!wide = !kvc.paged_cache<f32, 1, 2, 8, 4, 16>

// CHECK-LABEL: func.func @narrow(
// CHECK: kvc.create_cache : !kvc.paged_cache<bf16, 1, 2, 8, 4, 16>
// CHECK-COUNT-2: into !kvc.paged_cache<bf16, 1, 2, 8, 4, 16>
// CHECK: kvc.lookup_kv {{.*}} : !kvc.paged_cache<bf16, 1, 2, 8, 4, 16> -> tensor<3x2x8xf32>
// CHECK: kvc.destroy_cache {{.*}} : !kvc.paged_cache<bf16, 1, 2, 8, 4, 16>
func.func @narrow(%slots: tensor<3xi64>, %k: tensor<3x2x8xbf16>, %r: tensor<3x2x8xf32>) -> tensor<3x2x8xf32> {
  %c0 = arith.constant 0 : index
  %cache = kvc.create_cache : !wide
  kvc.append_kv %k, %k into %cache[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xbf16>, tensor<3x2x8xbf16> into !wide
  kvc.append_kv %k, %k into %cache[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xbf16>, tensor<3x2x8xbf16> into !wide
  %a:2 = kvc.lookup_kv %cache[%c0] slots(%slots : tensor<3xi64>) outs(%r, %r : tensor<3x2x8xf32>, tensor<3x2x8xf32>)
      : !wide -> tensor<3x2x8xf32>, tensor<3x2x8xf32>
  kvc.destroy_cache %cache : !wide
  return %a#0 : tensor<3x2x8xf32>
}

// Rows of f32; rows of two types; a cache that a call sees, or whose memory is seen.
// CHECK-LABEL: func.func @stays(
// CHECK-COUNT-4: kvc.create_cache : !kvc.paged_cache<f32, 1, 2, 8, 4, 16>
func.func private @anything(!wide)
func.func @stays(%slots: tensor<3xi64>, %k: tensor<3x2x8xbf16>, %h: tensor<3x2x8xf16>, %f: tensor<3x2x8xf32>) {
  %c0 = arith.constant 0 : index
  %0 = kvc.create_cache : !wide
  kvc.append_kv %k, %k into %0[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xbf16>, tensor<3x2x8xbf16> into !wide
  kvc.append_kv %f, %f into %0[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !wide
  %1 = kvc.create_cache : !wide
  kvc.append_kv %k, %k into %1[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xbf16>, tensor<3x2x8xbf16> into !wide
  kvc.append_kv %h, %h into %1[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xf16>, tensor<3x2x8xf16> into !wide
  %2 = kvc.create_cache : !wide
  kvc.append_kv %k, %k into %2[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xbf16>, tensor<3x2x8xbf16> into !wide
  func.call @anything(%2) : (!wide) -> ()
  %3 = kvc.create_cache : !wide
  kvc.append_kv %k, %k into %3[%c0] slots(%slots : tensor<3xi64>) : tensor<3x2x8xbf16>, tensor<3x2x8xbf16> into !wide
  %m = kvc.export_memref %3 : !wide to memref<1x16x2x2x4x8xf32>
  return
}
