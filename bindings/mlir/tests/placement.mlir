// SPDX-License-Identifier: Apache-2.0
// Where the lowerings cannot work they say so.
// RUN: kvc-opt %s --kvc-to-calls -split-input-file -verify-diagnostics
// RUN: kvc-opt %s --kvc-to-reference -split-input-file -verify-diagnostics

// expected-error @below {{'kvc.create_manager' op must be in a func.func of the module that is lowered}}
%manager = kvc.create_manager blocks = 4, block_size = 4

// -----

module {
  module @inner {
    func.func @f() {
      // expected-error @below {{'kvc.create_cache' op must be in a func.func of the module that is lowered}}
      %cache = kvc.create_cache : !kvc.paged_cache<f16, 1, 1, 8, 4, 4>
      return
    }
  }
}

// -----

llvm.func @f() {
  // expected-error @below {{'kvc.create_cache' op must be in a func.func of the module that is lowered}}
  %cache = kvc.create_cache : !kvc.paged_cache<f16, 1, 1, 8, 4, 4>
  llvm.return
}
