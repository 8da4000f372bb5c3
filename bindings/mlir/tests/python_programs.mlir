// SPDX-License-Identifier: Apache-2.0
// Programs from Python: every op, a decoder's cache that runs, and what goes wrong.
// RUN: %python %S/python_programs.py %root/bindings/mlir | FileCheck %s
// CHECK: 20 ops: accepted
// CHECK: wrong layer: refused
// CHECK: passes: kvc_storage_store kvc_storage_attend
// CHECK: decoder: equal
// CHECK: missing tool: said
