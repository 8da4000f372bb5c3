// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --pass-pipeline="builtin.module(func.func(kvc-plan-workspace))" | FileCheck %s

!cache = !kvc.paged_cache<f16, 1, 2, 8, 4, 16>

// Three buffers of 192 bytes; the first and the third are never in use together, so they share a place. One in a loop is
// allocated once.
// CHECK-LABEL: func.func @shares(
// CHECK-NEXT: %[[SPACE:.*]] = memref.alloc() {alignment = 64 : i64} : memref<384xi8>
// CHECK: memref.view %[[SPACE]][%c0{{[_0-9]*}}][] : memref<384xi8> to memref<3x2x8xf32>
// CHECK: memref.view %[[SPACE]][%c192{{[_0-9]*}}][] : memref<384xi8> to memref<3x2x8xf32>
// CHECK: scf.for
// CHECK: memref.view %[[SPACE]][%c0{{[_0-9]*}}][] : memref<384xi8> to memref<3x2x8xf32>
// CHECK-NOT: memref.alloc
// CHECK: memref.dealloc %[[SPACE]]
// CHECK-NOT: memref.dealloc
// CHECK: return
func.func @shares(%cache: !cache, %slots: memref<3xi64>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.alloc() : memref<3x2x8xf32>
  %b = memref.alloc() : memref<3x2x8xf32>
  kvc.lookup_kv %cache[%c0] slots(%slots : memref<3xi64>) outs(%a, %b : memref<3x2x8xf32>, memref<3x2x8xf32>) : !cache
  memref.dealloc %a : memref<3x2x8xf32>
  scf.for %i = %c0 to %n step %c1 {
    %c = memref.alloc() : memref<3x2x8xf32>
    kvc.lookup_kv %cache[%c0] slots(%slots : memref<3xi64>) outs(%c, %b : memref<3x2x8xf32>, memref<3x2x8xf32>) : !cache
  }
  memref.dealloc %b : memref<3x2x8xf32>
  return
}

// A view is a use: the first buffer is in use as long as its part is.
// CHECK-LABEL: func.func @views(
// CHECK-NEXT: memref.alloc() {{.*}} : memref<384xi8>
func.func @views(%cache: !cache, %slots: memref<1xi64>) {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<3x2x8xf32>
  %part = memref.subview %a[1, 0, 0] [1, 2, 8] [1, 1, 1] : memref<3x2x8xf32> to memref<1x2x8xf32, strided<[16, 8, 1], offset: 16>>
  %b = memref.alloc() : memref<3x2x8xf32>
  %other = memref.subview %b[0, 0, 0] [1, 2, 8] [1, 1, 1] : memref<3x2x8xf32> to memref<1x2x8xf32, strided<[16, 8, 1]>>
  kvc.lookup_kv %cache[%c0] slots(%slots : memref<1xi64>)
      outs(%part, %other : memref<1x2x8xf32, strided<[16, 8, 1], offset: 16>>, memref<1x2x8xf32, strided<[16, 8, 1]>>) : !cache
  return
}

// Sizes that are known when the function begins: two buffers that are never in use together share a slot, as large as the
// larger one, behind those of static size. A negative size, or one that no memory has, is the largest one.
// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: %[[N:[^:]*]]: index, %[[Q:[^:]*]]: memref<?x4xf32>
// CHECK-DAG: %[[STATIC:.*]] = arith.constant 192 : index
// CHECK-DAG: arith.constant 281474976710656 : index
// CHECK: %[[LOW:.*]], %[[HIGH:.*]] = arith.mului_extended %{{.*}}, %[[N]] : index
// CHECK: memref.dim %[[Q]]
// CHECK: %[[SLOT:.*]] = arith.maxui
// CHECK: %[[SIZE:.*]] = arith.addi %[[STATIC]], %[[SLOT]] : index
// CHECK: %[[LAST:.*]] = arith.addi %[[SIZE]], %{{.*}} : index
// CHECK: %[[SPACE:.*]] = memref.alloc(%[[LAST]]) {alignment = 64 : i64} : memref<?xi8>
// CHECK: memref.view %[[SPACE]][%[[STATIC]]][%[[N]]] : memref<?xi8> to memref<?xi64>
// CHECK: memref.view %[[SPACE]][%[[SIZE]]][%{{.*}}] : memref<?xi8> to memref<?x2x8xf32>
// CHECK: memref.view %[[SPACE]][%{{.*}}][] : memref<?xi8> to memref<3x2x8xf32>
// CHECK: scf.for
// CHECK: memref.view %[[SPACE]][%[[STATIC]]][%{{.*}}] : memref<?xi8> to memref<?xi64>
// CHECK: memref.dealloc %[[SPACE]]
func.func @dynamic(%cache: !cache, %n: index, %q: memref<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0 : i64
  %slots = memref.alloc(%n) : memref<?xi64>
  linalg.fill ins(%zero : i64) outs(%slots : memref<?xi64>)
  %size = memref.dim %slots, %c0 : memref<?xi64>
  %k = memref.alloc(%size) : memref<?x2x8xf32>
  kvc.lookup_kv %cache[%c0] slots(%slots : memref<?xi64>) outs(%k, %k : memref<?x2x8xf32>, memref<?x2x8xf32>) : !cache
  memref.dealloc %slots : memref<?xi64>
  %static = memref.alloc() : memref<3x2x8xf32>
  scf.for %i = %c0 to %c2 step %c1 {
    %rows = memref.dim %q, %c0 : memref<?x4xf32>
    %other = memref.alloc(%rows) : memref<?xi64>
    linalg.fill ins(%zero : i64) outs(%other : memref<?xi64>)
    memref.dealloc %other : memref<?xi64>
  }
  %f = arith.constant 1.0 : f32
  linalg.fill ins(%f : f32) outs(%static : memref<3x2x8xf32>)
  memref.dealloc %k : memref<?x2x8xf32>
  memref.dealloc %static : memref<3x2x8xf32>
  return
}

// A size that is loaded; in a branch; in a loop that may not run; that a division by an argument gives, which may be zero.
// CHECK-LABEL: func.func @unknown(
// CHECK-NOT: memref.view
// CHECK: return
func.func @unknown(%n: index, %m: index, %sizes: memref<2xindex>, %yes: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %loaded = memref.load %sizes[%c0] : memref<2xindex>
  %a = memref.alloc(%loaded) : memref<?xi64>
  linalg.fill ins(%zero : i64) outs(%a : memref<?xi64>)
  %quotient = arith.divui %n, %m : index
  %b = memref.alloc(%quotient) : memref<?xi64>
  linalg.fill ins(%zero : i64) outs(%b : memref<?xi64>)
  scf.if %yes {
    %c = memref.alloc(%n) : memref<?xi64>
    linalg.fill ins(%zero : i64) outs(%c : memref<?xi64>)
  }
  scf.for %i = %c0 to %n step %c1 {
    %d = memref.alloc(%m) : memref<?xi64>
    linalg.fill ins(%zero : i64) outs(%d : memref<?xi64>)
  }
  return
}

// What may outlive its block or be seen elsewhere stays: returned, passed, adopted, carried to the next iteration, in a
// parallel loop.
// CHECK-LABEL: func.func @stays(
// CHECK-NOT: memref.view
// CHECK: return
func.func private @anything(memref<4xf32>)
func.func @stays(%n: index, %given: memref<4xf32>) -> memref<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %f = arith.constant 1.0 : f32
  %returned = memref.alloc() : memref<4xf32>
  memref.store %f, %returned[%c0] : memref<4xf32>
  %passed = memref.alloc() : memref<4xf32>
  func.call @anything(%passed) : (memref<4xf32>) -> ()
  %adopted = memref.alloc() {alignment = 16 : i64} : memref<1x2x2x1x4x8xf16>
  %cache = kvc.adopt_memref %adopted : memref<1x2x2x1x4x8xf16> to !kvc.paged_cache<f16, 1, 1, 8, 4, 2>
  kvc.destroy_cache %cache : !kvc.paged_cache<f16, 1, 1, 8, 4, 2>
  %carried = scf.for %i = %c0 to %n step %c1 iter_args(%last = %given) -> memref<4xf32> {
    %next = memref.alloc() : memref<4xf32>
    memref.store %f, %next[%c0] : memref<4xf32>
    scf.yield %next : memref<4xf32>
  }
  memref.store %f, %carried[%c0] : memref<4xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %own = memref.alloc() : memref<4xf32>
    memref.store %f, %own[%c0] : memref<4xf32>
    scf.reduce
  }
  return %returned : memref<4xf32>
}
