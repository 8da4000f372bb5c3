// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-fuse-appends | FileCheck %s

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// The second goes on where the first ends, and a third where that ends.
// CHECK-LABEL: func.func @by_position(
// CHECK-SAME: %[[A:[^:]*]]: tensor<3x2x8xf32>, %[[B:[^:]*]]: tensor<2x2x8xf32>
// CHECK: %[[HALF:.*]] = tensor.insert_slice %[[A]] into %{{.*}}[0, 0, 0] [3, 2, 8]
// CHECK: tensor.insert_slice %[[B]] into %[[HALF]][3, 0, 0] [2, 2, 8]
// CHECK: kvc.append_kv %{{.*}} from %{{.*}} : tensor<6x2x8xf32>, tensor<6x2x8xf32>
// CHECK-NOT: kvc.append_kv
func.func @by_position(%a: tensor<3x2x8xf32>, %b: tensor<2x2x8xf32>, %c: tensor<1x2x8xf32>, %cache: !cache, %table: tensor<4xi32>) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c7 = arith.constant 7 : index
  %c9 = arith.constant 9 : index
  kvc.append_kv %a, %a into %cache[%c1] table(%table : tensor<4xi32>) from %c4 : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  kvc.append_kv %b, %b into %cache[%c1] table(%table : tensor<4xi32>) from %c7 : tensor<2x2x8xf32>, tensor<2x2x8xf32> into !cache
  kvc.append_kv %c, %c into %cache[%c1] table(%table : tensor<4xi32>) from %c9 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  return
}

// Of dynamic sizes: the second position is the first one plus the tokens of the first.
// CHECK-LABEL: func.func @dynamic(
// CHECK: kvc.append_kv %{{.*}} from %{{.*}} : tensor<?x2x8xf32>, tensor<?x2x8xf32>
// CHECK-NOT: kvc.append_kv
func.func @dynamic(%a: tensor<?x2x8xf32>, %b: tensor<?x2x8xf32>, %cache: !cache, %layer: index, %table: tensor<?xi32>, %first: index) {
  %c0 = arith.constant 0 : index
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<?xi32>) from %first : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !cache
  %n = tensor.dim %a, %c0 : tensor<?x2x8xf32>
  %next = arith.addi %first, %n : index
  kvc.append_kv %b, %b into %cache[%layer] table(%table : tensor<?xi32>) from %next : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !cache
  return
}

// CHECK-LABEL: func.func @by_slots(
// CHECK: kvc.append_kv %{{.*}} slots(%{{.*}} : tensor<5xi64>)
// CHECK-NOT: kvc.append_kv
func.func @by_slots(%a: tensor<3x2x8xf32>, %b: tensor<2x2x8xf32>, %cache: !cache, %layer: index) {
  %s = arith.constant dense<[4, -1, 6]> : tensor<3xi64>
  %t = arith.constant dense<[-1, 20]> : tensor<2xi64>
  kvc.append_kv %a, %a into %cache[%layer] slots(%s : tensor<3xi64>) : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  kvc.append_kv %b, %b into %cache[%layer] slots(%t : tensor<2xi64>) : tensor<2x2x8xf32>, tensor<2x2x8xf32> into !cache
  return
}

// ---- what must stay

// Equal appends are two: the second has the last word over its slots.
// CHECK-LABEL: func.func @same_slots(
// CHECK-COUNT-2: kvc.append_kv
func.func @same_slots(%a: tensor<1x2x8xf32>, %b: tensor<1x2x8xf32>, %cache: !cache, %layer: index) {
  %s = arith.constant dense<[4]> : tensor<1xi64>
  kvc.append_kv %a, %a into %cache[%layer] slots(%s : tensor<1xi64>) : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %b, %b into %cache[%layer] slots(%s : tensor<1xi64>) : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  return
}

// CHECK-LABEL: func.func @unknown_slots(
// CHECK-COUNT-2: kvc.append_kv
func.func @unknown_slots(%a: tensor<1x2x8xf32>, %cache: !cache, %layer: index, %s: tensor<1xi64>, %t: tensor<1xi64>) {
  kvc.append_kv %a, %a into %cache[%layer] slots(%s : tensor<1xi64>) : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %a, %a into %cache[%layer] slots(%t : tensor<1xi64>) : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  return
}

// CHECK-LABEL: func.func @overlap_and_gap(
// CHECK-COUNT-3: kvc.append_kv
func.func @overlap_and_gap(%a: tensor<3x2x8xf32>, %cache: !cache, %layer: index, %table: tensor<4xi32>) {
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %c10 = arith.constant 10 : index
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c4 : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c6 : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c10 : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  return
}

// Another layer, table, cache, element type, or way to say where.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-6: kvc.append_kv
func.func @others(%a: tensor<1x2x8xf32>, %h: tensor<1x2x8xf16>, %cache: !cache, %other: !cache, %layer: index, %deeper: index,
                  %table: tensor<4xi32>, %another: tensor<4xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = arith.constant dense<[60]> : tensor<1xi64>
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c0 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %a, %a into %cache[%deeper] table(%table : tensor<4xi32>) from %c1 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %a, %a into %cache[%deeper] table(%another : tensor<4xi32>) from %c0 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %a, %a into %other[%deeper] table(%another : tensor<4xi32>) from %c1 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %h, %h into %other[%deeper] slots(%s : tensor<1xi64>) : tensor<1x2x8xf16>, tensor<1x2x8xf16> into !cache
  kvc.append_kv %a, %a into %other[%deeper] table(%another : tensor<4xi32>) from %c1 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  return
}

// Something between reads the cache, writes it, or might: a lookup, attention, an append that may alias, a call, a store.
// CHECK-LABEL: func.func @between(
// CHECK-COUNT-7: kvc.append_kv
func.func @between(%a: tensor<1x2x8xf32>, %cache: !cache, %other: !cache, %layer: index, %table: tensor<4xi32>, %tables: tensor<1x4xi32>,
                   %lens: tensor<1xi64>, %q: tensor<1x4x8xf32>, %memory: memref<1xf32>) -> (tensor<1x2x8xf32>, tensor<1x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %x = arith.constant 1.0 : f32
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c0 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  %r:2 = kvc.lookup_kv %cache[%layer] table(%table : tensor<4xi32>) from %c0 outs(%a, %a : tensor<1x2x8xf32>, tensor<1x2x8xf32>)
      : !cache -> tensor<1x2x8xf32>, tensor<1x2x8xf32>
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c1 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  %o = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<1x4xi32>) lens(%lens : tensor<1xi64>)
      outs(%q : tensor<1x4x8xf32>) : tensor<1x4x8xf32>, !cache -> tensor<1x4x8xf32>
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c2 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %a, %a into %other[%layer] table(%table : tensor<4xi32>) from %c3 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c3 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  func.call @unknown() : () -> ()
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c4 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  memref.store %x, %memory[%c0] : memref<1xf32>
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c5 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  return %r#0, %o : tensor<1x2x8xf32>, tensor<1x4x8xf32>
}
func.func private @unknown()

// Work on tensors between has no effect on a cache.
// CHECK-LABEL: func.func @harmless(
// CHECK-COUNT-1: kvc.append_kv
// CHECK-NOT: kvc.append_kv
func.func @harmless(%a: tensor<1x2x8xf32>, %cache: !cache, %layer: index, %table: tensor<4xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  kvc.append_kv %a, %a into %cache[%layer] table(%table : tensor<4xi32>) from %c0 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  %b = arith.addf %a, %a : tensor<1x2x8xf32>
  kvc.append_kv %b, %b into %cache[%layer] table(%table : tensor<4xi32>) from %c1 : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !cache
  return
}
