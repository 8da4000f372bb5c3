// SPDX-License-Identifier: Apache-2.0
// Tensors become memrefs; destinations are written in place; a destination that is read later is copied first.
// RUN: kvc-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" | FileCheck %s

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// CHECK-LABEL: func.func @in_place(
// CHECK-NOT: memref.copy
// CHECK: kvc.append_kv %{{.*}} : memref<?x2x8xf32>, memref<?x2x8xf32> into
// CHECK: kvc.paged_attention %{{.*}} outs(%[[O:.*]] : memref<?x4x8xf32>)
// CHECK-NOT: memref.copy
// CHECK: return %[[O]]
func.func @in_place(%cache: !cache, %layer: index, %k: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %q: tensor<?x4x8xf32>,
                    %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) -> tensor<?x4x8xf32> {
  kvc.append_kv %k, %k into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !cache
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x4x8xf32>
  %empty = tensor.empty(%n) : tensor<?x4x8xf32>
  %o = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>)
      outs(%empty : tensor<?x4x8xf32>) : tensor<?x4x8xf32>, !cache -> tensor<?x4x8xf32>
  return %o : tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func @copied(
// CHECK-SAME: %[[K:[^:]*]]: memref<3x2x8xf32>
// CHECK: %[[NEW:.*]] = memref.alloc
// CHECK: memref.copy %[[K]], %[[NEW]]
// CHECK: kvc.lookup_kv
func.func @copied(%k: tensor<3x2x8xf32> {bufferization.writable = false}, %cache: !cache, %layer: index, %slots: tensor<3xi64>)
    -> (tensor<3x2x8xf32>, tensor<3x2x8xf32>) {
  %empty = tensor.empty() : tensor<3x2x8xf32>
  %r:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %empty : tensor<3x2x8xf32>, tensor<3x2x8xf32>)
      : !cache -> tensor<3x2x8xf32>, tensor<3x2x8xf32>
  return %r#0, %r#1 : tensor<3x2x8xf32>, tensor<3x2x8xf32>
}
