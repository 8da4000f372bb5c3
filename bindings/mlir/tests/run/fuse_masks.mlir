// SPDX-License-Identifier: Apache-2.0
// Dense attention with masks gives on the blocks what the chain gives in the reference; where it would not (a mask that is
// not 0 or -infinity, a query that sees nothing), the program takes the chain.
// RUN: kvc-run %s --finite-rows | FileCheck %s
// RUN: kvc-run %s | FileCheck %s
// RUN: kvc-run %s --finite-rows --lowering=calls --print | FileCheck %s --check-prefix=NOTHING
// CHECK: 480 results, {{.*}}: equal
// The third mask hides all from a query, of which softmax makes NaN, written as 7.
// NOTHING: 7 7 7 7

#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>
!cache = !kvc.paged_cache<f32, 1, 2, 8, 4, 16>

func.func private @wave(%n: index, %heads: index, %seed: f32) -> tensor<?x?x8xf32> {
  %e = tensor.empty(%n, %heads) : tensor<?x?x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %c31 = arith.constant 31 : index
    %c7 = arith.constant 7 : index
    %a = arith.muli %i, %c31 : index
    %b = arith.muli %j, %c7 : index
    %ab = arith.addi %a, %b : index
    %abk = arith.addi %ab, %k : index
    %x = arith.index_cast %abk : index to i32
    %f = arith.sitofp %x : i32 to f32
    %g = arith.addf %f, %seed : f32
    %w = math.sin %g : f32
    linalg.yield %w : f32
  } -> tensor<?x?x8xf32>
  return %r : tensor<?x?x8xf32>
}

// 0 up to position q + %reach, then %later.
func.func private @mask(%queries: index, %n: index, %reach: index, %later: f32) -> tensor<?x?xf32> {
  %e = tensor.empty(%queries, %n) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(q, t) -> (q, t)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x?xf32>) {
  ^bb0(%o: f32):
    %zero = arith.constant 0.0 : f32
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %position = arith.addi %i, %reach : index
    %is_later = arith.cmpi sgt, %j, %position : index
    %m = arith.select %is_later, %later, %zero : f32
    linalg.yield %m : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// Pairs of query heads share a KV head. A second mask is computed where it is used: query 2 does not see token 2.
func.func private @attend(%cache: !cache, %table: tensor<?xi32>, %n: index, %q: tensor<?x4x8xf32>, %mask: tensor<?x?xf32>) -> tensor<?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %queries = tensor.dim %q, %c0 : tensor<?x4x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%c0] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<?x2x8xf32>, tensor<?x2x8xf32>)
      : !cache -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  %e5 = tensor.empty(%n) : tensor<?x2x2x8xf32>
  %kb = linalg.broadcast ins(%k : tensor<?x2x8xf32>) outs(%e5 : tensor<?x2x2x8xf32>) dimensions = [2]
  %vb = linalg.broadcast ins(%v : tensor<?x2x8xf32>) outs(%e5 : tensor<?x2x2x8xf32>) dimensions = [2]
  %kg = tensor.collapse_shape %kb [[0], [1, 2], [3]] : tensor<?x2x2x8xf32> into tensor<?x4x8xf32>
  %vg = tensor.collapse_shape %vb [[0], [1, 2], [3]] : tensor<?x2x2x8xf32> into tensor<?x4x8xf32>
  %e0 = tensor.empty(%queries) : tensor<4x?x8xf32>
  %qh = linalg.transpose ins(%q : tensor<?x4x8xf32>) outs(%e0 : tensor<4x?x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty(%n) : tensor<4x8x?xf32>
  %kt = linalg.transpose ins(%kg : tensor<?x4x8xf32>) outs(%e1 : tensor<4x8x?xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty(%queries, %n) : tensor<4x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4x?x?xf32>) -> tensor<4x?x?xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x?x8xf32>, tensor<4x8x?xf32>) outs(%s0 : tensor<4x?x?xf32>) -> tensor<4x?x?xf32>
  %x = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<4x?x?xf32>, tensor<?x?xf32>) outs(%e2 : tensor<4x?x?xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %hidden = arith.constant 0xFF800000 : f32
    %factor = arith.constant 4.0 : f32
    %two = arith.constant 2 : index
    %scaled = arith.divf %a, %factor : f32
    %masked = arith.addf %m, %scaled : f32
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %same = arith.cmpi eq, %i, %j : index
    %second = arith.cmpi eq, %j, %two : index
    %itself = arith.andi %same, %second : i1
    %r = arith.select %itself, %hidden, %masked : f32
    linalg.yield %r : f32
  } -> tensor<4x?x?xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x?x?xf32>) outs(%e2 : tensor<4x?x?xf32>) -> tensor<4x?x?xf32>
  %e3 = tensor.empty(%n) : tensor<4x?x8xf32>
  %vh = linalg.transpose ins(%vg : tensor<?x4x8xf32>) outs(%e3 : tensor<4x?x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x?x?xf32>, tensor<4x?x8xf32>) outs(%o0 : tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
  %e4 = tensor.empty(%queries) : tensor<?x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x?x8xf32>) outs(%e4 : tensor<?x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<?x4x8xf32>
}

func.func private @keep(%o: tensor<?x4x8xf32>, %results: memref<5x3x4x8xf32>, %at: index) {
  %static = tensor.cast %o : tensor<?x4x8xf32> to tensor<3x4x8xf32>
  %e = tensor.empty() : tensor<3x4x8xf32>
  %numbers = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%static : tensor<3x4x8xf32>) outs(%e : tensor<3x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %seven = arith.constant 7.0 : f32
    %nan = arith.cmpf uno, %a, %a : f32
    %r = arith.select %nan, %seven, %a : f32
    linalg.yield %r : f32
  } -> tensor<3x4x8xf32>
  %m = bufferization.to_memref %numbers : memref<3x4x8xf32>
  %to = memref.subview %results[%at, 0, 0, 0] [1, 3, 4, 8] [1, 1, 1, 1] : memref<5x3x4x8xf32> to memref<3x4x8xf32, strided<[32, 8, 1], offset: ?>>
  memref.copy %m, %to : memref<3x4x8xf32> to memref<3x4x8xf32, strided<[32, 8, 1], offset: ?>>
  return
}

func.func @main(%results: memref<5x3x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %c9 = arith.constant 9 : index
  %before = arith.constant -1 : index
  %f1 = arith.constant 0.5 : f32
  %f2 = arith.constant 1.5 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %less = arith.constant -1.5 : f32
  %cache = kvc.create_cache : !cache
  %table = arith.constant dense<[5, 2, 11]> : tensor<3xi32>
  %any = tensor.cast %table : tensor<3xi32> to tensor<?xi32>
  %rows = func.call @wave(%c9, %c2, %f1) : (index, index, f32) -> tensor<?x?x8xf32>
  %k = tensor.cast %rows : tensor<?x?x8xf32> to tensor<?x2x8xf32>
  kvc.append_kv %k, %k into %cache[%c0] table(%any : tensor<?xi32>) from %c0 : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !cache
  %q0 = func.call @wave(%c3, %c4, %f2) : (index, index, f32) -> tensor<?x?x8xf32>
  %q = tensor.cast %q0 : tensor<?x?x8xf32> to tensor<?x4x8xf32>
  // Causal; a bias; one query that sees nothing; all; more queries than tokens.
  %m0 = func.call @mask(%c3, %c9, %c6, %hidden) : (index, index, index, f32) -> tensor<?x?xf32>
  %r0 = func.call @attend(%cache, %any, %c9, %q, %m0) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>, tensor<?x?xf32>) -> tensor<?x4x8xf32>
  func.call @keep(%r0, %results, %c0) : (tensor<?x4x8xf32>, memref<5x3x4x8xf32>, index) -> ()
  %m1 = func.call @mask(%c3, %c9, %c1, %less) : (index, index, index, f32) -> tensor<?x?xf32>
  %r1 = func.call @attend(%cache, %any, %c9, %q, %m1) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>, tensor<?x?xf32>) -> tensor<?x4x8xf32>
  func.call @keep(%r1, %results, %c1) : (tensor<?x4x8xf32>, memref<5x3x4x8xf32>, index) -> ()
  %m2 = func.call @mask(%c3, %c9, %before, %hidden) : (index, index, index, f32) -> tensor<?x?xf32>
  %r2 = func.call @attend(%cache, %any, %c9, %q, %m2) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>, tensor<?x?xf32>) -> tensor<?x4x8xf32>
  func.call @keep(%r2, %results, %c2) : (tensor<?x4x8xf32>, memref<5x3x4x8xf32>, index) -> ()
  %m3 = func.call @mask(%c3, %c9, %c9, %hidden) : (index, index, index, f32) -> tensor<?x?xf32>
  %r3 = func.call @attend(%cache, %any, %c9, %q, %m3) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>, tensor<?x?xf32>) -> tensor<?x4x8xf32>
  func.call @keep(%r3, %results, %c3) : (tensor<?x4x8xf32>, memref<5x3x4x8xf32>, index) -> ()
  %m4 = func.call @mask(%c3, %c2, %c0, %hidden) : (index, index, index, f32) -> tensor<?x?xf32>
  %r4 = func.call @attend(%cache, %any, %c2, %q, %m4) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>, tensor<?x?xf32>) -> tensor<?x4x8xf32>
  func.call @keep(%r4, %results, %c4) : (tensor<?x4x8xf32>, memref<5x3x4x8xf32>, index) -> ()
  kvc.destroy_cache %cache : !cache
  return
}
