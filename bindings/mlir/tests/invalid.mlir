// SPDX-License-Identifier: Apache-2.0
// Every message of the verifiers: what is wrong, its value, and what it must be.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics

// -----

// expected-error @below {{element type is 'f64'; use f32, f16, bf16, f8E4M3FN, f8E5M2, i8 or i4}}
func.func private @type(!kvc.paged_cache<f64, 2, 2, 8, 4, 16>)

// -----

// expected-error @below {{layers is 0; it must be 1 .. 65536}}
func.func private @type(!kvc.paged_cache<f16, 0, 2, 8, 4, 16>)

// -----

// expected-error @below {{kv_heads is 65537; it must be 1 .. 65536}}
func.func private @type(!kvc.paged_cache<f16, 2, 65537, 8, 4, 16>)

// -----

// expected-error @below {{head_dim is 8193; it must be 1 .. 8192}}
func.func private @type(!kvc.paged_cache<f16, 2, 2, 8193, 4, 16>)

// -----

// expected-error @below {{block is 1025; it must be 1 .. 1024}}
func.func private @type(!kvc.paged_cache<f16, 2, 2, 8, 1025, 16>)

// -----

// expected-error @below {{blocks is 2147483583; it must be 1 .. 2147483582}}
func.func private @type(!kvc.paged_cache<f16, 2, 2, 8, 4, 2147483583>)

// -----

// expected-error @below {{blocks is -1; it must be 1 .. 2147483582}}
func.func private @type(!kvc.paged_cache<f16, 2, 2, 8, 4, -1>)

// -----

// expected-error @below {{the cache has more than 2^58 elements; reduce layers, kv_heads, head_dim, block or blocks}}
func.func private @type(!kvc.paged_cache<i4, 65536, 65536, 8192, 1024, 2147483582>)

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index) {
  %layer = arith.constant 2 : index
  // expected-error @below {{'kvc.append_kv' op layer is 2; it must be 0 .. 1}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index) {
  %layer = arith.constant -1 : index
  // expected-error @below {{'kvc.append_kv' op layer is -1; it must be 0 .. 1}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf16>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys have elements of 'f32' and values of 'f16'; they must be equal}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf16> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<3x2x8xf32>, %v: tensor<4x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys have 3 tokens and values 4; they must be equal}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<3x2x8xf32>, tensor<4x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x3x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys has 3 heads; it must have 2}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x3x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x16xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op values has 16 elements per head; it must have 8}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x16xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op has neither slots nor a table; it must have one of them}}
  kvc.append_kv %k, %v into %cache[%layer]  : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op has slots and a table; it must have one of them}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) table(%table : tensor<?xi32>) from %first : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op has a table without `from`, the position of its first token}}
  kvc.append_kv %k, %v into %cache[%layer] table(%table : tensor<?xi32>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op has `from` without a table; slots need none}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) from %first : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<3x2x8xf32>, %v: tensor<3x2x8xf32>, %slots: tensor<4xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op slots has 4 entries, the tokens of keys; it must have 3}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<4xi64>) : tensor<3x2x8xf32>, tensor<3x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: memref<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op has tensors and memrefs as operands; it must have one kind}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : memref<?xi64>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf64>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{operand #0 must be 3D tensor of 32-bit float or 16-bit float or bfloat16 type values or 3D memref of 32-bit float or 16-bit float or bfloat16 type values, but got 'tensor<?x2x8xf64>'}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>) : tensor<?x2x8xf64>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: tensor<?x2x8xf32>, %v: tensor<?x2x8xf32>, %slots: tensor<?xi32>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{operand #4 must be 1D tensor of 64-bit signless integer values or 1D memref of 64-bit signless integer values, but got 'tensor<?xi32>'}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi32>) : tensor<?x2x8xf32>, tensor<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: memref<?x2x8xf32, strided<[32, 16, 2]>>, %v: memref<?x2x8xf32>, %slots: memref<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : memref<?xi64>) : memref<?x2x8xf32, strided<[32, 16, 2]>>, memref<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: memref<?x2x8xf32, strided<[-16, 8, 1]>>, %v: memref<?x2x8xf32>, %slots: memref<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys has stride -16; strides must be positive}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : memref<?xi64>) : memref<?x2x8xf32, strided<[-16, 8, 1]>>, memref<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: memref<?x2x8xf32, 1>, %v: memref<?x2x8xf32>, %slots: memref<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys is in memory space 1 : i64; it must be in the default one}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : memref<?xi64>) : memref<?x2x8xf32, 1>, memref<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %k: memref<?x2x8xf32, affine_map<(d0, d1, d2) -> (d0 mod 2, d1, d2)>>, %v: memref<?x2x8xf32>, %slots: memref<?xi64>, %table: tensor<?xi32>, %first: index, %layer: index) {
  // expected-error @below {{'kvc.append_kv' op keys has layout affine_map<(d0, d1, d2) -> (d0 mod 2, d1, d2)>; it must have strides}}
  kvc.append_kv %k, %v into %cache[%layer] slots(%slots : memref<?xi64>) : memref<?x2x8xf32, affine_map<(d0, d1, d2) -> (d0 mod 2, d1, d2)>>, memref<?x2x8xf32> into !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %k: tensor<?x2x8xf32>, %slots: tensor<?xi64>) {
  // expected-error @below {{'kvc.lookup_kv' op expected the number of tensor results (0) to be equal to the number of output tensors (2)}}
  kvc.lookup_kv %cache[%layer] slots(%slots : tensor<?xi64>) outs(%k, %k : tensor<?x2x8xf32>, tensor<?x2x8xf32>) : !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %k: tensor<?x2x8xf32>, %slots: tensor<?xi64>) {
  // expected-error @below {{'kvc.lookup_kv' op expected type of operand #3 ('tensor<?x2x8xf32>') to match type of corresponding result ('tensor<4x2x8xf32>')}}
  %r:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<?xi64>) outs(%k, %k : tensor<?x2x8xf32>, tensor<?x2x8xf32>) : !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<4x2x8xf32>, tensor<?x2x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %k: tensor<?x2x8xf32>, %slots: tensor<?xi64>) {
  // expected-error @below {{'kvc.lookup_kv' op has neither slots nor a table; it must have one of them}}
  %r:2 = kvc.lookup_kv %cache[%layer]  outs(%k, %k : tensor<?x2x8xf32>, tensor<?x2x8xf32>) : !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x2x8xf32>, tensor<?x2x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %k: tensor<?x1x8xf32>, %slots: tensor<?xi64>) {
  // expected-error @below {{'kvc.lookup_kv' op keys has 1 heads; it must have 2}}
  %r:2 = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<?xi64>) outs(%k, %k : tensor<?x1x8xf32>, tensor<?x1x8xf32>) : !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x1x8xf32>, tensor<?x1x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x3x8xf32>, %o: tensor<?x3x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op queries have 3 heads; it must be a static multiple of 2, the KV heads of the cache}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x3x8xf32>)
      : tensor<?x3x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x3x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x?x8xf32>, %o: tensor<?x?x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op queries have ? heads; it must be a static multiple of 2, the KV heads of the cache}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x?x8xf32>)
      : tensor<?x?x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x?x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x0x8xf32>, %o: tensor<?x0x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op queries have 0 heads; it must be a static multiple of 2, the KV heads of the cache}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x0x8xf32>)
      : tensor<?x0x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x0x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x?x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op out has ? heads; it must be static}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x?x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x?x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x16xf32>, %o: tensor<?x4x16xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op queries has 16 elements per head; it must have 8}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x16xf32>)
      : tensor<?x4x16xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf16>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op out has elements of 'f16' and queries of 'f32'; they must be equal}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf16>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<4x4x8xf32>, %o: tensor<5x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op out has 5 queries; it must have 4}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<5x4x8xf32>)
      : tensor<4x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<5x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x2x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op out has 2 heads; it must have 4}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x2x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x2x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x4xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op out has 4 elements per head; it must have 8}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x4xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x4xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<3x?xi32>, %lens: tensor<2xi64>, %offsets: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op tables has 3 rows, the requests of lens; it must have 2}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<3x?xi32>) lens(%lens : tensor<2xi64>) offsets(%offsets : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<2xi64>, %offsets: tensor<2xi64>) {
  // expected-error @below {{'kvc.paged_attention' op offsets has 2 entries, the requests of lens and one more; it must have 3}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<2xi64>) offsets(%offsets : tensor<2xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<5x4x8xf32>, %o: tensor<5x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<2xi64>) {
  // expected-error @below {{'kvc.paged_attention' op queries has 5 tokens without offsets, one a request; it must have 2}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<2xi64>) outs(%o : tensor<5x4x8xf32>)
      : tensor<5x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<5x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>, %m: tensor<?xi8>) {
  // expected-error @below {{'kvc.paged_attention' op has a mask without mask_offsets}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) mask(%m : tensor<?xi8>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>, %m: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op has mask_offsets without a mask}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) mask_offsets(%m : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<2xi64>, %m: tensor<?xi8>, %mo: tensor<3xi64>) {
  // expected-error @below {{'kvc.paged_attention' op mask_offsets has 3 entries, the requests of lens; it must have 2}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<2xi64>) mask(%m : tensor<?xi8>) mask_offsets(%mo : tensor<3xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>, %s: tensor<2xf32>) {
  // expected-error @below {{'kvc.paged_attention' op sink_logits has 2 entries, the heads of queries; it must have 4}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) sink_logits(%s : tensor<2xf32>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op window is -1; it must be 0 .. 2147483647}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>) {window = -1}
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op sinks is 2147483648; it must be 0 .. 2147483647}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>) {window = 4, sinks = 2147483648}
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op sinks is 4 without a window; set window, or sinks to 0}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>) {sinks = 4}
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op scale is nan; it must be 0 or -1.000000e+30 .. 1.000000e+30}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>) {scale = 0x7FC00000 : f32}
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op scale is INF; it must be 0 or -1.000000e+30 .. 1.000000e+30}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>) {scale = 0x7F800000 : f32}
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op soft_cap is -1.000000e+00; it must be 0 or 1.000000e-30 .. 1.000000e+30}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>) {soft_cap = -1.0 : f32}
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: memref<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op has tensors and memrefs as operands; it must have one kind}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: memref<?x4x8xf32>, %o: memref<?x4x8xf32>, %tables: memref<?x?xi32, strided<[64, 2]>>, %lens: memref<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op tables has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<?x?xi32, strided<[64, 2]>>) lens(%lens : memref<?xi64>) outs(%o : memref<?x4x8xf32>)
      : memref<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op expected the number of tensor results (0) to be equal to the number of output tensors (1)}}
  kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: memref<?x4x8xf32>, %tables: memref<?x?xi32>, %lens: memref<?xi64, strided<[2]>>) {
  // expected-error @below {{'kvc.paged_attention' op lens has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<?x?xi32>) lens(%lens : memref<?xi64, strided<[2]>>) outs(%q : memref<?x4x8xf32>)
      : memref<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: memref<?x4x8xf32>, %tables: memref<?x?xi32>, %lens: memref<?xi64>, %m: memref<?xi8, strided<[2]>>, %starts: memref<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op mask has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  kvc.paged_attention %q, %cache[%layer] tables(%tables : memref<?x?xi32>) lens(%lens : memref<?xi64>) mask(%m : memref<?xi8, strided<[2]>>) mask_offsets(%starts : memref<?xi64>) outs(%q : memref<?x4x8xf32>)
      : memref<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>, %m: tensor<?xi64>) {
  // expected-error @below {{'kvc.paged_attention' op has mask_starts without a mask}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) mask_starts(%m : tensor<?xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<2xi64>, %m: tensor<?xi8>, %mo: tensor<2xi64>, %ms: tensor<3xi64>) {
  // expected-error @below {{'kvc.paged_attention' op mask_starts has 3 entries, the requests of lens; it must have 2}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<2xi64>) mask(%m : tensor<?xi8>) mask_offsets(%mo : tensor<2xi64>) mask_starts(%ms : tensor<3xi64>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%cache: !kvc.paged_cache<f16, 2, 2, 8, 4, 16>, %layer: index, %q: tensor<?x4x8xf32>, %o: tensor<?x4x8xf32>, %tables: tensor<?x?xi32>, %lens: tensor<?xi64>, %s: tensor<2xf32>) {
  // expected-error @below {{'kvc.paged_attention' op alibi_slopes has 2 entries, the heads of queries; it must have 4}}
  %r = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) alibi_slopes(%s : tensor<2xf32>) outs(%o : tensor<?x4x8xf32>)
      : tensor<?x4x8xf32>, !kvc.paged_cache<f16, 2, 2, 8, 4, 16> -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'kvc.create_cache' op tiled_keys needs f32, f16 or bf16, a block of a multiple of 16 tokens, and keys of a multiple of 4 bytes; '!kvc.paged_cache<f16, 2, 2, 8, 8, 16>' has not}}
  %c = kvc.create_cache {tiled_keys} : !kvc.paged_cache<f16, 2, 2, 8, 8, 16>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'kvc.create_cache' op tiled_keys needs f32, f16 or bf16, a block of a multiple of 16 tokens, and keys of a multiple of 4 bytes; '!kvc.paged_cache<f8E5M2, 2, 2, 8, 16, 16>' has not}}
  %c = kvc.create_cache {tiled_keys} : !kvc.paged_cache<f8E5M2, 2, 2, 8, 16, 16>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'kvc.create_manager' op blocks is 0; it must be 1 .. 2147483582}}
  %m = kvc.create_manager blocks = 0, block_size = 16
  return
}

// -----

func.func @f() {
  // expected-error @below {{'kvc.create_manager' op block_size is 1025; it must be 1 .. 1024}}
  %m = kvc.create_manager blocks = 8, block_size = 1025
  return
}

// -----

func.func @f(%m: !kvc.manager, %r: !kvc.request, %t: memref<?xi32, strided<[2]>>) {
  // expected-error @below {{'kvc.allocate' op tokens has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  %a, %b, %c = kvc.allocate %m, %t : memref<?xi32, strided<[2]>>
  return
}

// -----

func.func @f(%m: !kvc.manager, %r: !kvc.request, %t: memref<?xi32, strided<[2]>>) {
  // expected-error @below {{'kvc.append' op tokens has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  %a = kvc.append %m, %r, %t : memref<?xi32, strided<[2]>>
  return
}

// -----

func.func @f(%m: !kvc.manager, %r: !kvc.request, %t: memref<?xi32, strided<[2]>>) {
  // expected-error @below {{'kvc.lookup' op tokens has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  %a, %b = kvc.lookup %m, %t : memref<?xi32, strided<[2]>>
  return
}

// -----

func.func @f(%m: !kvc.manager, %r: !kvc.request, %t: memref<?xi32, strided<[2]>>) {
  // expected-error @below {{'kvc.block_table' op table has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  %a = kvc.block_table %m, %r into %t : memref<?xi32, strided<[2]>>
  return
}

// -----

func.func @f(%m: !kvc.manager, %r: !kvc.request, %i: index, %t: memref<?xi64, strided<[2]>>) {
  // expected-error @below {{'kvc.slots' op slots has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  %a = kvc.slots %m, %r from %i into %t : memref<?xi64, strided<[2]>>
  return
}

// -----

func.func @f(%m: !kvc.manager, %i: memref<?xi64, strided<[2]>>, %c: memref<?xi64>, %o: memref<?xi64>, %t: memref<?xi32>, %b: memref<?x?xi32>, %s: memref<?xi64>, %a: memref<?xi32>) {
  // expected-error @below {{'kvc.step' op requests has stride 2 in its last dimension; it must be 1: copy it to a contiguous memref}}
  %x = kvc.step %m commit(%i, %c) extend(%o, %t) into(%b, %s, %a)
      : memref<?xi64, strided<[2]>>, memref<?xi64>, memref<?xi64>, memref<?xi32>, memref<?x?xi32>, memref<?xi64>, memref<?xi32>
  return
}

// -----

func.func @f(%m: !kvc.manager, %i: memref<2xi64>, %c: memref<3xi64>, %o: memref<?xi64>, %t: memref<?xi32>, %b: memref<?x?xi32>, %s: memref<?xi64>, %a: memref<?xi32>) {
  // expected-error @below {{'kvc.step' op committed has 3 entries; it must have 2}}
  %x = kvc.step %m commit(%i, %c) extend(%o, %t) into(%b, %s, %a)
      : memref<2xi64>, memref<3xi64>, memref<?xi64>, memref<?xi32>, memref<?x?xi32>, memref<?xi64>, memref<?xi32>
  return
}

// -----

func.func @f(%m: !kvc.manager, %i: memref<2xi64>, %c: memref<?xi64>, %o: memref<2xi64>, %t: memref<?xi32>, %b: memref<?x?xi32>, %s: memref<?xi64>, %a: memref<?xi32>) {
  // expected-error @below {{'kvc.step' op offsets has 2 entries; it must have 3}}
  %x = kvc.step %m commit(%i, %c) extend(%o, %t) into(%b, %s, %a)
      : memref<2xi64>, memref<?xi64>, memref<2xi64>, memref<?xi32>, memref<?x?xi32>, memref<?xi64>, memref<?xi32>
  return
}

// -----

func.func @f(%m: !kvc.manager, %i: memref<2xi64>, %c: memref<?xi64>, %o: memref<?xi64>, %t: memref<?xi32>, %b: memref<1x?xi32>, %s: memref<?xi64>, %a: memref<?xi32>) {
  // expected-error @below {{'kvc.step' op tables has 1 entries; it must have 2}}
  %x = kvc.step %m commit(%i, %c) extend(%o, %t) into(%b, %s, %a)
      : memref<2xi64>, memref<?xi64>, memref<?xi64>, memref<?xi32>, memref<1x?xi32>, memref<?xi64>, memref<?xi32>
  return
}

// -----

func.func @f(%m: !kvc.manager, %i: memref<?xi64>, %c: memref<?xi64>, %o: memref<?xi64>, %t: memref<2xi32>, %b: memref<?x?xi32>, %s: memref<1xi64>, %a: memref<?xi32>) {
  // expected-error @below {{'kvc.step' op slots has 1 entries; it must have 2}}
  %x = kvc.step %m commit(%i, %c) extend(%o, %t) into(%b, %s, %a)
      : memref<?xi64>, memref<?xi64>, memref<?xi64>, memref<2xi32>, memref<?x?xi32>, memref<1xi64>, memref<?xi32>
  return
}

// -----

func.func @f(%m: !kvc.manager, %i: memref<2xi64>, %c: memref<?xi64>, %o: memref<?xi64>, %t: memref<?xi32>, %b: memref<?x?xi32>, %s: memref<?xi64>, %a: memref<1xi32>) {
  // expected-error @below {{'kvc.step' op statuses has 1 entries; it must have 2}}
  %x = kvc.step %m commit(%i, %c) extend(%o, %t) into(%b, %s, %a)
      : memref<2xi64>, memref<?xi64>, memref<?xi64>, memref<?xi32>, memref<?x?xi32>, memref<?xi64>, memref<1xi32>
  return
}

// -----

func.func @f(%m: memref<2x16x2x2x4x8xf32>) {
  // expected-error @below {{'kvc.adopt_memref' op memory is 'memref<2x16x2x2x4x8xf32>'; for this cache it must be 'memref<2x16x2x2x4x8xf16>'}}
  %c = kvc.adopt_memref %m : memref<2x16x2x2x4x8xf32> to !kvc.paged_cache<f16, 2, 2, 8, 4, 16>
  return
}

// -----

func.func @f(%c: !kvc.paged_cache<f16, 1, 1, 1, 4, 16>) {
  // expected-error @below {{'kvc.export_memref' op keys of a block and layer have 8 bytes; it must be a multiple of 16, so that there are no gaps}}
  %m = kvc.export_memref %c : !kvc.paged_cache<f16, 1, 1, 1, 4, 16> to memref<1x16x2x1x4x1xf16>
  return
}

// -----

// expected-error @below {{expected ','}}
func.func private @type(!kvc.paged_cache<f16, 2, 2>)

// -----

// expected-error @below {{unknown  type `no_such_type` in dialect `kvc`}}
func.func private @type(!kvc.no_such_type)

// -----

func.func @f() {
  // expected-error @below {{custom op 'kvc.no_such_op' is unknown}}
  kvc.no_such_op
  return
}
