// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-choose-layout | FileCheck %s

!tiles = !kvc.paged_cache<f16, 1, 2, 8, 16, 4>
!small = !kvc.paged_cache<f16, 1, 2, 8, 8, 4>
!ints = !kvc.paged_cache<i8, 1, 2, 8, 16, 4>
!narrow = !kvc.paged_cache<f8E4M3FN, 1, 2, 8, 16, 4>

// CHECK-LABEL: func.func @attended(
// CHECK: kvc.create_cache {tiled_keys} : !kvc.paged_cache<f16, 1, 2, 8, 16, 4>
func.func @attended(%q: tensor<2x4x8xf32>, %tables: tensor<2x?xi32>, %lens: tensor<2xi64>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %cache = kvc.create_cache : !tiles
  %o = kvc.paged_attention %q, %cache[%c0] tables(%tables : tensor<2x?xi32>) lens(%lens : tensor<2xi64>) outs(%q : tensor<2x4x8xf32>)
      : tensor<2x4x8xf32>, !tiles -> tensor<2x4x8xf32>
  kvc.destroy_cache %cache : !tiles
  return %o : tensor<2x4x8xf32>
}

// Only gathered; seen by a call; its memory seen; blocks or elements that take no tiles.
// CHECK-LABEL: func.func @stays(
// CHECK-NOT: tiled_keys
// CHECK: return
func.func private @anything(!tiles)
func.func @stays(%q: tensor<2x4x8xf32>, %k: tensor<2x2x8xf16>, %slots: tensor<2xi64>, %tables: tensor<2x?xi32>, %lens: tensor<2xi64>) {
  %c0 = arith.constant 0 : index
  %0 = kvc.create_cache : !tiles
  %a, %b = kvc.lookup_kv %0[%c0] slots(%slots : tensor<2xi64>) outs(%k, %k : tensor<2x2x8xf16>, tensor<2x2x8xf16>)
      : !tiles -> tensor<2x2x8xf16>, tensor<2x2x8xf16>
  %1 = kvc.create_cache : !tiles
  func.call @anything(%1) : (!tiles) -> ()
  %o1 = kvc.paged_attention %q, %1[%c0] tables(%tables : tensor<2x?xi32>) lens(%lens : tensor<2xi64>) outs(%q : tensor<2x4x8xf32>)
      : tensor<2x4x8xf32>, !tiles -> tensor<2x4x8xf32>
  %2 = kvc.create_cache : !tiles
  %memory = kvc.export_memref %2 : !tiles to memref<1x4x2x2x16x8xf16>
  %o2 = kvc.paged_attention %q, %2[%c0] tables(%tables : tensor<2x?xi32>) lens(%lens : tensor<2xi64>) outs(%q : tensor<2x4x8xf32>)
      : tensor<2x4x8xf32>, !tiles -> tensor<2x4x8xf32>
  %3 = kvc.create_cache : !small
  %o3 = kvc.paged_attention %q, %3[%c0] tables(%tables : tensor<2x?xi32>) lens(%lens : tensor<2xi64>) outs(%q : tensor<2x4x8xf32>)
      : tensor<2x4x8xf32>, !small -> tensor<2x4x8xf32>
  %4 = kvc.create_cache : !ints
  %o4 = kvc.paged_attention %q, %4[%c0] tables(%tables : tensor<2x?xi32>) lens(%lens : tensor<2xi64>) outs(%q : tensor<2x4x8xf32>)
      : tensor<2x4x8xf32>, !ints -> tensor<2x4x8xf32>
  %5 = kvc.create_cache : !narrow
  %o5 = kvc.paged_attention %q, %5[%c0] tables(%tables : tensor<2x?xi32>) lens(%lens : tensor<2xi64>) outs(%q : tensor<2x4x8xf32>)
      : tensor<2x4x8xf32>, !narrow -> tensor<2x4x8xf32>
  return
}
