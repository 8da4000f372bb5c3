// SPDX-License-Identifier: Apache-2.0
// RUN: kvc-opt %s --kvc-remove-dead-lookups | FileCheck %s

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// Nobody reads the results: of tensors, of memory of this function, or the number of a probe.
// CHECK-LABEL: func.func @dead
// CHECK-NOT: kvc.lookup
// CHECK-NOT: kvc.paged_attention
// CHECK-NOT: memref.alloc
// CHECK: return
func.func @dead(%m: !kvc.manager, %tokens: memref<?xi32>, %cache: !cache, %layer: index, %k: tensor<3x2x8xf32>,
                %slots: tensor<3xi64>, %places: memref<3xi64>, %q: memref<1x4x8xf32>, %tables: memref<1x?xi32>, %lens: memref<1xi64>) {
  %r:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : tensor<3x2x8xf32>, tensor<3x2x8xf32>)
      : !cache -> tensor<3x2x8xf32>, tensor<3x2x8xf32>
  %s:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%r#0, %r#1 : tensor<3x2x8xf32>, tensor<3x2x8xf32>)
      : !cache -> tensor<3x2x8xf32>, tensor<3x2x8xf32>
  %a = memref.alloc() : memref<3x2x8xf32>
  %b = memref.alloca() : memref<3x2x8xf32>
  kvc.lookup_kv %cache[%layer] slots(%places : memref<3xi64>) outs(%a, %b : memref<3x2x8xf32>, memref<3x2x8xf32>) : !cache
  memref.dealloc %a : memref<3x2x8xf32>
  %o = memref.alloc() : memref<1x4x8xf32>
  kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<1x?xi32>) lens(%lens : memref<1xi64>)
      outs(%o : memref<1x4x8xf32>) : memref<1x4x8xf32>, !cache
  memref.dealloc %o : memref<1x4x8xf32>
  %hit, %status = kvc.lookup %m, %tokens : memref<?xi32>
  return
}

// What writes stays: appends, and what changes the manager. So does what is read, through a view or by the caller.
// CHECK-LABEL: func.func @alive
// CHECK: kvc.append_kv
// CHECK: kvc.append_kv
// CHECK: kvc.lookup_kv
// CHECK: kvc.lookup_kv
// CHECK: kvc.lookup_kv
// CHECK: kvc.lookup_kv
// CHECK: kvc.lookup %
// CHECK: kvc.allocate
// CHECK: kvc.append %
// CHECK: kvc.free
func.func @alive(%m: !kvc.manager, %tokens: memref<?xi32>, %cache: !cache, %layer: index, %k: tensor<3x2x8xf32>,
                 %slots: tensor<3xi64>, %places: memref<3xi64>, %given: memref<3x2x8xf32>) -> (f32, tensor<3x2x8xf32>, index) {
  %c0 = arith.constant 0 : index
  kvc.append_kv %k, %k into %cache[%layer] slots(%slots : tensor<3xi64>) : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  kvc.append_kv %k, %k into %cache[%layer] slots(%slots : tensor<3xi64>) : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !cache
  %r:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<3xi64>) outs(%k, %k : tensor<3x2x8xf32>, tensor<3x2x8xf32>)
      : !cache -> tensor<3x2x8xf32>, tensor<3x2x8xf32>
  %a = memref.alloc() : memref<3x2x8xf32>
  %b = memref.alloc() : memref<3x2x8xf32>
  // One of the two destinations is read.
  kvc.lookup_kv %cache[%layer] slots(%places : memref<3xi64>) outs(%a, %b : memref<3x2x8xf32>, memref<3x2x8xf32>) : !cache
  %x = memref.load %b[%c0, %c0, %c0] : memref<3x2x8xf32>
  // The caller's memory.
  kvc.lookup_kv %cache[%layer] slots(%places : memref<3xi64>) outs(%given, %a : memref<3x2x8xf32>, memref<3x2x8xf32>) : !cache
  // A view may be read.
  %d = memref.alloc() : memref<6x2x8xf32>
  %view = memref.subview %d[0, 0, 0] [3, 2, 8] [1, 1, 1] : memref<6x2x8xf32> to memref<3x2x8xf32, strided<[16, 8, 1]>>
  kvc.lookup_kv %cache[%layer] slots(%places : memref<3xi64>)
      outs(%view, %a : memref<3x2x8xf32, strided<[16, 8, 1]>>, memref<3x2x8xf32>) : !cache
  %hit, %s0 = kvc.lookup %m, %tokens : memref<?xi32>
  %request, %cached, %s1 = kvc.allocate %m, %tokens : memref<?xi32>
  %s2 = kvc.append %m, %request, %tokens : memref<?xi32>
  %s3 = kvc.free %m, %request
  return %x, %r#0, %hit : f32, tensor<3x2x8xf32>, index
}
