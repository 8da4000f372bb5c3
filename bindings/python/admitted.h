// SPDX-License-Identifier: Apache-2.0
// An admitted request for a scheduler in Python, with a copy of its block tables. One thread at a time uses
// it, under the interpreter lock.
#pragma once
#include "native.h"

typedef struct Admitted {
  PyObject_HEAD PyObject* owner;  // the manager, kept alive
  kvc_manager* m;
  unsigned long long id;
  Py_ssize_t known;       // known tokens of the library
  Py_ssize_t committed;   // committed tokens
  Py_ssize_t computed;    // of them, those that no step in flight computes: what they left is returned
  Py_ssize_t quiet;       // up to this many tokens, no block is taken and none becomes full
  Py_ssize_t num_blocks;  // of each table
  int watched;            // the Python class does its commits: their events are told apart from others
  int stateless;          // the engine goes on without the state that it needs: publishes nothing more
  Py_ssize_t unreturned;  // popped blocks that the engine has not yet freed
  Py_ssize_t ahead;       // token i of the library is token i + ahead of the request
  Py_ssize_t block_size, num_groups, room, num_stops;
  Py_ssize_t stops[8];       // ascending: a commit past one commits so many tokens first
  int32_t* tables;           // [num_groups][room]
  int32_t* fixed;            // [num_groups][num_fixed]: the tables of cross groups, which do not grow
  Py_ssize_t num_fixed;      // entries of each
  unsigned char of_row[32];  // the library's group of each table
  unsigned char is_fixed[32];
} Admitted;

extern PyTypeObject* kvc_admitted_type;

// Takes slots for `needed` tokens, up to the end of the last block. Returns the new block ids per group, or
// None if there is no space.
PyObject* kvc_grow(Admitted* self, Py_ssize_t needed);
// Commits num_tokens tokens, of which steps in flight compute those from `computed` on. `tokens` is the
// sequence of all tokens, of which only those are read that the library does not know yet.
int kvc_commit(Admitted* self, PyObject* tokens, Py_ssize_t num_tokens, Py_ssize_t computed);
