// SPDX-License-Identifier: Apache-2.0
// Passes of the core keep to the effects on a cache: equal reads are one if nothing writes between them; appends and
// what changes a manager are never merged, moved or dropped.
// RUN: kvc-opt %s --cse --canonicalize --loop-invariant-code-motion | FileCheck %s

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
!rows = tensor<3x2x8xf32>

// CHECK-LABEL: func.func @equal_reads(
// CHECK-COUNT-1: kvc.lookup_kv
// CHECK-NOT: kvc.lookup_kv
func.func @equal_reads(%cache: !cache, %layer: index, %slots: tensor<3xi64>, %k: !rows) -> (!rows, !rows) {
  %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
  %b:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
  return %a#0, %b#1 : !rows, !rows
}

// CHECK-LABEL: func.func @write_between(
// CHECK: kvc.lookup_kv
// CHECK: kvc.append_kv
// CHECK: kvc.lookup_kv
// CHECK: kvc.append_kv
// CHECK: kvc.append_kv
func.func @write_between(%cache: !cache, %other: !cache, %layer: index, %slots: tensor<3xi64>, %k: !rows) -> (!rows, !rows) {
  %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
  // It may be the same cache.
  kvc.append_kv %k, %k into %other[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
  %b:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
  kvc.append_kv %k, %k into %cache[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
  kvc.append_kv %k, %k into %cache[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
  return %a#0, %b#0 : !rows, !rows
}

// What a loop reads and writes stays in it.
// CHECK-LABEL: func.func @loop(
// CHECK: scf.for
// CHECK: kvc.lookup_kv
// CHECK: kvc.append_kv
// CHECK: scf.yield
func.func @loop(%cache: !cache, %layer: index, %slots: tensor<3xi64>, %k: !rows, %n: index) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %k) -> !rows {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    kvc.append_kv %x, %x into %cache[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
    %y = arith.addf %a#0, %x : !rows
    scf.yield %y : !rows
  }
  return %r : !rows
}

// CHECK-LABEL: func.func @manager(
// CHECK-COUNT-2: kvc.allocate
// CHECK-COUNT-2: kvc.append %
// CHECK-COUNT-2: kvc.free
func.func @manager(%m: !kvc.manager, %tokens: memref<?xi32>) {
  %r0, %c0, %s0 = kvc.allocate %m, %tokens : memref<?xi32>
  %r1, %c1, %s1 = kvc.allocate %m, %tokens : memref<?xi32>
  %s2 = kvc.append %m, %r0, %tokens : memref<?xi32>
  %s3 = kvc.append %m, %r0, %tokens : memref<?xi32>
  %s4 = kvc.free %m, %r0
  %s5 = kvc.free %m, %r1
  return
}
