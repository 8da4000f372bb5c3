// SPDX-License-Identifier: Apache-2.0
// What goes wrong while a program runs ends it with a text that says what, and never reads or writes past an array.
// RUN: not --crash kvc-run %s --lowering=calls --entry=too_long 2>&1 | FileCheck %s --check-prefix=SPACE
// RUN: not --crash kvc-run %s --lowering=calls --entry=few_slots 2>&1 | FileCheck %s --check-prefix=SLOTS
// RUN: not --crash kvc-run %s --lowering=reference --entry=few_slots 2>&1 | FileCheck %s --check-prefix=SLOTS
// RUN: not --crash kvc-run %s --lowering=calls --entry=layer 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: not --crash kvc-run %s --lowering=reference --entry=layer 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: not --crash kvc-run %s --lowering=calls --entry=block 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not --crash kvc-run %s --lowering=calls --entry=strided 2>&1 | FileCheck %s --check-prefix=STRIDED
// RUN: not --crash kvc-run %s --lowering=reference --entry=strided 2>&1 | FileCheck %s --check-prefix=STRIDED
// RUN: not --crash kvc-run %s --lowering=calls --entry=tiled 2>&1 | FileCheck %s --check-prefix=TILED
// RUN: not kvc-run %s --entry=number 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: kvc-run %s --entry=refused | FileCheck %s --check-prefix=REFUSED

// SPACE: kvc: {{.*}}blocks
func.func @too_long() {
  %manager = kvc.create_manager blocks = 2, block_size = 4
  %tokens = memref.alloc() : memref<9xi32>
  %zero = arith.constant 1 : i32
  linalg.fill ins(%zero : i32) outs(%tokens : memref<9xi32>)
  %request, %cached, %status = kvc.allocate %manager, %tokens : memref<9xi32>
  kvc.require %status
  return
}

// A program that asks for the status goes on.
// REFUSED: equal
func.func @refused(%out: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %manager = kvc.create_manager blocks = 2, block_size = 4
  %tokens = memref.alloc() : memref<9xi32>
  %one = arith.constant 1 : i32
  linalg.fill ins(%one : i32) outs(%tokens : memref<9xi32>)
  %request, %cached, %status = kvc.allocate %manager, %tokens : memref<9xi32>
  memref.store %status, %out[%c0] : memref<1xi32>
  %never_fits = arith.constant 17 : i32
  %same = arith.cmpi eq, %status, %never_fits : i32
  cf.assert %same, "the status must be KVC_ERROR_NEVER_FITS"
  kvc.destroy_manager %manager
  return
}

!cache = !kvc.paged_cache<f32, 2, 2, 8, 4, 16>

func.func private @append(%tokens: index, %num_slots: index, %layer: index, %slot: i64) {
  %cache = kvc.create_cache : !cache
  %k = memref.alloc(%tokens) : memref<?x2x8xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%k : memref<?x2x8xf32>)
  %slots = memref.alloc(%num_slots) : memref<?xi64>
  linalg.fill ins(%slot : i64) outs(%slots : memref<?xi64>)
  kvc.append_kv %k, %k into %cache[%layer] slots(%slots : memref<?xi64>) : memref<?x2x8xf32>, memref<?x2x8xf32> into !cache
  return
}

// SLOTS: kvc: kvc.append_kv: slots must have as many entries as keys have tokens
func.func @few_slots() {
  %three = arith.constant 3 : index
  %two = arith.constant 2 : index
  %zero = arith.constant 0 : index
  %slot = arith.constant 5 : i64
  call @append(%three, %two, %zero, %slot) : (index, index, index, i64) -> ()
  return
}

// LAYER: kvc: kvc.append_kv: the layer must be 0 .. 1
func.func @layer() {
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %slot = arith.constant 5 : i64
  call @append(%one, %one, %two, %slot) : (index, index, index, i64) -> ()
  return
}

// BLOCK: kvc: {{.*}}slot
func.func @block() {
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : index
  %slot = arith.constant 64 : i64
  call @append(%one, %one, %zero, %slot) : (index, index, index, i64) -> ()
  return
}

func.func private @append_any(%k: memref<1x2x8xf32, strided<[?, ?, ?], offset: ?>>) {
  %c0 = arith.constant 0 : index
  %cache = kvc.create_cache : !cache
  %slots = memref.alloc() : memref<1xi64>
  %five = arith.constant 5 : i64
  memref.store %five, %slots[%c0] : memref<1xi64>
  kvc.append_kv %k, %k into %cache[%c0] slots(%slots : memref<1xi64>)
      : memref<1x2x8xf32, strided<[?, ?, ?], offset: ?>>, memref<1x2x8xf32, strided<[?, ?, ?], offset: ?>> into !cache
  return
}

// STRIDED: kvc: kvc.append_kv: the last dimension of a memref must be contiguous
func.func @strided() {
  %k = memref.alloc() : memref<1x2x16xf32>
  %every_second = memref.subview %k[0, 0, 0] [1, 2, 8] [1, 1, 2] : memref<1x2x16xf32> to memref<1x2x8xf32, strided<[32, 16, 2]>>
  %any = memref.cast %every_second : memref<1x2x8xf32, strided<[32, 16, 2]>> to memref<1x2x8xf32, strided<[?, ?, ?], offset: ?>>
  call @append_any(%any) : (memref<1x2x8xf32, strided<[?, ?, ?], offset: ?>>) -> ()
  return
}

// TILED: kvc: kvc.export_memref: the keys of the storage must not be tiled
func.func @tiled() {
  %cache = kvc.create_cache {tiled_keys} : !kvc.paged_cache<f32, 2, 2, 8, 16, 4>
  %memory = kvc.export_memref %cache : !kvc.paged_cache<f32, 2, 2, 8, 16, 4> to memref<2x4x2x2x16x8xf32>
  return
}

// ARGUMENT: argument 0 is 'i32'; kvc-run passes memrefs of static shape, of f32, f64, i32 or i64
func.func @number(%n: i32) {
  return
}
