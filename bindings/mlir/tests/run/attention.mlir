// SPDX-License-Identifier: Apache-2.0
// Every option of attention, both ways to say where rows are, three element types: the library and the reference agree
// within the bounds of the library's own tests of attention.
// RUN: sed 's/ELEMENT/f32/g' %s > %t.f32.mlir && kvc-run %t.f32.mlir | FileCheck %s
// RUN: sed 's/ELEMENT/f16/g' %s > %t.f16.mlir && kvc-run %t.f16.mlir | FileCheck %s
// RUN: sed 's/ELEMENT/bf16/g' %s > %t.bf16.mlir && kvc-run %t.bf16.mlir | FileCheck %s
// CHECK: results, largest difference {{.*}}: equal

// Three requests of 3, 1 and 5 queries with 7, 1 and 13 tokens in blocks of 4, in scattered blocks.
!cache = !kvc.paged_cache<ELEMENT, 2, 2, 16, 4, 12>

func.func private @wave(%n: index, %heads: index, %seed: f32) -> tensor<?x?x16xf32> {
  %empty = tensor.empty(%n, %heads) : tensor<?x?x16xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      outs(%empty : tensor<?x?x16xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %c16 = arith.constant 16 : index
    %c97 = arith.constant 97 : index
    %a = arith.muli %i, %c97 : index
    %b = arith.muli %j, %c16 : index
    %ab = arith.addi %a, %b : index
    %abk = arith.addi %ab, %k : index
    %n32 = arith.index_cast %abk : index to i32
    %x = arith.sitofp %n32 : i32 to f32
    %factor = arith.constant 1.618 : f32
    %y = arith.mulf %x, %factor : f32
    %z = arith.addf %y, %seed : f32
    %s = math.sin %z : f32
    %two = arith.constant 2.0 : f32
    %v = arith.mulf %s, %two : f32
    linalg.yield %v : f32
  } -> tensor<?x?x16xf32>
  return %w : tensor<?x?x16xf32>
}

func.func private @keep(%o: tensor<9x4x16xf32>, %results: memref<11x9x4x16xf32>, %at: index) {
  %c0 = arith.constant 0 : index
  %m = bufferization.to_memref %o : memref<9x4x16xf32>
  %to = memref.subview %results[%at, 0, 0, 0] [1, 9, 4, 16] [1, 1, 1, 1] : memref<11x9x4x16xf32> to memref<9x4x16xf32, strided<[64, 16, 1], offset: ?>>
  memref.copy %m, %to : memref<9x4x16xf32> to memref<9x4x16xf32, strided<[64, 16, 1], offset: ?>>
  return
}

func.func @main(%results: memref<11x9x4x16xf32>, %rows: memref<2x7x2x16xf32>) -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c7 = arith.constant 7 : index
  %c9 = arith.constant 9 : index
  %c13 = arith.constant 13 : index
  %s0 = arith.constant 0.5 : f32
  %s1 = arith.constant 1.5 : f32
  %s2 = arith.constant 2.5 : f32
  %cache = kvc.create_cache : !cache
  %tables = arith.constant dense<[[3, 7, -1, -1], [5, -1, -1, -1], [11, 0, 9, 2]]> : tensor<3x4xi32>
  %lens = arith.constant dense<[7, 1, 13]> : tensor<3xi64>
  %offsets = arith.constant dense<[0, 3, 4, 9]> : tensor<4xi64>

  // The first request by its table, in two parts; the second by a slot; the third by slots, one of them skipped.
  %k13a = func.call @wave(%c13, %c2, %s0) : (index, index, f32) -> tensor<?x?x16xf32>
  %v13a = func.call @wave(%c13, %c2, %s1) : (index, index, f32) -> tensor<?x?x16xf32>
  %k13 = tensor.cast %k13a : tensor<?x?x16xf32> to tensor<13x2x16xf32>
  %v13 = tensor.cast %v13a : tensor<?x?x16xf32> to tensor<13x2x16xf32>
  %table0 = arith.constant dense<[3, 7]> : tensor<2xi32>
  %k_a = tensor.extract_slice %k13[0, 0, 0] [5, 2, 16] [1, 1, 1] : tensor<13x2x16xf32> to tensor<5x2x16xf32>
  %v_a = tensor.extract_slice %v13[0, 0, 0] [5, 2, 16] [1, 1, 1] : tensor<13x2x16xf32> to tensor<5x2x16xf32>
  kvc.append_kv %k_a, %v_a into %cache[%c1] table(%table0 : tensor<2xi32>) from %c0 : tensor<5x2x16xf32>, tensor<5x2x16xf32> into !cache
  %k_b = tensor.extract_slice %k13[9, 0, 0] [2, 2, 16] [1, 1, 1] : tensor<13x2x16xf32> to tensor<2x2x16xf32>
  %v_b = tensor.extract_slice %v13[9, 0, 0] [2, 2, 16] [1, 1, 1] : tensor<13x2x16xf32> to tensor<2x2x16xf32>
  %c5 = arith.constant 5 : index
  kvc.append_kv %k_b, %v_b into %cache[%c1] table(%table0 : tensor<2xi32>) from %c5 : tensor<2x2x16xf32>, tensor<2x2x16xf32> into !cache
  %k_c = tensor.extract_slice %k13[3, 0, 0] [1, 2, 16] [1, 1, 1] : tensor<13x2x16xf32> to tensor<1x2x16xf32>
  %slot = arith.constant dense<20> : tensor<1xi64>
  kvc.append_kv %k_c, %k_c into %cache[%c1] slots(%slot : tensor<1xi64>) : tensor<1x2x16xf32>, tensor<1x2x16xf32> into !cache
  %slots = arith.constant dense<[44, 45, 46, 47, 0, 1, 2, 3, 36, 37, 38, -1, 8]> : tensor<13xi64>
  kvc.append_kv %k13, %v13 into %cache[%c1] slots(%slots : tensor<13xi64>) : tensor<13x2x16xf32>, tensor<13x2x16xf32> into !cache

  %qa = func.call @wave(%c9, %c4, %s2) : (index, index, f32) -> tensor<?x?x16xf32>
  %q = tensor.cast %qa : tensor<?x?x16xf32> to tensor<9x4x16xf32>
  %logits = arith.constant dense<[0.5, -1.0, 3.0, 0xFF800000]> : tensor<4xf32>
  %mask = arith.constant dense<[-75, 91, -2, 0, 127, -1, 85, -86, 60, -61, 15, -16]> : tensor<12xi8>
  %mask_offsets = arith.constant dense<[0, 21, 24]> : tensor<3xi64>
  %e0 = tensor.empty() : tensor<9x4x16xf32>
  %o0 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) outs(%e0 : tensor<9x4x16xf32>)
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i0 = arith.constant 0 : index
  func.call @keep(%o0, %results, %i0) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e1 = tensor.empty() : tensor<9x4x16xf32>
  %o1 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) outs(%e1 : tensor<9x4x16xf32>) {scale = 0.7 : f32}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i1 = arith.constant 1 : index
  func.call @keep(%o1, %results, %i1) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e2 = tensor.empty() : tensor<9x4x16xf32>
  %o2 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) outs(%e2 : tensor<9x4x16xf32>) {soft_cap = 2.0 : f32}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i2 = arith.constant 2 : index
  func.call @keep(%o2, %results, %i2) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e3 = tensor.empty() : tensor<9x4x16xf32>
  %o3 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) outs(%e3 : tensor<9x4x16xf32>) {window = 3}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i3 = arith.constant 3 : index
  func.call @keep(%o3, %results, %i3) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e4 = tensor.empty() : tensor<9x4x16xf32>
  %o4 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) outs(%e4 : tensor<9x4x16xf32>) {window = 3, sinks = 2}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i4 = arith.constant 4 : index
  func.call @keep(%o4, %results, %i4) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e5 = tensor.empty() : tensor<9x4x16xf32>
  %o5 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) outs(%e5 : tensor<9x4x16xf32>) {bidirectional}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i5 = arith.constant 5 : index
  func.call @keep(%o5, %results, %i5) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e6 = tensor.empty() : tensor<9x4x16xf32>
  %o6 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) sink_logits(%logits : tensor<4xf32>) outs(%e6 : tensor<9x4x16xf32>)
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i6 = arith.constant 6 : index
  func.call @keep(%o6, %results, %i6) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e7 = tensor.empty() : tensor<9x4x16xf32>
  %o7 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) mask(%mask : tensor<12xi8>) mask_offsets(%mask_offsets : tensor<3xi64>) outs(%e7 : tensor<9x4x16xf32>)
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i7 = arith.constant 7 : index
  func.call @keep(%o7, %results, %i7) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %e8 = tensor.empty() : tensor<9x4x16xf32>
  %o8 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) mask(%mask : tensor<12xi8>) mask_offsets(%mask_offsets : tensor<3xi64>) sink_logits(%logits : tensor<4xf32>) outs(%e8 : tensor<9x4x16xf32>) {bidirectional, scale = -0.3 : f32, soft_cap = 5.0 : f32, window = 6, sinks = 1}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i8 = arith.constant 8 : index
  func.call @keep(%o8, %results, %i8) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()

  // ALiBi; a tree of draft tokens behind what all see: bits for positions from mask_starts on.
  %slopes = arith.constant dense<[0.5, 0.25, -0.125, 0.0]> : tensor<4xf32>
  %e9 = tensor.empty() : tensor<9x4x16xf32>
  %o9 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) alibi_slopes(%slopes : tensor<4xf32>) outs(%e9 : tensor<9x4x16xf32>) {soft_cap = 2.0 : f32}
      : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i9 = arith.constant 9 : index
  func.call @keep(%o9, %results, %i9) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()
  %starts = arith.constant dense<[4, 1, 8]> : tensor<3xi64>
  %tree_offsets = arith.constant dense<[0, 9, 9]> : tensor<3xi64>
  %tree = arith.constant dense<[89, 58, -86, 91, 127]> : tensor<5xi8>
  %e10 = tensor.empty() : tensor<9x4x16xf32>
  %o10 = kvc.paged_attention %q, %cache[%c1] tables(%tables : tensor<3x4xi32>) lens(%lens : tensor<3xi64>)
      offsets(%offsets : tensor<4xi64>) mask(%tree : tensor<5xi8>) mask_offsets(%tree_offsets : tensor<3xi64>)
      mask_starts(%starts : tensor<3xi64>) sink_logits(%logits : tensor<4xf32>) alibi_slopes(%slopes : tensor<4xf32>)
      outs(%e10 : tensor<9x4x16xf32>) : tensor<9x4x16xf32>, !cache -> tensor<9x4x16xf32>
  %i10 = arith.constant 10 : index
  func.call @keep(%o10, %results, %i10) : (tensor<9x4x16xf32>, memref<11x9x4x16xf32>, index) -> ()

  // What was stored comes back; a skipped row keeps what it had.
  %k0 = memref.subview %rows[0, 0, 0, 0] [1, 7, 2, 16] [1, 1, 1, 1] : memref<2x7x2x16xf32> to memref<7x2x16xf32, strided<[32, 16, 1]>>
  %v0 = memref.subview %rows[1, 0, 0, 0] [1, 7, 2, 16] [1, 1, 1, 1] : memref<2x7x2x16xf32> to memref<7x2x16xf32, strided<[32, 16, 1], offset: 224>>
  %back = memref.alloc() : memref<7xi64>
  scf.for %i = %c0 to %c7 step %c1 {
    %i64 = arith.index_cast %i : index to i64
    %even = arith.remui %i, %c2 : index
    %is_even = arith.cmpi eq, %even, %c0 : index
    %skip = arith.constant -1 : i64
    %c44 = arith.constant 44 : i64
    %four = arith.constant 4 : i64
    %wrapped = arith.remui %i64, %four : i64
    %there = arith.addi %c44, %wrapped : i64
    %where = arith.select %is_even, %there, %skip : i64
    memref.store %where, %back[%i] : memref<7xi64>
  }
  kvc.lookup_kv %cache[%c1] slots(%back : memref<7xi64>)
      outs(%k0, %v0 : memref<7x2x16xf32, strided<[32, 16, 1]>>, memref<7x2x16xf32, strided<[32, 16, 1], offset: 224>>) : !cache
  kvc.destroy_cache %cache : !cache
  %ok = arith.constant 0 : i32
  return %ok : i32
}
