// SPDX-License-Identifier: Apache-2.0
// RUN: %python %S/random_modules.py | FileCheck %s
// CHECK: modules, seed {{.*}} accepted, {{.*}} refused, {{.*}} scrambled, no crash
