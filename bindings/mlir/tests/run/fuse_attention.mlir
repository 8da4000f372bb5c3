// SPDX-License-Identifier: Apache-2.0
// Dense attention over what was gathered gives on the blocks what the chain gives in the reference; so does a gather
// that moved out of a loop.
// RUN: kvc-run %s | FileCheck %s
// CHECK: 96 results, {{.*}}: equal

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
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

func.func private @attend(%cache: !cache, %table: tensor<?xi32>, %n: index, %q: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %queries = tensor.dim %q, %c0 : tensor<?x4x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%c0] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<?x2x8xf32>, tensor<?x2x8xf32>)
      : !cache -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  %e0 = tensor.empty(%queries, %n) : tensor<4x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x?x?xf32>) -> tensor<4x?x?xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x4x8xf32>, tensor<?x2x8xf32>) outs(%s0 : tensor<4x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x?x?xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x?x?xf32>) outs(%e0 : tensor<4x?x?xf32>) -> tensor<4x?x?xf32>
  %e1 = tensor.empty(%queries) : tensor<?x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x?x?xf32>, tensor<?x2x8xf32>) outs(%o0 : tensor<?x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<?x4x8xf32>
  return %o : tensor<?x4x8xf32>
}

func.func @main(%results: memref<3x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c9 = arith.constant 9 : index
  %f1 = arith.constant 0.5 : f32
  %f2 = arith.constant 1.5 : f32
  %cache = kvc.create_cache : !cache
  %table = arith.constant dense<[5, 2, 11]> : tensor<3xi32>
  %any = tensor.cast %table : tensor<3xi32> to tensor<?xi32>
  %rows = func.call @wave(%c9, %c2, %f1) : (index, index, f32) -> tensor<?x?x8xf32>
  %wide = tensor.cast %rows : tensor<?x?x8xf32> to tensor<?x2x8xf32>
  %narrow = arith.truncf %wide : tensor<?x2x8xf32> to tensor<?x2x8xbf16>
  kvc.append_kv %narrow, %narrow into %cache[%c0] table(%any : tensor<?xi32>) from %c0 : tensor<?x2x8xbf16>, tensor<?x2x8xbf16> into !cache
  %q0 = func.call @wave(%c3, %c4, %f2) : (index, index, f32) -> tensor<?x?x8xf32>
  %q = tensor.cast %q0 : tensor<?x?x8xf32> to tensor<?x4x8xf32>
  // Nine tokens; then two, fewer than queries.
  %many = func.call @attend(%cache, %any, %c9, %q) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %few = func.call @attend(%cache, %any, %c2, %q) : (!cache, tensor<?xi32>, index, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %both = arith.addf %many, %few : tensor<?x4x8xf32>
  %flat = tensor.collapse_shape %both [[0], [1, 2]] : tensor<?x4x8xf32> into tensor<?x32xf32>
  %e = tensor.empty(%c9) : tensor<?x2x8xf32>
  %last = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %flat) -> tensor<?x32xf32> {
    %k, %v = kvc.lookup_kv %cache[%c0] table(%any : tensor<?xi32>) from %c0 outs(%e, %e : tensor<?x2x8xf32>, tensor<?x2x8xf32>)
        : !cache -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
    %a = tensor.extract %k[%i, %c1, %c3] : tensor<?x2x8xf32>
    %y = tensor.insert %a into %x[%i, %c0] : tensor<?x32xf32>
    scf.yield %y : tensor<?x32xf32>
  }
  %static = tensor.cast %last : tensor<?x32xf32> to tensor<3x32xf32>
  %m = bufferization.to_memref %static : memref<3x32xf32>
  memref.copy %m, %results : memref<3x32xf32> to memref<3x32xf32>
  kvc.destroy_cache %cache : !cache
  return
}
