// SPDX-License-Identifier: Apache-2.0
// Every diagnostic has a test.
// RUN: %python %S/check_messages.py | FileCheck %s
// CHECK: {{[1-9][0-9]*}} diagnostics, 0 without a test
