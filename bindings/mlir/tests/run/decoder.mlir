// SPDX-License-Identifier: Apache-2.0
// The example: the library and the reference give the same, and the comparison notices a difference.
// RUN: kvc-run %examples/decoder.mlir | FileCheck %s
// RUN: not kvc-run %examples/decoder.mlir --bound=0 | FileCheck %s --check-prefix=STRICT
// RUN: not kvc-run %examples/decoder.mlir --entry=nobody 2>&1 | FileCheck %s --check-prefix=ENTRY
// RUN: not kvc-run %examples/decoder.mlir --entry=prompt 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not kvc-run %examples/decoder.mlir --lowering=other 2>&1 | FileCheck %s --check-prefix=LOWERING

// CHECK: calls: ran on libkvcache
// CHECK: reference: ran on memrefs
// CHECK: 644 results, largest difference {{.*}}, bound 2e-05: equal
// STRICT: bound 0: DIFFERENT
// ENTRY: does not define func.func @nobody
// TYPE: has results 'memref<?xi32>'; kvc-run takes none, or an i32
// LOWERING: --lowering is other; use calls, reference or both
