// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-fuse-attention --split-input-file | FileCheck %s

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// A decode: one query, a known number of tokens.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %[[LAYER:[a-z0-9]+]]: index, %[[TABLE:[a-z0-9]+]]: tensor<?xi32>, %[[Q:[a-z0-9]+]]: tensor<1x4x8xf32>
// CHECK-NOT: kvc.lookup_kv
// CHECK-NOT: linalg.softmax
// CHECK: %[[TABLES:.*]] = tensor.expand_shape %[[TABLE]] {{.*}} : tensor<?xi32> into tensor<1x?xi32>
// CHECK: %[[R:.*]] = kvc.paged_attention %[[Q]], %[[CACHE]][%[[LAYER]]] tables(%[[TABLES]] : tensor<1x?xi32>) lens(%{{.*}} : tensor<1xi64>) offsets(%{{.*}} : tensor<2xi64>)
// CHECK-SAME: bidirectional
// CHECK-SAME: scale = 2.500000e-01 : f32
// CHECK: return %[[R]]
func.func @decode(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// The chain stays for the case that there are fewer tokens than queries, which the op refuses.
// CHECK-LABEL: func.func @dynamic(
// CHECK: %[[FITS:.*]] = arith.cmpi ule
// CHECK: scf.if %[[FITS]]
// CHECK: kvc.paged_attention
// CHECK-SAME: scale = 1.000000e+00 : f32
// CHECK: } else {
// CHECK: kvc.lookup_kv
// CHECK: linalg.softmax
// CHECK: }
// CHECK-NOT: kvc.lookup_kv
// CHECK: return
func.func @dynamic(%cache: !cache, %layer: index, %table: tensor<?xi32>, %n: index, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<?x2x8xf32>, tensor<?x2x8xf32>)
      : !cache -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  %e0 = tensor.empty(%n) : tensor<4x1x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x?xf32>) -> tensor<4x1x?xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<?x2x8xf32>) outs(%s0 : tensor<4x1x?xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x?xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x1x?xf32>) outs(%e0 : tensor<4x1x?xf32>) -> tensor<4x1x?xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x?xf32>, tensor<?x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// What writes between gather and use may change the blocks.
// CHECK-LABEL: func.func @write_between(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @write_between(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  kvc.append_kv %k, %v into %cache[%layer] table(%table : tensor<?xi32>) from %c0 : tensor<9x2x8xf32>, tensor<9x2x8xf32> into !cache
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// Softmax over the queries.
// CHECK-LABEL: func.func @other_axis(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @other_axis(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(1) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// From another position.
// CHECK-LABEL: func.func @not_from_zero(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @not_from_zero(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %layer outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// A sum that does not begin with zero.
// CHECK-LABEL: func.func @begins_with_one(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @begins_with_one(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// The values are those of another gather.
// CHECK-LABEL: func.func @other_values(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @other_values(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %k2, %v2 = kvc.lookup_kv %cache[%c0] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v2 : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// Keys of other heads.
// CHECK-LABEL: func.func @other_maps(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @other_maps(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, affine_map<(h, q, t, d) -> (t, h mod 2, d)>, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// No products of queries and keys.
// CHECK-LABEL: func.func @squares(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @squares(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e0 = tensor.empty() : tensor<4x1x9xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x4x8xf32>, tensor<9x2x8xf32>) outs(%s0 : tensor<4x1x9xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %x : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x1x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x1x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x1x9xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x1x9xf32>) outs(%e0 : tensor<4x1x9xf32>) -> tensor<4x1x9xf32>
  %e1 = tensor.empty() : tensor<1x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x1x9xf32>, tensor<9x2x8xf32>) outs(%o0 : tensor<1x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %x : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<1x4x8xf32>
  return %o : tensor<1x4x8xf32>
}

// -----

#q = affine_map<(h, q, t, d) -> (q, h, d)>
#kv = affine_map<(h, q, t, d) -> (t, h floordiv 2, d)>
#s = affine_map<(h, q, t, d) -> (h, q, t)>
!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// More queries than tokens.
// CHECK-LABEL: func.func @more_queries(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @more_queries(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<3x4x8xf32>) -> tensor<3x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<1x2x8xf32>, tensor<1x2x8xf32>)
      : !cache -> tensor<1x2x8xf32>, tensor<1x2x8xf32>
  %e0 = tensor.empty() : tensor<4x3x1xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x3x1xf32>) -> tensor<4x3x1xf32>
  %s = linalg.generic {indexing_maps = [#q, #kv, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<3x4x8xf32>, tensor<1x2x8xf32>) outs(%s0 : tensor<4x3x1xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %sum, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x3x1xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x3x1xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x3x1xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x3x1xf32>) outs(%e0 : tensor<4x3x1xf32>) -> tensor<4x3x1xf32>
  %e1 = tensor.empty() : tensor<3x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %o = linalg.generic {indexing_maps = [#s, #kv, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %v : tensor<4x3x1xf32>, tensor<1x2x8xf32>) outs(%o0 : tensor<3x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %m = arith.mulf %x, %y : f32
    %a = arith.addf %m, %sum : f32
    linalg.yield %a : f32
  } -> tensor<3x4x8xf32>
  return %o : tensor<3x4x8xf32>
}
