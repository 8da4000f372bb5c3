// SPDX-License-Identifier: Apache-2.0
#include "admitted.h"

#include <structmember.h>

enum { kNullBlock = 0 };

PyTypeObject* kvc_admitted_type;

static int succeeded(kvc_status status) {
  if (status != KVC_OK) kvc_raise(status);
  return status == KVC_OK;
}

// Reads entries [from, to) of all tables from the library.
static int read_tables(Admitted* self, Py_ssize_t from, Py_ssize_t to) {
  if (to > self->room) {
    const Py_ssize_t room = to + to / 2 + 8;
    int32_t* const tables = PyMem_Malloc((size_t)(room * self->num_groups) * sizeof *tables);
    if (!tables) return PyErr_NoMemory() != NULL;
    for (Py_ssize_t g = 0; g < self->num_groups && self->num_blocks; ++g)
      memcpy(tables + g * room, self->tables + g * self->room, (size_t)self->num_blocks * sizeof *tables);
    PyMem_Free(self->tables);
    self->tables = tables, self->room = room;
  }
  for (Py_ssize_t row = 0; row < self->num_groups; ++row) {
    if (self->is_fixed[row]) continue;
    int32_t* const table = self->tables + row * self->room;
    const uint64_t id = self->id;
    const uint32_t g = self->of_row[row];
    if (to - from == 1) {  // growth by one block: reads one entry
      int64_t slot;
      if (!succeeded(kvc_manager_export_slots(self->m, id, g, (uint64_t)(from * self->block_size), 1, &slot,
                                              sizeof slot)))
        return 0;
      table[from] = slot < 0 ? kNullBlock : (int32_t)(slot / self->block_size);
    } else if (to != from) {
      if (!succeeded(kvc_manager_export_tables(self->m, &id, 1, g, kNullBlock, table, (size_t)to))) return 0;
    }
  }
  self->num_blocks = to;
  return 1;
}

// Which group of the library each table shows, from `order`, the groups in the order of the tables (none:
// their own); the last num_cross groups of the library are cross groups.
static int read_order(Admitted* self, const char* order, Py_ssize_t size, Py_ssize_t num_cross) {
  const Py_ssize_t count = self->num_groups;
  unsigned seen = 0;
  if (num_cross < 0 || num_cross > count || (order && size != count)) {
    PyErr_Format(PyExc_ValueError, "order has %zd groups, num_cross is %zd; the manager has %zd groups", size,
                 num_cross, count);
    return 0;
  }
  for (Py_ssize_t row = 0; row < count; ++row) {
    const unsigned char group = order ? (unsigned char)order[row] : (unsigned char)row;
    if (group >= count || seen >> group & 1) {
      PyErr_Format(PyExc_ValueError, "order[%zd] is %d; it must name each of the %zd groups once", row, group,
                   count);
      return 0;
    }
    seen |= 1u << group;
    self->of_row[row] = group;
    self->is_fixed[row] = group >= count - num_cross;
  }
  return 1;
}

static int read_fixed(Admitted* self, Py_ssize_t num_fixed) {
  self->num_fixed = num_fixed;
  self->fixed = PyMem_Malloc((size_t)(num_fixed * self->num_groups + 1) * sizeof *self->fixed);
  if (!self->fixed) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t row = 0; row < self->num_groups && num_fixed; ++row) {
    const uint64_t id = self->id;
    if (self->is_fixed[row] &&
        !succeeded(kvc_manager_export_tables(self->m, &id, 1, self->of_row[row], kNullBlock,
                                             self->fixed + row * num_fixed, (size_t)num_fixed)))
      return 0;
  }
  return 1;
}

static PyObject* admitted_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* owner;
  unsigned long long id;
  Py_ssize_t known, committed, block_size, num_groups, size = 0, num_cross = 0, ahead = 0;
  const char* order = NULL;
  static char* names[] = {"manager",    "id",    "known",     "committed", "block_size",
                          "num_groups", "order", "num_cross", "ahead",     NULL};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OKnnnn|y#nn", names, &owner, &id, &known, &committed,
                                   &block_size, &num_groups, &order, &size, &num_cross, &ahead))
    return NULL;
  if (ahead < 0 || ahead > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "ahead is %zd; it must be 0 .. %d", ahead, INT32_MAX);
    return NULL;
  }
  kvc_manager* const m = kvc_manager_of(owner);
  if (!m) return NULL;
  kvc_request_info info = {.struct_size = sizeof info};
  kvc_properties all = {.struct_size = sizeof all};
  if (!succeeded(kvc_manager_request_info(m, id, &info)) || !succeeded(kvc_manager_properties(m, &all)))
    return NULL;
  if (block_size != (Py_ssize_t)all.block_size || num_groups != (Py_ssize_t)all.num_groups) {
    PyErr_Format(PyExc_ValueError, "block_size %zd, num_groups %zd; the manager has %u and %u", block_size,
                 num_groups, (unsigned)all.block_size, (unsigned)all.num_groups);
    return NULL;
  }
  Admitted* const self = (Admitted*)type->tp_alloc(type, 0);
  if (!self) return NULL;
  Py_INCREF(owner);
  self->owner = owner, self->m = m, self->id = id, self->known = known;
  self->committed = self->computed = committed;
  self->block_size = block_size, self->num_groups = num_groups, self->ahead = ahead;
  const Py_ssize_t blocks = ((Py_ssize_t)info.capacity + block_size - 1) / block_size;
  const Py_ssize_t fixed = ((Py_ssize_t)info.cross_tokens + block_size - 1) / block_size;
  if (!read_order(self, order, size, num_cross) || !read_fixed(self, num_cross ? fixed : 0) ||
      !read_tables(self, 0, blocks)) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject*)self;
}

static void admitted_dealloc(Admitted* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyMem_Free(self->tables);
  PyMem_Free(self->fixed);
  Py_XDECREF(self->owner);
  type->tp_free(self);
  Py_DECREF(type);
}

// Entries [from, to) of the tables that grow, as far as they have them, and those of the others if
// with_fixed. 0 <= from.
static PyObject* ids_of(const Admitted* self, Py_ssize_t from, Py_ssize_t to, int with_fixed) {
  if (from > self->num_blocks) from = self->num_blocks;
  if (to > self->num_blocks) to = self->num_blocks;
  if (to < from) to = from;
  PyObject* const groups = PyList_New(self->num_groups);
  for (Py_ssize_t g = 0; groups && g < self->num_groups; ++g) {
    const int is_fixed = self->is_fixed[g];
    const Py_ssize_t count = !is_fixed ? to - from : with_fixed ? self->num_fixed : 0;
    PyObject* const ids = PyList_New(count);  // may run finalizers, which may grow the tables
    const int32_t* const table =
        is_fixed ? self->fixed + g * self->num_fixed : self->tables + g * self->room + from;
    for (Py_ssize_t i = 0; ids && i < count; ++i) {
      PyObject* const id = PyLong_FromLong(table[i]);
      if (!id) {
        Py_DECREF(ids);
        Py_DECREF(groups);
        return NULL;
      }
      PyList_SET_ITEM(ids, i, id);
    }
    if (!ids) {
      Py_DECREF(groups);
      return NULL;
    }
    PyList_SET_ITEM(groups, g, ids);
  }
  return groups;
}

static PyObject* admitted_ids(Admitted* self, PyObject* args) {
  Py_ssize_t from = 0, to = PY_SSIZE_T_MAX;
  if (!PyArg_ParseTuple(args, "|nn", &from, &to)) return NULL;
  return ids_of(self, from < 0 ? 0 : from, to, 1);
}

static PyObject* admitted_refresh(Admitted* self, PyObject* unused) {
  (void)unused;
  if (!read_tables(self, 0, self->num_blocks)) return NULL;
  Py_RETURN_NONE;
}

PyObject* kvc_grow(Admitted* self, Py_ssize_t needed) {
  const Py_ssize_t before = self->num_blocks, full = needed / self->block_size;
  const Py_ssize_t after = full + (needed > full * self->block_size);
  if (after > before) {
    const kvc_status status =
        kvc_manager_reserve_tokens(self->m, self->id, (uint64_t)after * (uint64_t)self->block_size);
    if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN || status == KVC_ERROR_OVER_QUOTA ||
        status == KVC_ERROR_NEVER_FITS)
      Py_RETURN_NONE;
    if (!succeeded(status) || !read_tables(self, before, after)) return NULL;
  }
  return ids_of(self, before, after, 0);
}

// Appends tokens [known, num_tokens) of the library, which begin at `ahead` in `tokens`, a list or another
// sequence, of which only these are read.
static int append(Admitted* self, PyObject* tokens, Py_ssize_t num_tokens) {
  const Py_ssize_t size = PySequence_Size(tokens), added = num_tokens - self->known;
  if (size < 0) return 0;
  if (size - self->ahead < num_tokens) {
    PyErr_Format(PyExc_ValueError, "%zd tokens are to be committed, the request has %zd", num_tokens,
                 size - self->ahead);
    return 0;
  }
  const Py_ssize_t begin = self->known + self->ahead;
  const int whole = PyList_CheckExact(tokens) || PyTuple_CheckExact(tokens);
  PyObject* const part = whole ? NULL : PySequence_GetSlice(tokens, begin, begin + added);
  if (!whole && !part) return 0;
  PyObject* const items = PySequence_Fast(whole ? tokens : part, "token ids must be a sequence of int");
  Py_XDECREF(part);
  if (!items) return 0;
  const Py_ssize_t first = whole ? begin : 0;
  int32_t few[64];
  int32_t* ids = few;
  int done = 0;
  if (PySequence_Fast_GET_SIZE(items) < first + added) {
    PyErr_Format(PyExc_ValueError, "tokens: a slice of %zd items has %zd", added,
                 PySequence_Fast_GET_SIZE(items));
  } else if (added > 64 && !(ids = PyMem_Malloc((size_t)added * sizeof *ids))) {
    PyErr_NoMemory();
  } else {
    done = kvc_read_int32(items, first, added, "tokens", ids) &&
           succeeded(kvc_manager_append_tokens(self->m, self->id, ids, (size_t)added));
  }
  if (ids != few) PyMem_Free(ids);
  Py_DECREF(items);
  if (done) self->known = num_tokens;
  return done;
}

static int commit_to(Admitted* self, Py_ssize_t num_tokens, Py_ssize_t computed) {
  if (num_tokens < self->committed) num_tokens = self->committed;
  if (computed > num_tokens) computed = num_tokens;
  if (computed < self->computed) computed = self->computed;
  if (num_tokens == self->committed && computed == self->computed) return 1;
  if (!succeeded(num_tokens == computed
                     ? kvc_manager_commit_tokens(self->m, self->id, (uint64_t)num_tokens)
                     : kvc_manager_commit_ahead(self->m, self->id, (uint64_t)num_tokens, (uint64_t)computed)))
    return 0;
  self->committed = num_tokens, self->computed = computed;
  return 1;
}

int kvc_commit(Admitted* self, PyObject* tokens, Py_ssize_t num_tokens, Py_ssize_t computed) {
  if (num_tokens > self->known && !append(self, tokens, num_tokens)) return 0;
  while (self->num_stops && self->stops[0] <= num_tokens) {
    if (!commit_to(self, self->stops[0], computed)) return 0;
    --self->num_stops;
    memmove(self->stops, self->stops + 1, (size_t)self->num_stops * sizeof *self->stops);
  }
  return commit_to(self, num_tokens, computed);
}

static PyObject* admitted_grow(Admitted* self, PyObject* needed) {
  const Py_ssize_t count = PyLong_AsSsize_t(needed);
  return count == -1 && PyErr_Occurred() ? NULL : kvc_grow(self, count);
}

static PyObject* admitted_commit(Admitted* self, PyObject* args) {
  PyObject* tokens;
  Py_ssize_t num_tokens, computed = PY_SSIZE_T_MAX;
  if (!PyArg_ParseTuple(args, "On|n", &tokens, &num_tokens, &computed) ||
      !kvc_commit(self, tokens, num_tokens, computed))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject* admitted_stop_at(Admitted* self, PyObject* tokens) {
  const Py_ssize_t count = PyLong_AsSsize_t(tokens);
  if (count == -1 && PyErr_Occurred()) return NULL;
  const Py_ssize_t last = self->num_stops ? self->stops[self->num_stops - 1] : self->committed;
  if (count <= last || self->num_stops == (Py_ssize_t)(sizeof self->stops / sizeof *self->stops))
    Py_RETURN_FALSE;
  self->stops[self->num_stops++] = count;
  Py_RETURN_TRUE;
}

static PyMemberDef admitted_members[] = {
    {"id", T_ULONGLONG, offsetof(Admitted, id), READONLY, "id of the request in the library"},
    {"known", T_PYSSIZET, offsetof(Admitted, known), READONLY, "known tokens of the library"},
    {"committed", T_PYSSIZET, offsetof(Admitted, committed), READONLY, "committed tokens"},
    {"computed", T_PYSSIZET, offsetof(Admitted, computed), READONLY,
     "of the committed tokens those that no step in flight computes"},
    {"num_blocks", T_PYSSIZET, offsetof(Admitted, num_blocks), READONLY, "entries of each table"},
    {"quiet", T_PYSSIZET, offsetof(Admitted, quiet), 0,
     "up to this many tokens, no block is taken and none becomes full"},
    {"watched", T_INT, offsetof(Admitted, watched), 0, "1: _commit_watched() of the Python class commits"},
    {"ahead", T_PYSSIZET, offsetof(Admitted, ahead), READONLY,
     "token i of the library is token i + ahead of the request"},
    {"unreturned", T_PYSSIZET, offsetof(Admitted, unreturned), 0,
     "popped blocks that the engine has not yet freed"},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef admitted_methods[] = {
    {"ids", (PyCFunction)admitted_ids, METH_VARARGS,
     "ids(first=0, last=all): returns a list of block ids per group; of a cross group all."},
    {"refresh", (PyCFunction)admitted_refresh, METH_NOARGS,
     "refresh(): reads the tables again, after a window freed blocks."},
    {"grow", (PyCFunction)admitted_grow, METH_O,
     "grow(tokens): takes slots; returns the new block ids per group, or None if there is no space."},
    {"commit", (PyCFunction)admitted_commit, METH_VARARGS,
     "commit(tokens, count, computed=count): commits the first `count` of all tokens, of which steps in "
     "flight compute those from `computed` on."},
    {"stop_at", (PyCFunction)admitted_stop_at, METH_O,
     "stop_at(tokens): a commit past so many tokens commits them first. Returns False if there are too many "
     "such "
     "counts, or it is not behind the others."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot admitted_slots[] = {{Py_tp_doc, "An admitted request, with a copy of its block tables."},
                                       {Py_tp_new, admitted_new},
                                       {Py_tp_dealloc, admitted_dealloc},
                                       {Py_tp_members, admitted_members},
                                       {Py_tp_methods, admitted_methods},
                                       {0, NULL}};
static PyType_Spec admitted_spec = {"kvcache._native.Admitted", sizeof(Admitted), 0, Py_TPFLAGS_DEFAULT,
                                    admitted_slots};

int kvc_add_admitted(PyObject* module) {
  kvc_admitted_type = (PyTypeObject*)PyType_FromSpec(&admitted_spec);
  if (!kvc_admitted_type) return 0;
  Py_INCREF(kvc_admitted_type);  // one for the module
  return PyModule_AddObject(module, "Admitted", (PyObject*)kvc_admitted_type) == 0;
}
