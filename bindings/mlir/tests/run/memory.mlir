// SPDX-License-Identifier: Apache-2.0
// Memory of the caller becomes a cache and back: both see each other's writes, and nothing is copied.
// RUN: kvc-run %s --bound=0 | FileCheck %s
// CHECK: equal

!cache = !kvc.paged_cache<f32, 2, 2, 8, 4, 16>

// Returns 0, or the number of the check that failed.
func.func @main(%out: memref<2x2x8xf32>) -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c7 = arith.constant 7 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %memory = memref.alloc() {alignment = 64 : i64} : memref<2x16x2x2x4x8xf32>
  linalg.fill ins(%zero : f32) outs(%memory : memref<2x16x2x2x4x8xf32>)
  %cache = kvc.adopt_memref %memory : memref<2x16x2x2x4x8xf32> to !cache

  // Slot 31 of layer 1: the memref sees it at block 7, offset 3.
  %k = memref.alloc() : memref<1x2x8xf32>
  %v = memref.alloc() : memref<1x2x8xf32>
  linalg.fill ins(%one : f32) outs(%k : memref<1x2x8xf32>)
  linalg.fill ins(%two : f32) outs(%v : memref<1x2x8xf32>)
  %slots = memref.alloc() : memref<1xi64>
  %slot = arith.constant 31 : i64
  memref.store %slot, %slots[%c0] : memref<1xi64>
  kvc.append_kv %k, %v into %cache[%c1] slots(%slots : memref<1xi64>) : memref<1x2x8xf32>, memref<1x2x8xf32> into !cache
  %seen_k = memref.load %memory[%c1, %c7, %c0, %c1, %c3, %c7] : memref<2x16x2x2x4x8xf32>
  %seen_v = memref.load %memory[%c1, %c7, %c1, %c0, %c3, %c0] : memref<2x16x2x2x4x8xf32>
  %k_there = arith.cmpf oeq, %seen_k, %one : f32
  %v_there = arith.cmpf oeq, %seen_v, %two : f32

  // And back: what the memref writes, a lookup reads.
  %three = arith.constant 3.0 : f32
  %view = kvc.export_memref %cache : !cache to memref<2x16x2x2x4x8xf32>
  memref.store %three, %view[%c1, %c7, %c1, %c1, %c3, %c3] : memref<2x16x2x2x4x8xf32>
  %k0 = memref.subview %out[0, 0, 0] [1, 2, 8] [1, 1, 1] : memref<2x2x8xf32> to memref<1x2x8xf32, strided<[16, 8, 1]>>
  %v0 = memref.subview %out[1, 0, 0] [1, 2, 8] [1, 1, 1] : memref<2x2x8xf32> to memref<1x2x8xf32, strided<[16, 8, 1], offset: 16>>
  kvc.lookup_kv %cache[%c1] slots(%slots : memref<1xi64>)
      outs(%k0, %v0 : memref<1x2x8xf32, strided<[16, 8, 1]>>, memref<1x2x8xf32, strided<[16, 8, 1], offset: 16>>) : !cache
  kvc.destroy_cache %cache : !cache
  %back = memref.load %out[%c1, %c1, %c3] : memref<2x2x8xf32>
  %same = arith.cmpf oeq, %back, %three : f32
  %still = memref.load %memory[%c1, %c7, %c0, %c0, %c3, %c0] : memref<2x16x2x2x4x8xf32>
  %kept = arith.cmpf oeq, %still, %one : f32
  memref.dealloc %memory : memref<2x16x2x2x4x8xf32>

  %ok = arith.constant 0 : i32
  %e1 = arith.constant 1 : i32
  %e2 = arith.constant 2 : i32
  %e3 = arith.constant 3 : i32
  %e4 = arith.constant 4 : i32
  %r0 = arith.select %kept, %ok, %e4 : i32
  %r1 = arith.select %same, %r0, %e3 : i32
  %r2 = arith.select %v_there, %r1, %e2 : i32
  %r3 = arith.select %k_there, %r2, %e1 : i32
  return %r3 : i32
}
