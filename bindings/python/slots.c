// SPDX-License-Identifier: Apache-2.0
// allocate_slots() and cache_blocks() in C, which a scheduler in Python calls for every request in every
// step: a call with nothing to do costs a dictionary lookup and two attributes, and no call reads more of a
// request's tokens than are new. For kvcache/integrations/vllm.py.
//
// SlotAllocator handles admitted requests, and passes all others to the Python class that is derived from it.
// One thread at a time uses it, under the interpreter lock.
#include "admitted.h"

// The counts of computed tokens at which blocks leave a group's table: `first` + n * `period`, n >= 1.
typedef struct Edges {
  Py_ssize_t first, period;
} Edges;

typedef struct SlotAllocator {
  PyObject_HEAD PyObject *live, *empty,
      *blocks_type;  // {request_id: Admitted}, KVCacheBlocks of nothing, KVCacheBlocks
  Py_ssize_t max_model_len;
  Edges* edges;              // of the groups whose tables lose blocks
  Py_ssize_t num_edges;      // 0: all groups have full attention
  int caching;               // cache_blocks() publishes
  int simple;                // new blocks need no further bookkeeping in Python
  unsigned char states[32];  // the tables of states
  Py_ssize_t num_states;
  PyObject* fresh;  // set of blocks whose states this step writes
} SlotAllocator;

static PyObject *s_request_id, *s_num_computed_tokens, *s_num_in_flight_tokens, *s_num_lookahead_tokens,
    *s_all_token_ids, *s_general;

static int as_size(PyObject* number, Py_ssize_t* value) {
  if (!number) return 0;
  *value = PyLong_AsSsize_t(number);
  return *value != -1 || !PyErr_Occurred();
}

static int read_size(PyObject* object, PyObject* name, Py_ssize_t* value) {
  PyObject* const number = PyObject_GetAttr(object, name);
  const int read = as_size(number, value);
  Py_XDECREF(number);
  return read;
}

// The last count of computed tokens up to `count` at which blocks leave a table; 0 = none.
static Py_ssize_t last_return(const SlotAllocator* self, Py_ssize_t count) {
  Py_ssize_t last = 0;
  for (Py_ssize_t i = 0; i < self->num_edges && count > 0; ++i) {
    const Py_ssize_t period = self->edges[i].period, past = count - self->edges[i].first;
    if (past >= period && count - past % period > last) last = count - past % period;
  }
  return last;
}

// Up to this many tokens, no step of the request makes a block full or returns one: blocks are published with
// the step that fills them, and returned by tokens before it.
static Py_ssize_t quiet_tokens(const SlotAllocator* self, const Admitted* live) {
  Py_ssize_t quiet = live->committed - live->committed % live->block_size + live->block_size - 1;
  for (Py_ssize_t i = 0; i < self->num_edges; ++i) {
    const Py_ssize_t period = self->edges[i].period, past = live->computed - self->edges[i].first;
    const Py_ssize_t missing = period - (past < 0 ? past : past % period);
    if (missing < quiet - live->computed) quiet = live->computed + missing;
  }
  return quiet;
}

// Blocks whose states become known by a commit from `begin` to `end` tokens: this step writes some of them.
static int note_states(SlotAllocator* self, const Admitted* live, Py_ssize_t begin, Py_ssize_t end) {
  for (Py_ssize_t i = 0; i < self->num_states && self->states[i] < live->num_groups; ++i) {
    for (Py_ssize_t j = begin / live->block_size; j < end / live->block_size && j < live->num_blocks; ++j) {
      const int32_t block = live->tables[self->states[i] * live->room + j];
      PyObject* const id = block > 0 ? PyLong_FromLong(block) : NULL;
      const int added = block <= 0 || (id && PySet_Add(self->fresh, id) == 0);
      Py_XDECREF(id);
      if (!added) return 0;
    }
  }
  return 1;
}

// Whether each table of states has a block for the state after so many tokens.
static int has_states(const SlotAllocator* self, const Admitted* live, Py_ssize_t tokens) {
  const Py_ssize_t last = (tokens - 1) / live->block_size;
  for (Py_ssize_t i = 0; i < self->num_states && self->states[i] < live->num_groups; ++i) {
    if (last >= live->num_blocks || live->tables[self->states[i] * live->room + last] <= 0) return 0;
  }
  return 1;
}

// Publishes the full blocks of the first `count` tokens, as far as their ids are known, and returns the
// blocks that tables have lost by the first `computed` ones, which no step in flight computes. Does nothing
// where that has no effect. A session may be longer than what has slots. In the table of a state, a step
// leaves its block where it ends, so it is committed up to there. A load that fails in part leaves no state
// where it ended: what the engine computes from there is not published.
static int commit(SlotAllocator* self, Admitted* live, PyObject* request, Py_ssize_t count,
                  Py_ssize_t computed) {
  const Py_ssize_t before = live->committed;
  if (count > self->max_model_len) count = self->max_model_len;
  if (computed > self->max_model_len) computed = self->max_model_len;
  if (count - count % live->block_size <= before && last_return(self, computed) <= live->computed) return 1;
  PyObject* const tokens = PyObject_GetAttr(request, s_all_token_ids);
  const Py_ssize_t size = tokens ? PySequence_Size(tokens) : -1, known = size - live->ahead;
  if (count > known) count = known;
  const Py_ssize_t returned = last_return(self, computed < known ? computed : known);
  Py_ssize_t end = count - count % live->block_size;
  if (end > before && self->num_states) end = count;
  if (end < before) end = before;
  if (end < returned) end = returned;
  int done = size >= 0;
  if (done && end > before && !has_states(self, live, end)) live->stateless = 1;
  if (done && !live->stateless && (end > before || returned > live->computed)) {
    const Py_ssize_t over = self->num_edges ? returned : end;
    if (live->watched) {
      PyObject* const none =
          PyObject_CallMethod((PyObject*)self, "_commit_watched", "OOOnn", live, request, tokens, end, over);
      done = none != NULL;
      Py_XDECREF(none);
    } else {
      done = kvc_commit(live, tokens, end, over);
    }
    done = done && note_states(self, live, before, live->committed);
  }
  Py_XDECREF(tokens);
  return done;
}

// Takes slots for `needed` tokens of a running request, of which `end` are computed after this step, and
// publishes the blocks that are then full. If tables lose blocks, first returns those that no step in flight
// reads.
static PyObject* extend(SlotAllocator* self, Admitted* live, PyObject* request, Py_ssize_t computed,
                        Py_ssize_t end, Py_ssize_t needed) {
  Py_ssize_t over = 0;
  if (self->num_edges) {
    Py_ssize_t in_flight;
    if (!read_size(request, s_num_in_flight_tokens, &in_flight)) return NULL;
    if (__builtin_sub_overflow(computed, in_flight, &over)) over = 0;
    if (!commit(self, live, request, 0, over)) return NULL;
  }
  if (needed > self->max_model_len) needed = self->max_model_len;
  PyObject* result = self->empty;
  if (needed <= live->num_blocks * live->block_size) {
    Py_INCREF(result);
  } else {
    PyObject* const ids = kvc_grow(live, needed);
    if (!ids || ids == Py_None) return ids;
    result = PyObject_CallFunctionObjArgs(self->blocks_type, ids, NULL);
    Py_DECREF(ids);
    if (!result) return NULL;
  }
  if (!commit(self, live, request, end, over)) {
    Py_DECREF(result);
    return NULL;
  }
  live->quiet = quiet_tokens(self, live);
  if (live->quiet > live->num_blocks * live->block_size) live->quiet = live->num_blocks * live->block_size;
  return result;
}

// As try_running(), for a running request.
static int try_admitted(SlotAllocator* self, Admitted* live, PyObject* const* args, Py_ssize_t lookahead,
                        PyObject** answer) {
  Py_ssize_t computed, added, end, needed;
  if (!read_size(args[0], s_num_computed_tokens, &computed) || !as_size(args[1], &added)) return 1;
  if (added <= 0 || lookahead < 0) return 0;
  if (__builtin_add_overflow(computed, added, &end) || __builtin_add_overflow(end, lookahead, &needed))
    return 0;
  if (needed <= live->quiet) {
    Py_INCREF(self->empty);
    *answer = self->empty;
    return 1;
  }
  // A step that may write two states is unusual.
  if (!self->simple || (self->num_edges && added > live->block_size)) return 0;
  *answer = extend(self, live, args[0], computed, end, needed);
  return 1;
}

// The admitted request behind one of vLLM's, borrowed; NULL if it holds nothing, or with an exception.
static Admitted* find(const SlotAllocator* self, PyObject* request) {
  PyObject* const id = self->live ? PyObject_GetAttr(request, s_request_id) : NULL;
  PyObject* const found = id ? PyDict_GetItemWithError(self->live, id) : NULL;
  Py_XDECREF(id);
  return found && Py_TYPE(found) == kvc_admitted_type ? (Admitted*)found : NULL;
}

// Returns 1 and the answer (NULL = an exception) if the request runs and no unusual option is given; else 0.
static int try_running(SlotAllocator* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                       PyObject** answer) {
  Py_ssize_t lookahead = 0;
  *answer = NULL;
  if (nargs != 2) return 0;
  if (names) {
    if (PyTuple_GET_SIZE(names) != 1 || PyTuple_GET_ITEM(names, 0) != s_num_lookahead_tokens) return 0;
    if (!as_size(args[2], &lookahead)) return 1;
  }
  Admitted* const live = find(self, args[0]);
  if (!live) return PyErr_Occurred() != NULL;
  Py_INCREF(live);  // reading attributes may run code that ends the request
  const int answered = try_admitted(self, live, args, lookahead, answer);
  Py_DECREF(live);
  return answered;
}

enum { kMostArguments = 24 };

static PyObject* allocate_slots(SlotAllocator* self, PyObject* const* args, Py_ssize_t nargs,
                                PyObject* names) {
  PyObject* answer;
  if (try_running(self, args, nargs, names, &answer)) return answer;
  const Py_ssize_t total = nargs + (names ? PyTuple_GET_SIZE(names) : 0);
  if (total >= kMostArguments) {
    PyErr_Format(PyExc_TypeError, "allocate_slots() got %zd arguments", total);
    return NULL;
  }
  PyObject* all[kMostArguments] = {(PyObject*)self};
  for (Py_ssize_t i = 0; i < total; ++i) all[i + 1] = args[i];
  return PyObject_VectorcallMethod(s_general, all, (size_t)nargs + 1, names);
}

// commit(live, request, count, computed)
static PyObject* allocator_commit(SlotAllocator* self, PyObject* args) {
  PyObject *live, *request;
  Py_ssize_t count, computed;
  if (!PyArg_ParseTuple(args, "O!Onn", kvc_admitted_type, &live, &request, &count, &computed) ||
      !commit(self, (Admitted*)live, request, count, computed))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject* cache_blocks(SlotAllocator* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject* values[2] = {nargs > 0 ? args[0] : NULL, nargs > 1 ? args[1] : NULL};
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named && nargs + named == 2; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "request") == 0) values[0] = args[nargs + i];
    if (PyUnicode_CompareWithASCIIString(name, "num_computed_tokens") == 0) values[1] = args[nargs + i];
  }
  Py_ssize_t count;
  if (nargs + named != 2 || !values[0] || !values[1]) {
    PyErr_SetString(PyExc_TypeError, "cache_blocks() takes request and num_computed_tokens");
    return NULL;
  }
  if (!as_size(values[1], &count)) return NULL;
  Admitted* const live = self->caching ? find(self, values[0]) : NULL;
  if (live) {
    Py_INCREF(live);
    const int done = commit(self, live, values[0], count, 0);
    Py_DECREF(live);
    if (!done) return NULL;
  }
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

// Reads `edges`, a sequence of (first, period), into memory that the allocator owns.
static int read_edges(SlotAllocator* self, PyObject* edges) {
  const Py_ssize_t most = PY_SSIZE_T_MAX / 4;  // so that sums with counts of tokens fit
  PyObject* const items = PySequence_Fast(edges, "edges must be a sequence of (first, period)");
  if (!items) return 0;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  Edges* const read = PyMem_Malloc((size_t)(count + 1) * sizeof *read);
  int done = read != NULL;
  if (!done) PyErr_NoMemory();
  for (Py_ssize_t i = 0; done && i < count; ++i) {
    PyObject* const item = kvc_item(items, i, count, "edges");
    done = item && PyTuple_Check(item);
    if (item && !done) PyErr_Format(PyExc_TypeError, "edges[%zd] is no tuple (first, period)", i);
    done = done &&
           PyArg_ParseTuple(item, "nn;edges are tuples (first, period)", &read[i].first, &read[i].period);
    if (done && (read[i].first < 0 || read[i].first > most || read[i].period < 1 || read[i].period > most)) {
      PyErr_Format(PyExc_ValueError, "edges[%zd] is (%zd, %zd); first is 0 .. %zd, period 1 .. %zd", i,
                   read[i].first, read[i].period, most, most);
      done = 0;
    }
    Py_XDECREF(item);
  }
  Py_DECREF(items);
  if (!done) {
    PyMem_Free(read);
    return 0;
  }
  PyMem_Free(self->edges);
  self->edges = read, self->num_edges = count;
  return 1;
}

// Reads `states`, a byte for each table of states, and makes the set of fresh ones.
static int read_states(SlotAllocator* self, const char* states, Py_ssize_t count) {
  PyObject* const fresh = PySet_New(NULL);
  if (!fresh) return 0;
  Py_XSETREF(self->fresh, fresh);
  self->num_states = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (count > (Py_ssize_t)sizeof self->states || (unsigned char)states[i] >= sizeof self->states) {
      PyErr_Format(PyExc_ValueError, "states[%zd] is %d; there are at most %zu tables", i,
                   (unsigned char)states[i], sizeof self->states);
      return 0;
    }
    self->states[i] = (unsigned char)states[i];
  }
  self->num_states = count;
  return 1;
}

static int allocator_init(SlotAllocator* self, PyObject* args, PyObject* keywords) {
  static char* names[] = {"live",   "empty",  "blocks_type", "max_model_len", "edges", "caching",
                          "simple", "states", NULL};
  PyObject *live, *empty, *blocks_type, *edges;
  const char* states = "";
  Py_ssize_t num_states = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OOnOpp|y#", names, &PyDict_Type, &live, &empty,
                                   &blocks_type, &self->max_model_len, &edges, &self->caching, &self->simple,
                                   &states, &num_states) ||
      !read_states(self, states, num_states) || !read_edges(self, edges))
    return -1;
  Py_INCREF(live), Py_INCREF(empty), Py_INCREF(blocks_type);
  Py_XSETREF(self->live, live);
  Py_XSETREF(self->empty, empty);
  Py_XSETREF(self->blocks_type, blocks_type);
  return 0;
}

static int allocator_traverse(SlotAllocator* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->live);
  Py_VISIT(self->empty);
  Py_VISIT(self->blocks_type);
  Py_VISIT(self->fresh);
  return 0;
}

static int allocator_clear(SlotAllocator* self) {
  Py_CLEAR(self->live);
  Py_CLEAR(self->empty);
  Py_CLEAR(self->blocks_type);
  Py_CLEAR(self->fresh);
  self->num_states = 0;
  return 0;
}

static void allocator_dealloc(SlotAllocator* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  allocator_clear(self);
  PyMem_Free(self->edges);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* allocator_fresh(SlotAllocator* self, void* unused) {
  (void)unused;
  if (self->fresh) return Py_INCREF(self->fresh), self->fresh;
  PyErr_SetString(PyExc_AttributeError, "_fresh");
  return NULL;
}

static PyMethodDef allocator_methods[] = {
    {"allocate_slots", (PyCFunction)(void (*)(void))allocate_slots, METH_FASTCALL | METH_KEYWORDS,
     "allocate_slots($self, request, num_new_tokens, num_new_computed_tokens=0, new_computed_blocks=None, "
     "num_lookahead_tokens=0,\n"
     "               num_external_computed_tokens=0, delay_cache_blocks=False, num_encoder_tokens=0, "
     "full_sequence_must_fit=False,\n"
     "               reserved_blocks=0, has_scheduled_reqs=True, skip_zeroing_group_ids=())\n--\n\n"
     "Takes slots for num_new_tokens after the computed tokens, all or nothing. Returns the new blocks, or "
     "None "
     "if there are too few.\n\n"
     "A new request first takes the num_new_computed_tokens that get_computed_blocks() found; returns None "
     "if "
     "they were evicted since.\n"
     "The watermark applies to admissions while any request holds blocks; has_scheduled_reqs is not read."},
    {"cache_blocks", (PyCFunction)(void (*)(void))cache_blocks, METH_FASTCALL | METH_KEYWORDS,
     "cache_blocks($self, request, num_computed_tokens)\n--\n\n"
     "Publishes the full blocks of the computed tokens, as far as their ids are known. Reads only tokens "
     "that are new."},
    {"_commit", (PyCFunction)allocator_commit, METH_VARARGS,
     "_commit($self, live, request, num_tokens, computed)\n--\n\nAs cache_blocks(), for an Admitted. Returns "
     "what its tables have lost by `computed` tokens."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef allocator_attributes[] = {
    {"_fresh", (getter)allocator_fresh, NULL, "set of blocks whose states this step writes", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot allocator_slots[] = {{Py_tp_doc,
                                         "Handles allocate_slots() of running requests and cache_blocks(); "
                                         "_allocate_slots() of the derived class handles all other "
                                         "requests."},
                                        {Py_tp_init, allocator_init},
                                        {Py_tp_new, PyType_GenericNew},
                                        {Py_tp_dealloc, allocator_dealloc},
                                        {Py_tp_traverse, allocator_traverse},
                                        {Py_tp_clear, allocator_clear},
                                        {Py_tp_methods, allocator_methods},
                                        {Py_tp_getset, allocator_attributes},
                                        {0, NULL}};
static PyType_Spec allocator_spec = {"kvcache._native.SlotAllocator", sizeof(SlotAllocator), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                     allocator_slots};

int kvc_add_slots(PyObject* module) {
  PyObject* const allocator = PyType_FromSpec(&allocator_spec);
  s_request_id = PyUnicode_InternFromString("request_id");
  s_num_computed_tokens = PyUnicode_InternFromString("num_computed_tokens");
  s_num_lookahead_tokens = PyUnicode_InternFromString("num_lookahead_tokens");
  s_all_token_ids = PyUnicode_InternFromString("all_token_ids");
  s_num_in_flight_tokens = PyUnicode_InternFromString("num_in_flight_tokens");
  s_general = PyUnicode_InternFromString("_allocate_slots");
  return s_general && allocator && PyModule_AddObject(module, "SlotAllocator", allocator) == 0;
}
