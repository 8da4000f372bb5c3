// SPDX-License-Identifier: Apache-2.0
// Chains of linalg.batch_matmul, and masks between scores and softmax; what is not certainly the same stays.
// RUN: kvc-opt %s --kvc-fuse-attention="finite-rows" --split-input-file | FileCheck %s
// RUN: kvc-opt %s --kvc-fuse-attention --split-input-file | FileCheck %s --check-prefix=STRICT

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
// A write between gather and use may change the blocks.
// CHECK-LABEL: func.func @write_between(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @write_between(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  kvc.append_kv %k, %v into %cache[%layer] table(%table : tensor<?xi32>) from %c0 : tensor<9x4x8xf32>, tensor<9x4x8xf32> into !cache
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// So may one that stands before a mask.
// CHECK-LABEL: func.func @write_before_mask(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @write_before_mask(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<2x9xf32>, %memory: memref<4xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  memref.store %zero, %memory[%c0] : memref<4xf32>
  %x = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scaled, %mask : tensor<4x2x9xf32>, tensor<2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %r = arith.addf %a, %m : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
// A sum that does not begin with zero.
// CHECK-LABEL: func.func @begins_with_one(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @begins_with_one(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 1.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// Each head has a mask of its own.
// CHECK-LABEL: func.func @mask_of_heads(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @mask_of_heads(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<4x2x9xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %x = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scaled, %mask : tensor<4x2x9xf32>, tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %r = arith.addf %a, %m : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// What is hidden keeps a little weight, if all is hidden.
// CHECK-LABEL: func.func @large_number(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @large_number(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<2x9xi1>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %x = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scaled, %mask : tensor<4x2x9xf32>, tensor<2x9xi1>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %m: i1, %o: f32):
    %large = arith.constant -1.0e9 : f32
    %r = arith.select %m, %a, %large : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// A negative factor turns -infinity.
// CHECK-LABEL: func.func @turned(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @turned(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<2x9xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %masked = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<4x2x9xf32>, tensor<2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %r = arith.addf %a, %m : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %minus = arith.constant dense<-0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %masked, %minus : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
// The bias is another product of the queries.
// CHECK-LABEL: func.func @bias(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @bias(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %x = arith.addf %scaled, %s : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// The mask is what the result had before.
// CHECK-LABEL: func.func @what_was_there(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @what_was_there(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<2x9xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %x = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scaled, %mask : tensor<4x2x9xf32>, tensor<2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
// Query head h reads KV head h mod 2.
// CHECK-LABEL: func.func @other_groups(
// CHECK-NOT: kvc.paged_attention
// CHECK: return
func.func @other_groups(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e5 = tensor.empty() : tensor<9x2x2x8xf32>
  %kb = linalg.broadcast ins(%k : tensor<9x2x8xf32>) outs(%e5 : tensor<9x2x2x8xf32>) dimensions = [1]
  %vb = linalg.broadcast ins(%v : tensor<9x2x8xf32>) outs(%e5 : tensor<9x2x2x8xf32>) dimensions = [1]
  %kg = tensor.collapse_shape %kb [[0], [1, 2], [3]] : tensor<9x2x2x8xf32> into tensor<9x4x8xf32>
  %vg = tensor.collapse_shape %vb [[0], [1, 2], [3]] : tensor<9x2x2x8xf32> into tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%kg : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%vg : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
// Transpositions and products of batches.
// CHECK-LABEL: func.func @batch_matmul(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK-NOT: linalg.batch_matmul
// CHECK: kvc.paged_attention %[[Q]], {{.*}}bidirectional, scale = 2.500000e-01 : f32
// CHECK-NOT: linalg.softmax
// CHECK: return
// STRICT-LABEL: func.func @batch_matmul(
// STRICT: kvc.paged_attention
func.func @batch_matmul(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
// Heads of keys and values are repeated for their query heads.
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK-NOT: linalg.batch_matmul
// CHECK: kvc.paged_attention %[[Q]], {{.*}}bidirectional, scale = 2.500000e-01 : f32
// CHECK-NOT: linalg.softmax
// CHECK: return
func.func @groups(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x2x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x2x8xf32>, tensor<9x2x8xf32>)
      : !cache -> tensor<9x2x8xf32>, tensor<9x2x8xf32>
  %e5 = tensor.empty() : tensor<9x2x2x8xf32>
  %kb = linalg.broadcast ins(%k : tensor<9x2x8xf32>) outs(%e5 : tensor<9x2x2x8xf32>) dimensions = [2]
  %vb = linalg.broadcast ins(%v : tensor<9x2x8xf32>) outs(%e5 : tensor<9x2x2x8xf32>) dimensions = [2]
  %kg = tensor.collapse_shape %kb [[0], [1, 2], [3]] : tensor<9x2x2x8xf32> into tensor<9x4x8xf32>
  %vg = tensor.collapse_shape %vb [[0], [1, 2], [3]] : tensor<9x2x2x8xf32> into tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%kg : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%vg : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 1, 8, 4, 16>
// All query heads share one KV head.
// CHECK-LABEL: func.func @one_kv_head(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK-NOT: linalg.batch_matmul
// CHECK: kvc.paged_attention %[[Q]], {{.*}}bidirectional, scale = 2.500000e-01 : f32
// CHECK-NOT: linalg.softmax
// CHECK: return
func.func @one_kv_head(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x1x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x1x8xf32>, tensor<9x1x8xf32>)
      : !cache -> tensor<9x1x8xf32>, tensor<9x1x8xf32>
  %kf = tensor.collapse_shape %k [[0, 1], [2]] : tensor<9x1x8xf32> into tensor<9x8xf32>
  %vf = tensor.collapse_shape %v [[0, 1], [2]] : tensor<9x1x8xf32> into tensor<9x8xf32>
  %e5 = tensor.empty() : tensor<9x4x8xf32>
  %kg = linalg.broadcast ins(%kf : tensor<9x8xf32>) outs(%e5 : tensor<9x4x8xf32>) dimensions = [1]
  %vg = linalg.broadcast ins(%vf : tensor<9x8xf32>) outs(%e5 : tensor<9x4x8xf32>) dimensions = [1]
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%kg : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %x = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%vg : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// A mask is added to all heads. Whether it is 0 or -infinity is seen when the program runs.
// CHECK-LABEL: func.func @added(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK: %[[STATES:.*]] = tensor.generate
// CHECK: %[[SAME:.*]] = scf.for
// CHECK: %[[BITS:.*]] = tensor.generate
// CHECK: scf.if %[[SAME]]
// CHECK: kvc.paged_attention %[[Q]], {{.*}} mask(%[[BITS]] : tensor<?xi8>) mask_offsets(%{{.*}} : tensor<1xi64>)
// CHECK-SAME: bidirectional
// CHECK: } else {
// CHECK: kvc.lookup_kv
// CHECK: linalg.softmax
// CHECK: }
// CHECK-NOT: linalg.softmax
// CHECK: return
// STRICT-LABEL: func.func @added(
// STRICT-NOT: kvc.paged_attention
// STRICT: return
func.func @added(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<2x9xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %x = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scaled, %mask : tensor<4x2x9xf32>, tensor<2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %r = arith.addf %a, %m : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
// A mask of booleans, broadcast to the heads.
// CHECK-LABEL: func.func @chosen(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK: %[[STATES:.*]] = tensor.generate
// CHECK: %[[SAME:.*]] = scf.for
// CHECK: %[[BITS:.*]] = tensor.generate
// CHECK: scf.if %[[SAME]]
// CHECK: kvc.paged_attention %[[Q]], {{.*}} mask(%[[BITS]] : tensor<?xi8>) mask_offsets(%{{.*}} : tensor<1xi64>)
// CHECK-SAME: bidirectional
// CHECK: } else {
// CHECK: kvc.lookup_kv
// CHECK: linalg.softmax
// CHECK: }
// CHECK-NOT: linalg.softmax
// CHECK: return
// STRICT-LABEL: func.func @chosen(
// STRICT-NOT: kvc.paged_attention
// STRICT: return
func.func @chosen(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>, %mask: tensor<2x9xi1>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %quarter = arith.constant dense<0.25> : tensor<4x2x9xf32>
  %scaled = arith.mulf %s, %quarter : tensor<4x2x9xf32>
  %e5 = tensor.empty() : tensor<4x2x9xi1>
  %seen = linalg.broadcast ins(%mask : tensor<2x9xi1>) outs(%e5 : tensor<4x2x9xi1>) dimensions = [0]
  %none = arith.constant dense<0xFF800000> : tensor<4x2x9xf32>
  %x = arith.select %seen, %scaled, %none : tensor<4x2x9xi1>, tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}

// -----

!cache = !kvc.paged_cache<f16, 2, 4, 8, 4, 16>
#all = affine_map<(h, q, t) -> (h, q, t)>
#rows = affine_map<(h, q, t) -> (q, t)>

// A causal mask is computed where it is used, with the scale.
// CHECK-LABEL: func.func @causal(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK: %[[STATES:.*]] = tensor.generate
// CHECK: %[[SAME:.*]] = scf.for
// CHECK: %[[BITS:.*]] = tensor.generate
// CHECK: scf.if %[[SAME]]
// CHECK: kvc.paged_attention %[[Q]], {{.*}} mask(%[[BITS]] : tensor<?xi8>) mask_offsets(%{{.*}} : tensor<1xi64>)
// CHECK-SAME: bidirectional
// CHECK: } else {
// CHECK: kvc.lookup_kv
// CHECK: linalg.softmax
// CHECK: }
// CHECK-NOT: linalg.softmax
// CHECK: return
// STRICT-LABEL: func.func @causal(
// STRICT-NOT: kvc.paged_attention
// STRICT: return
func.func @causal(%cache: !cache, %layer: index, %table: tensor<?xi32>, %q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<9x4x8xf32>
  %k, %v = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%e, %e : tensor<9x4x8xf32>, tensor<9x4x8xf32>)
      : !cache -> tensor<9x4x8xf32>, tensor<9x4x8xf32>
  %e0 = tensor.empty() : tensor<4x2x8xf32>
  %qh = linalg.transpose ins(%q : tensor<2x4x8xf32>) outs(%e0 : tensor<4x2x8xf32>) permutation = [1, 0, 2]
  %e1 = tensor.empty() : tensor<4x8x9xf32>
  %kt = linalg.transpose ins(%k : tensor<9x4x8xf32>) outs(%e1 : tensor<4x8x9xf32>) permutation = [1, 2, 0]
  %e2 = tensor.empty() : tensor<4x2x9xf32>
  %s0 = linalg.fill ins(%first : f32) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %s = linalg.batch_matmul ins(%qh, %kt : tensor<4x2x8xf32>, tensor<4x8x9xf32>) outs(%s0 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) {
  ^bb0(%a: f32, %o: f32):
    %quarter = arith.constant 0.25 : f32
    %scaled = arith.mulf %a, %quarter : f32
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c7 = arith.constant 7 : index
    %position = arith.addi %i, %c7 : index
    %later = arith.cmpi ugt, %j, %position : index
    %r = arith.select %later, %hidden, %scaled : f32
    linalg.yield %r : f32
  } -> tensor<4x2x9xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<4x2x9xf32>) outs(%e2 : tensor<4x2x9xf32>) -> tensor<4x2x9xf32>
  %e3 = tensor.empty() : tensor<4x9x8xf32>
  %vh = linalg.transpose ins(%v : tensor<9x4x8xf32>) outs(%e3 : tensor<4x9x8xf32>) permutation = [1, 0, 2]
  %o0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %oh = linalg.batch_matmul ins(%p, %vh : tensor<4x2x9xf32>, tensor<4x9x8xf32>) outs(%o0 : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %e4 = tensor.empty() : tensor<2x4x8xf32>
  %o = linalg.transpose ins(%oh : tensor<4x2x8xf32>) outs(%e4 : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  return %o : tensor<2x4x8xf32>
}
