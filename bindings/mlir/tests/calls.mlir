// SPDX-License-Identifier: Apache-2.0
// Which function each op calls, and that the module declares it as the public header does.
// RUN: kvc-opt %s --kvc-to-calls | FileCheck %s
// RUN: kvc-opt %s --kvc-to-calls | %python %S/check_declarations.py

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// CHECK-LABEL: func.func @handles(
// CHECK-SAME: %[[M:[^:]*]]: !llvm.ptr
func.func @handles(%m: !kvc.manager, %tokens: memref<?xi32>, %slots: memref<?xi64>, %table: memref<?xi32>, %i: index) {
  // CHECK: llvm.call @kvc_manager_probe(%[[M]],
  %hit, %s0 = kvc.lookup %m, %tokens : memref<?xi32>
  // CHECK: llvm.call @kvc_manager_allocate_request(%[[M]],
  // CHECK: %[[R:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i64
  %request, %cached, %s1 = kvc.allocate %m, %tokens : memref<?xi32>
  // CHECK: llvm.call @kvc_last_error()
  // CHECK: llvm.call @kvc_failure
  kvc.require %s1
  // CHECK: llvm.call @kvc_manager_append_tokens(%[[M]], %[[R]],
  %s2 = kvc.append %m, %request, %tokens : memref<?xi32>
  // CHECK: llvm.call @kvc_manager_export_slots(%[[M]], %[[R]],
  %s3 = kvc.slots %m, %request from %i into %slots : memref<?xi64>
  // CHECK: llvm.call @kvc_manager_export_tables(%[[M]],
  %s4 = kvc.block_table %m, %request into %table : memref<?xi32>
  // CHECK: llvm.call @kvc_manager_commit_tokens(%[[M]], %[[R]],
  %s5 = kvc.commit %m, %request, %i
  // CHECK: llvm.call @kvc_manager_free_request(%[[M]], %[[R]])
  %s6 = kvc.free %m, %request
  // CHECK: llvm.call @kvc_manager_destroy(%[[M]])
  kvc.destroy_manager %m
  return
}

// CHECK-LABEL: func.func @create
func.func @create() -> !kvc.manager {
  // CHECK: llvm.call @kvc_manager_create
  %m = kvc.create_manager blocks = 64, block_size = 16
  // CHECK: return %{{.*}} : !llvm.ptr
  return %m : !kvc.manager
}

// CHECK-LABEL: func.func @step
func.func @step(%m: !kvc.manager, %ids: memref<?xi64>, %counts: memref<?xi64>, %offsets: memref<?xi64>,
                %tokens: memref<?xi32>, %tables: memref<?x8xi32>, %slots: memref<?xi64>, %all: memref<?xi32>) -> i32 {
  // CHECK: llvm.call @kvc_manager_step
  // CHECK: llvm.call @kvc_manager_retire_step
  %status = kvc.step %m commit(%ids, %counts) extend(%offsets, %tokens) into(%tables, %slots, %all)
      : memref<?xi64>, memref<?xi64>, memref<?xi64>, memref<?xi32>, memref<?x8xi32>, memref<?xi64>, memref<?xi32>
  return %status : i32
}

// CHECK-LABEL: func.func @caches
func.func @caches(%storage: !kvc.storage, %memory: memref<2x16x2x2x4x8xf16>) -> memref<2x16x2x2x4x8xf16> {
  // CHECK: llvm.call @kvc_storage_create
  %own = kvc.create_cache : !cache
  // CHECK: llvm.extractvalue %{{.*}}[1]
  // CHECK: llvm.call @kvc_storage_create
  %adopted = kvc.adopt_memref %memory : memref<2x16x2x2x4x8xf16> to !cache
  // CHECK: llvm.call @kvc_storage_properties
  %back = kvc.export_memref %own : !cache to memref<2x16x2x2x4x8xf16>
  // CHECK: llvm.call @kvc_storage_properties
  %engines = kvc.cache_of %storage : !cache
  // CHECK: llvm.call @kvc_storage_destroy
  kvc.destroy_cache %own : !cache
  return %back : memref<2x16x2x2x4x8xf16>
}

// A cache and a request may live in loops and branches.
// CHECK-LABEL: func.func @loop
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (!llvm.ptr)
func.func @loop(%cache: !cache, %n: index, %k: memref<?x2x8xf32>, %v: memref<?x2x8xf32>, %slots: memref<?xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%it = %cache) -> (!cache) {
    // CHECK: llvm.call @kvc_storage_store
    kvc.append_kv %k, %v into %it[%c1] slots(%slots : memref<?xi64>) : memref<?x2x8xf32>, memref<?x2x8xf32> into !cache
    scf.yield %it : !cache
  }
  // CHECK: llvm.call @kvc_storage_gather
  kvc.lookup_kv %last[%c1] slots(%slots : memref<?xi64>) outs(%k, %v : memref<?x2x8xf32>, memref<?x2x8xf32>) : !cache
  return
}

// CHECK-LABEL: func.func @attend
func.func @attend(%cache: !cache, %layer: index, %q: memref<?x4x8xbf16>, %tables: memref<?x?xi32>, %lens: memref<?xi64>) {
  // CHECK: llvm.call @kvc_storage_attend
  kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<?x?xi32>) lens(%lens : memref<?xi64>)
      outs(%q : memref<?x4x8xbf16>) : memref<?x4x8xbf16>, !cache
  return
}
