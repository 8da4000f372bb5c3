// SPDX-License-Identifier: Apache-2.0
// The reference: caches are memrefs; what it cannot do it says.
// RUN: kvc-opt %s --kvc-to-reference -split-input-file -verify-diagnostics | FileCheck %s

!cache = !kvc.paged_cache<f16, 2, 2, 8, 4, 16>

// CHECK-LABEL: func.func @ops(
// CHECK-SAME: %[[K:[^:]*]]: memref<?x2x8xf32>
func.func @ops(%k: memref<?x2x8xf32>, %slots: memref<?xi64>, %q: memref<?x4x8xf32>, %tables: memref<?x?xi32>, %lens: memref<?xi64>) {
  %c1 = arith.constant 1 : index
  // CHECK: %[[C:.*]] = memref.alloc() {alignment = 64 : i64} : memref<2x16x2x2x4x8xf16>
  // CHECK: linalg.fill
  %cache = kvc.create_cache : !cache
  // CHECK: call @kvc_reference_append_f16_2_2_8_4_16_f32_2(%[[C]]
  kvc.append_kv %k, %k into %cache[%c1] slots(%slots : memref<?xi64>) : memref<?x2x8xf32>, memref<?x2x8xf32> into !cache
  // CHECK: call @kvc_reference_lookup_f16_2_2_8_4_16_f32_2(%[[C]]
  kvc.lookup_kv %cache[%c1] slots(%slots : memref<?xi64>) outs(%k, %k : memref<?x2x8xf32>, memref<?x2x8xf32>) : !cache
  // CHECK: call @kvc_reference_attention_f16_2_2_8_4_16_f32_4
  kvc.paged_attention %q, %cache[%c1] tables(%tables : memref<?x?xi32>) lens(%lens : memref<?xi64>)
      outs(%q : memref<?x4x8xf32>) : memref<?x4x8xf32>, !cache
  // CHECK: memref.dealloc %[[C]]
  kvc.destroy_cache %cache : !cache
  return
}

// -----

func.func @quantized() {
  // expected-error @below {{'kvc.create_cache' op has a cache of 'i8'; the reference has f32, f16 and bf16}}
  %cache = kvc.create_cache : !kvc.paged_cache<i8, 1, 1, 8, 4, 16>
  return
}

// -----

func.func @engine(%storage: !kvc.storage) {
  // expected-error @below {{'kvc.cache_of' op takes an engine's storage, which the reference cannot read; use kvc-to-calls}}
  %cache = kvc.cache_of %storage : !kvc.paged_cache<f16, 1, 1, 8, 4, 16>
  return
}

// -----

func.func @owner(%cache: !kvc.paged_cache<f16, 1, 1, 8, 4, 16>) {
  // expected-error @below {{destroys a cache of which this function does not see who created it; the reference needs that}}
  // expected-error @below {{failed to legalize operation 'kvc.destroy_cache'}}
  kvc.destroy_cache %cache : !kvc.paged_cache<f16, 1, 1, 8, 4, 16>
  return
}

// -----

func.func @tensors(%cache: !kvc.paged_cache<f16, 1, 2, 8, 4, 16>, %k: tensor<1x2x8xf32>, %slots: tensor<1xi64>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'kvc.append_kv' op has tensors; run one-shot-bufferize before kvc-to-reference}}
  kvc.append_kv %k, %k into %cache[%c0] slots(%slots : tensor<1xi64>) : tensor<1x2x8xf32>, tensor<1x2x8xf32> into !kvc.paged_cache<f16, 1, 2, 8, 4, 16>
  return
}
