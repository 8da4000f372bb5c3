// SPDX-License-Identifier: Apache-2.0
// A request that holds blocks, as a scheduler in Python sees it, with a copy of its block tables. Used by one
// thread at a time, under the interpreter lock.
#pragma once
#include "native.h"

typedef struct Admitted {
  PyObject_HEAD PyObject* owner;  // keeps the manager
  kvc_manager* m;
  unsigned long long id;
  Py_ssize_t known;       // tokens that the library was told
  Py_ssize_t committed;   // of those, how many were committed
  Py_ssize_t quiet;       // up to so many tokens no block is taken and none becomes full
  Py_ssize_t num_blocks;  // of each table
  Py_ssize_t unreturned;  // blocks that the engine has popped and not yet given back
  Py_ssize_t block_size, num_groups, room;
  int32_t* tables;  // [num_groups][room]
} Admitted;

extern PyTypeObject* kvc_admitted_type;

// Slots for `needed` tokens, up to the end of the last one's block: the new ids per group, or None without
// space.
PyObject* kvc_grow(Admitted* self, Py_ssize_t needed);
// Commits up to num_tokens; those that the library does not know yet are read from `tokens`, the list of all.
int kvc_commit(Admitted* self, PyObject* tokens, Py_ssize_t num_tokens);
