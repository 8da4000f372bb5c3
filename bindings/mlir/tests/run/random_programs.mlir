// SPDX-License-Identifier: Apache-2.0
// RUN: %python %S/random_programs.py | FileCheck %s
// CHECK: programs, seed {{.*}}: equal
