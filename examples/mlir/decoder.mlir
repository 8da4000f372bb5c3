// SPDX-License-Identifier: Apache-2.0
// A small decoder whose KV cache is libkvcache's: two layers, 4 query heads over 2 KV heads of 16 elements, 32 channels,
// 64 tokens. Two sessions with a common beginning are prefilled, then decode together; a third continues the first.
//
//   build/mlir/bin/kvc-run examples/mlir/decoder.mlir
//
// runs it twice, on the library and on the reference in linalg, and compares what it writes to %hidden and %cached.

!cache = !kvc.paged_cache<f32, 2, 2, 16, 4, 64>

// ---- the model: tensors alone, and the cache

// A matrix of the model; a real one is a constant.
func.func private @weights(%rows: index, %columns: index, %layer: index, %which: f32) -> tensor<?x?xf32> {
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %layer32 = arith.index_cast %layer : index to i32
  %l = arith.sitofp %layer32 : i32 to f32
  %w = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<?x?xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %i32 = arith.index_cast %i : index to i32
    %j32 = arith.index_cast %j : index to i32
    %x = arith.sitofp %i32 : i32 to f32
    %y = arith.sitofp %j32 : i32 to f32
    %a = arith.constant 12.9898 : f32
    %b = arith.constant 78.233 : f32
    %c = arith.constant 3.7 : f32
    %quarter = arith.constant 0.25 : f32
    %ax = arith.mulf %a, %x : f32
    %by = arith.mulf %b, %y : f32
    %cl = arith.mulf %c, %l : f32
    %s0 = arith.addf %ax, %by : f32
    %s1 = arith.addf %s0, %cl : f32
    %s2 = arith.addf %s1, %which : f32
    %sine = math.sin %s2 : f32
    %small = arith.mulf %sine, %quarter : f32
    linalg.yield %small : f32
  } -> tensor<?x?xf32>
  return %w : tensor<?x?xf32>
}

// Rows times a matrix of the model.
func.func private @project(%x: tensor<?x?xf32>, %columns: index, %layer: index, %which: f32) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %rows = tensor.dim %x, %c1 : tensor<?x?xf32>
  %w = func.call @weights(%rows, %columns, %layer, %which) : (index, index, index, f32) -> tensor<?x?xf32>
  %empty = tensor.empty(%n, %columns) : tensor<?x?xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x?xf32>, tensor<?x?xf32>) outs(%filled : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// The last layer's output for each new token of a batch of requests; prefill and decode alike.
func.func private @forward(%cache: !cache, %tokens: tensor<?xi32>, %slots: tensor<?xi64>, %tables: tensor<?x?xi32>,
                           %lens: tensor<?xi64>, %offsets: tensor<?xi64>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %n = tensor.dim %tokens, %c0 : tensor<?xi32>
  %empty = tensor.empty(%n, %c32) : tensor<?x?xf32>
  %embedded = linalg.generic {indexing_maps = [affine_map<(t, e) -> (t)>, affine_map<(t, e) -> (t, e)>],
                              iterator_types = ["parallel", "parallel"]}
      ins(%tokens : tensor<?xi32>) outs(%empty : tensor<?x?xf32>) {
  ^bb0(%token: i32, %out: f32):
    %e = linalg.index 1 : index
    %e32 = arith.index_cast %e : index to i32
    %id = arith.sitofp %token : i32 to f32
    %channel = arith.sitofp %e32 : i32 to f32
    %a = arith.constant 0.37 : f32
    %b = arith.constant 1.7 : f32
    %ai = arith.mulf %a, %id : f32
    %bc = arith.mulf %b, %channel : f32
    %product = arith.mulf %ai, %bc : f32
    %sum = arith.addf %product, %ai : f32
    %value = math.sin %sum : f32
    linalg.yield %value : f32
  } -> tensor<?x?xf32>

  %result = scf.for %layer = %c0 to %c2 step %c1 iter_args(%x = %embedded) -> tensor<?x?xf32> {
    %wq = arith.constant 0.1 : f32
    %wk = arith.constant 0.2 : f32
    %wv = arith.constant 0.3 : f32
    %wo = arith.constant 0.4 : f32
    %q2 = func.call @project(%x, %c64, %layer, %wq) : (tensor<?x?xf32>, index, index, f32) -> tensor<?x?xf32>
    %k2 = func.call @project(%x, %c32, %layer, %wk) : (tensor<?x?xf32>, index, index, f32) -> tensor<?x?xf32>
    %v2 = func.call @project(%x, %c32, %layer, %wv) : (tensor<?x?xf32>, index, index, f32) -> tensor<?x?xf32>
    %q1 = tensor.cast %q2 : tensor<?x?xf32> to tensor<?x64xf32>
    %k1 = tensor.cast %k2 : tensor<?x?xf32> to tensor<?x32xf32>
    %v1 = tensor.cast %v2 : tensor<?x?xf32> to tensor<?x32xf32>
    %q = tensor.expand_shape %q1 [[0], [1, 2]] output_shape [%n, 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32>
    %k = tensor.expand_shape %k1 [[0], [1, 2]] output_shape [%n, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
    %v = tensor.expand_shape %v1 [[0], [1, 2]] output_shape [%n, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>

    kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>)
        : tensor<?x2x16xf32>, tensor<?x2x16xf32> into !cache
    %o0 = tensor.empty(%n) : tensor<?x4x16xf32>
    %o = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>)
        offsets(%offsets : tensor<?xi64>) outs(%o0 : tensor<?x4x16xf32>)
        : tensor<?x4x16xf32>, !cache -> tensor<?x4x16xf32>

    %o1 = tensor.collapse_shape %o [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
    %o2 = tensor.cast %o1 : tensor<?x64xf32> to tensor<?x?xf32>
    %y = func.call @project(%o2, %c32, %layer, %wo) : (tensor<?x?xf32>, index, index, f32) -> tensor<?x?xf32>
    %next_empty = tensor.empty(%n, %c32) : tensor<?x?xf32>
    %next = linalg.generic {indexing_maps = [affine_map<(t, e) -> (t, e)>, affine_map<(t, e) -> (t, e)>,
                                             affine_map<(t, e) -> (t, e)>],
                            iterator_types = ["parallel", "parallel"]}
        ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%next_empty : tensor<?x?xf32>) {
    ^bb0(%old: f32, %new: f32, %out: f32):
      %bent = math.tanh %new : f32
      %sum = arith.addf %old, %bent : f32
      linalg.yield %sum : f32
    } -> tensor<?x?xf32>
    scf.yield %next : tensor<?x?xf32>
  }
  return %result : tensor<?x?xf32>
}

// ---- the engine: requests, tables, steps

// Computes what is not cached of a prompt. Writes the last token's output to a row of %hidden, and the tokens that were
// cached to %cached.
func.func private @prefill(%manager: !kvc.manager, %cache: !cache, %tokens: memref<?xi32>, %row: index,
                           %hidden: memref<20x32xf32>, %cached: memref<4xi64>, %which: index) -> !kvc.request {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %n = memref.dim %tokens, %c0 : memref<?xi32>
  %request, %hit, %s0 = kvc.allocate %manager, %tokens : memref<?xi32>
  kvc.require %s0
  %hit64 = arith.index_cast %hit : index to i64
  memref.store %hit64, %cached[%which] : memref<4xi64>
  %new = arith.subi %n, %hit : index
  %slots = memref.alloc(%new) : memref<?xi64>
  %s1 = kvc.slots %manager, %request from %hit into %slots : memref<?xi64>
  kvc.require %s1
  %table = memref.alloc() : memref<16xi32>
  %s2 = kvc.block_table %manager, %request into %table : memref<16xi32>
  kvc.require %s2

  %tables = memref.expand_shape %table [[0, 1]] output_shape [1, 16] : memref<16xi32> into memref<1x16xi32>
  %lens = memref.alloc() : memref<1xi64>
  %offsets = memref.alloc() : memref<2xi64>
  %n64 = arith.index_cast %n : index to i64
  %new64 = arith.index_cast %new : index to i64
  memref.store %n64, %lens[%c0] : memref<1xi64>
  memref.store %zero, %offsets[%c0] : memref<2xi64>
  memref.store %new64, %offsets[%c1] : memref<2xi64>
  %rest = memref.alloc(%new) : memref<?xi32>
  scf.for %i = %c0 to %new step %c1 {
    %at = arith.addi %hit, %i : index
    %token = memref.load %tokens[%at] : memref<?xi32>
    memref.store %token, %rest[%i] : memref<?xi32>
  }
  %tables_any = memref.cast %tables : memref<1x16xi32> to memref<?x?xi32>
  %lens_any = memref.cast %lens : memref<1xi64> to memref<?xi64>
  %offsets_any = memref.cast %offsets : memref<2xi64> to memref<?xi64>
  %t0 = bufferization.to_tensor %rest restrict : memref<?xi32>
  %t1 = bufferization.to_tensor %slots restrict : memref<?xi64>
  %t2 = bufferization.to_tensor %tables_any restrict : memref<?x?xi32>
  %t3 = bufferization.to_tensor %lens_any restrict : memref<?xi64>
  %t4 = bufferization.to_tensor %offsets_any restrict : memref<?xi64>
  %x = func.call @forward(%cache, %t0, %t1, %t2, %t3, %t4)
      : (!cache, tensor<?xi32>, tensor<?xi64>, tensor<?x?xi32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x?xf32>
  %s3 = kvc.commit %manager, %request, %n
  kvc.require %s3
  %last = arith.subi %new, %c1 : index
  func.call @keep(%x, %last, %hidden, %row) : (tensor<?x?xf32>, index, memref<20x32xf32>, index) -> ()
  return %request : !kvc.request
}

func.func private @keep(%x: tensor<?x?xf32>, %from: index, %hidden: memref<20x32xf32>, %row: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  scf.for %e = %c0 to %c32 step %c1 {
    %value = tensor.extract %x[%from, %e] : tensor<?x?xf32>
    memref.store %value, %hidden[%row, %e] : memref<20x32xf32>
  }
  return
}

// The next token: the channel with the largest output, and 32 more in odd positions.
func.func private @sample(%hidden: memref<20x32xf32>, %row: index, %step: index) -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %lowest = arith.constant 0xFF800000 : f32
  %best:2 = scf.for %e = %c0 to %c32 step %c1 iter_args(%largest = %lowest, %at = %c0) -> (f32, index) {
    %value = memref.load %hidden[%row, %e] : memref<20x32xf32>
    %larger = arith.cmpf ogt, %value, %largest : f32
    %a = arith.select %larger, %value, %largest : f32
    %b = arith.select %larger, %e, %at : index
    scf.yield %a, %b : f32, index
  }
  %odd = arith.remui %step, %c2 : index
  %more = arith.muli %odd, %c32 : index
  %token = arith.addi %best#1, %more : index
  %token32 = arith.index_cast %token : index to i32
  return %token32 : i32
}

// Token t of the prompt of a session: equal in all sessions before `common`.
func.func private @prompt(%length: index, %common: index, %session: i32) -> memref<?xi32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %none = arith.constant 0 : i32
  %seven = arith.constant 7 : i32
  %vocabulary = arith.constant 64 : i32
  %tokens = memref.alloc(%length) : memref<?xi32>
  scf.for %t = %c0 to %length step %c1 {
    %own = arith.cmpi uge, %t, %common : index
    %shift = arith.select %own, %session, %none : i32
    %t32 = arith.index_cast %t : index to i32
    %scaled = arith.muli %t32, %seven : i32
    %sum = arith.addi %scaled, %shift : i32
    %token = arith.remui %sum, %vocabulary : i32
    memref.store %token, %tokens[%t] : memref<?xi32>
  }
  return %tokens : memref<?xi32>
}

// Returns 0, or the number of the check that failed.
func.func @main(%hidden: memref<20x32xf32>, %cached: memref<4xi64>) -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  %c9 = arith.constant 9 : index
  %c11 = arith.constant 11 : index
  %c14 = arith.constant 14 : index
  %session_a = arith.constant 1 : i32
  %session_b = arith.constant 2 : i32
  %manager = kvc.create_manager blocks = 64, block_size = 4
  %cache = kvc.create_cache : !cache

  // Two prompts of 11 and 14 tokens; the first 9 are equal, so two blocks of 4 tokens are shared.
  %prompt_a = call @prompt(%c11, %c9, %session_a) : (index, index, i32) -> memref<?xi32>
  %prompt_b = call @prompt(%c14, %c9, %session_b) : (index, index, i32) -> memref<?xi32>
  %a = call @prefill(%manager, %cache, %prompt_a, %c0, %hidden, %cached, %c0)
      : (!kvc.manager, !cache, memref<?xi32>, index, memref<20x32xf32>, memref<4xi64>, index) -> !kvc.request
  %b = call @prefill(%manager, %cache, %prompt_b, %c1, %hidden, %cached, %c1)
      : (!kvc.manager, !cache, memref<?xi32>, index, memref<20x32xf32>, memref<4xi64>, index) -> !kvc.request

  // Both decode in one batch, one token each a step.
  %ids = memref.alloc() : memref<2xi64>
  %committed = memref.alloc() : memref<2xi64>
  %extend = memref.alloc() : memref<3xi64>
  %next = memref.alloc() : memref<2xi32>
  %tables = memref.alloc() : memref<2x16xi32>
  %slots = memref.alloc() : memref<2xi64>
  %statuses = memref.alloc() : memref<2xi32>
  %lens = memref.alloc() : memref<2xi64>
  %conversation = memref.alloc() : memref<18xi32>
  scf.for %t = %c0 to %c11 step %c1 {
    %token = memref.load %prompt_a[%t] : memref<?xi32>
    memref.store %token, %conversation[%t] : memref<18xi32>
  }
  %id_a = kvc.request_id %a
  %id_b = kvc.request_id %b
  memref.store %id_a, %ids[%c0] : memref<2xi64>
  memref.store %id_b, %ids[%c1] : memref<2xi64>
  scf.for %i = %c0 to %c3 step %c1 {
    %i64 = arith.index_cast %i : index to i64
    memref.store %i64, %extend[%i] : memref<3xi64>
  }
  scf.for %step = %c0 to %c6 step %c1 {
    %done_a = arith.addi %c11, %step : index
    %done_b = arith.addi %c14, %step : index
    %row = arith.muli %step, %c2 : index
    %row_b = arith.addi %row, %c1 : index
    %token_a = func.call @sample(%hidden, %row, %step) : (memref<20x32xf32>, index, index) -> i32
    %token_b = func.call @sample(%hidden, %row_b, %step) : (memref<20x32xf32>, index, index) -> i32
    memref.store %token_a, %conversation[%done_a] : memref<18xi32>
    memref.store %token_a, %next[%c0] : memref<2xi32>
    memref.store %token_b, %next[%c1] : memref<2xi32>
    %done_a64 = arith.index_cast %done_a : index to i64
    %done_b64 = arith.index_cast %done_b : index to i64
    memref.store %done_a64, %committed[%c0] : memref<2xi64>
    memref.store %done_b64, %committed[%c1] : memref<2xi64>
    %s0 = kvc.step %manager commit(%ids, %committed) extend(%extend, %next) into(%tables, %slots, %statuses)
        : memref<2xi64>, memref<2xi64>, memref<3xi64>, memref<2xi32>, memref<2x16xi32>, memref<2xi64>, memref<2xi32>
    kvc.require %s0
    scf.for %i = %c0 to %c2 step %c1 {
      %s1 = memref.load %statuses[%i] : memref<2xi32>
      kvc.require %s1
      %before = memref.load %committed[%i] : memref<2xi64>
      %one = arith.constant 1 : i64
      %length = arith.addi %before, %one : i64
      memref.store %length, %lens[%i] : memref<2xi64>
    }
    %next_any = memref.cast %next : memref<2xi32> to memref<?xi32>
    %slots_any = memref.cast %slots : memref<2xi64> to memref<?xi64>
    %tables_any = memref.cast %tables : memref<2x16xi32> to memref<?x?xi32>
    %lens_any = memref.cast %lens : memref<2xi64> to memref<?xi64>
    %extend_any = memref.cast %extend : memref<3xi64> to memref<?xi64>
    %t0 = bufferization.to_tensor %next_any restrict : memref<?xi32>
    %t1 = bufferization.to_tensor %slots_any restrict : memref<?xi64>
    %t2 = bufferization.to_tensor %tables_any restrict : memref<?x?xi32>
    %t3 = bufferization.to_tensor %lens_any restrict : memref<?xi64>
    %t4 = bufferization.to_tensor %extend_any restrict : memref<?xi64>
    %x = func.call @forward(%cache, %t0, %t1, %t2, %t3, %t4)
        : (!cache, tensor<?xi32>, tensor<?xi64>, tensor<?x?xi32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x?xf32>
    %out_a = arith.addi %row, %c2 : index
    %out_b = arith.addi %row, %c3 : index
    func.call @keep(%x, %c0, %hidden, %out_a) : (tensor<?x?xf32>, index, memref<20x32xf32>, index) -> ()
    func.call @keep(%x, %c1, %hidden, %out_b) : (tensor<?x?xf32>, index, memref<20x32xf32>, index) -> ()
  }
  %c17 = arith.constant 17 : index
  %end_a = kvc.commit %manager, %a, %c17
  kvc.require %end_a
  %free_a = kvc.free %manager, %a
  kvc.require %free_a
  %free_b = kvc.free %manager, %b
  kvc.require %free_b

  // The first session goes on: of its 18 tokens four blocks are cached.
  %last = call @sample(%hidden, %c0, %c1) : (memref<20x32xf32>, index, index) -> i32
  memref.store %last, %conversation[%c17] : memref<18xi32>
  %conversation_any = memref.cast %conversation : memref<18xi32> to memref<?xi32>
  %c18 = arith.constant 18 : index
  %again = call @prefill(%manager, %cache, %conversation_any, %c14, %hidden, %cached, %c2)
      : (!kvc.manager, !cache, memref<?xi32>, index, memref<20x32xf32>, memref<4xi64>, index) -> !kvc.request
  kvc.destroy_manager %manager
  kvc.destroy_cache %cache : !cache

  // The same without anything cached, by another manager: the results must be equal.
  %manager2 = kvc.create_manager blocks = 64, block_size = 4
  %cache2 = kvc.create_cache : !cache
  %c15 = arith.constant 15 : index
  %alone = call @prefill(%manager2, %cache2, %conversation_any, %c15, %hidden, %cached, %c3)
      : (!kvc.manager, !cache, memref<?xi32>, index, memref<20x32xf32>, memref<4xi64>, index) -> !kvc.request
  kvc.destroy_manager %manager2
  kvc.destroy_cache %cache2 : !cache

  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %difference = scf.for %e = %c0 to %c32 step %c1 iter_args(%largest = %zero) -> f32 {
    %with = memref.load %hidden[%c14, %e] : memref<20x32xf32>
    %without = memref.load %hidden[%c15, %e] : memref<20x32xf32>
    %d = arith.subf %with, %without : f32
    %size = math.absf %d : f32
    %larger = arith.maximumf %largest, %size : f32
    scf.yield %larger : f32
  }
  %bound = arith.constant 2.0e-5 : f32
  %equal = arith.cmpf ole, %difference, %bound : f32
  %hit_b = memref.load %cached[%c1] : memref<4xi64>
  %hit_again = memref.load %cached[%c2] : memref<4xi64>
  %eight = arith.constant 8 : i64
  %sixteen = arith.constant 16 : i64
  %shared = arith.cmpi eq, %hit_b, %eight : i64
  %continued = arith.cmpi eq, %hit_again, %sixteen : i64
  %ok = arith.constant 0 : i32
  %wrong_sharing = arith.constant 1 : i32
  %wrong_history = arith.constant 2 : i32
  %wrong_values = arith.constant 3 : i32
  %r0 = arith.select %equal, %ok, %wrong_values : i32
  %r1 = arith.select %continued, %r0, %wrong_history : i32
  %r2 = arith.select %shared, %r1, %wrong_sharing : i32
  return %r2 : i32
}
