// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-hoist-lookups | FileCheck %s

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
!rows = tensor<3x2x8xf32>

// The loop may have no iteration: then nothing is looked up.
// CHECK-LABEL: func.func @may_not_run(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %[[LAYER:[a-z0-9]+]]: index, %[[SLOTS:[a-z0-9]+]]: tensor<3xi64>, %[[K:[a-z0-9]+]]: tensor<3x2x8xf32>, %[[N:[a-z0-9]+]]: index
// CHECK: %[[RUNS:.*]] = arith.cmpi slt, %{{.*}}, %[[N]] : index
// CHECK: %[[FOUND:.*]]:2 = scf.if %[[RUNS]]
// CHECK-NEXT: %[[R:.*]]:2 = kvc.lookup_kv %[[CACHE]][%[[LAYER]]]
// CHECK-NEXT: scf.yield %[[R]]#0, %[[R]]#1
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[K]], %[[K]]
// CHECK: scf.for
// CHECK-NOT: kvc.lookup_kv
// CHECK: arith.addf %[[FOUND]]#0
func.func @may_not_run(%cache: !cache, %layer: index, %slots: tensor<3xi64>, %k: !rows, %n: index) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %k) -> !rows {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    %y = arith.addf %a#0, %x : !rows
    scf.yield %y : !rows
  }
  return %r : !rows
}

// Out of two loops; attention beside it only reads.
// CHECK-LABEL: func.func @runs(
// CHECK: kvc.lookup_kv
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: kvc.lookup_kv
// CHECK: kvc.paged_attention
// CHECK-NOT: kvc.lookup_kv
// CHECK: return
func.func @runs(%cache: !cache, %layer: index, %table: tensor<?xi32>, %k: !rows, %q: tensor<1x4x8xf32>,
                %tables: tensor<1x?xi32>, %lens: tensor<1xi64>) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %k) -> !rows {
    %s = scf.for %j = %c0 to %c4 step %c1 iter_args(%z = %x) -> !rows {
      %a:2 = kvc.lookup_kv %cache[%layer] table(%table : tensor<?xi32>) from %c0 outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
      %o = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<1x?xi32>) lens(%lens : tensor<1xi64>)
          outs(%q : tensor<1x4x8xf32>) : tensor<1x4x8xf32>, !cache -> tensor<1x4x8xf32>
      %f = tensor.extract %o[%c0, %c0, %c0] : tensor<1x4x8xf32>
      %g = tensor.splat %f : !rows
      %b = arith.addf %a#0, %z : !rows
      %y = arith.addf %b, %g : !rows
      scf.yield %y : !rows
    }
    scf.yield %s : !rows
  }
  return %r : !rows
}

// Any write stops it: to this cache, to one that may be the same, to memory that a cache may have adopted, by a call,
// in an inner region. So does anything that changes from one iteration to the next.
// CHECK-LABEL: func.func @stays(
func.func private @anything()
func.func @stays(%cache: !cache, %other: !cache, %layer: index, %slots: tensor<3xi64>, %k: !rows, %n: index, %m: memref<3xf16>,
                 %flag: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %half = arith.constant 0.5 : f16
  // CHECK: scf.for
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    kvc.append_kv %a#0, %a#1 into %cache[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
  }
  // CHECK: scf.for
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    kvc.append_kv %a#0, %a#1 into %other[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
  }
  // CHECK: scf.for
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    memref.store %half, %m[%c0] : memref<3xf16>
  }
  // CHECK: scf.for
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    func.call @anything() : () -> ()
  }
  // CHECK: scf.for
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    scf.if %flag {
      kvc.append_kv %k, %k into %cache[%layer] slots(%slots : tensor<3xi64>) : !rows, !rows into !cache
    }
  }
  // CHECK: scf.for
  // CHECK-NEXT: arith.remui
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    %l = arith.remui %i, %n : index
    %a:2 = kvc.lookup_kv %cache[%l] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
  }
  // Not in each iteration.
  // CHECK: scf.for
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: kvc.lookup_kv
  scf.for %i = %c0 to %n step %c1 {
    scf.if %flag {
      %a:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : !rows, !rows) : !cache -> !rows, !rows
    }
  }
  return
}
