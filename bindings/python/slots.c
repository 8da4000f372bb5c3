// SPDX-License-Identifier: Apache-2.0
// allocate_slots() in C, which a scheduler in Python calls for every request in every step: a call with
// nothing to do costs a dictionary lookup and two attributes. For kvcache/integrations/vllm.py.
//
// SlotAllocator handles admitted requests, and passes all others to the Python class that is derived from it.
// One thread at a time uses it, under the interpreter lock.
#include "admitted.h"

typedef struct SlotAllocator {
  PyObject_HEAD PyObject *live, *empty,
      *blocks_type;  // {request_id: Admitted}, KVCacheBlocks of nothing, KVCacheBlocks
  Py_ssize_t max_model_len;
  int publishes_at_once;  // blocks are published when they are scheduled, without further bookkeeping
} SlotAllocator;

static PyObject *s_request_id, *s_num_computed_tokens, *s_num_lookahead_tokens, *s_all_token_ids,
    *s_own_token_ids, *s_general;

static int as_size(PyObject* number, Py_ssize_t* value) {
  if (!number) return 0;
  *value = PyLong_AsSsize_t(number);
  return *value != -1 || !PyErr_Occurred();
}

// The list behind vLLM's read-only view, if it exists: it is read several times faster.
static PyObject* tokens_of(PyObject* request) {
  PyObject* const own = PyObject_GetAttr(request, s_own_token_ids);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(request, s_all_token_ids);
}

// Takes slots for `needed` tokens of a running request, and publishes the full blocks of its first `end`
// tokens.
static PyObject* extend(const SlotAllocator* self, Admitted* live, PyObject* request, Py_ssize_t end,
                        Py_ssize_t needed) {
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
  PyObject* const tokens = tokens_of(request);
  const Py_ssize_t known = tokens ? PySequence_Size(tokens) : -1;
  Py_ssize_t full = end < known ? end : known;
  full -= full % live->block_size;
  const int done = known >= 0 && (full <= live->committed || kvc_commit(live, tokens, full));
  Py_XDECREF(tokens);
  if (!done) {
    Py_DECREF(result);
    return NULL;
  }
  live->quiet = live->committed + live->block_size - 1;
  if (live->quiet > live->num_blocks * live->block_size) live->quiet = live->num_blocks * live->block_size;
  return result;
}

// As try_running(), for a running request.
static int try_admitted(SlotAllocator* self, Admitted* live, PyObject* const* args, Py_ssize_t lookahead,
                        PyObject** answer) {
  Py_ssize_t computed, added, end, needed;
  PyObject* const count = PyObject_GetAttr(args[0], s_num_computed_tokens);
  const int read = as_size(count, &computed) && as_size(args[1], &added);
  Py_XDECREF(count);
  if (!read) return 1;
  if (added <= 0 || lookahead < 0) return 0;
  if (__builtin_add_overflow(computed, added, &end) || __builtin_add_overflow(end, lookahead, &needed))
    return 0;
  if (needed <= live->quiet) {
    Py_INCREF(self->empty);
    *answer = self->empty;
    return 1;
  }
  if (!self->publishes_at_once) return 0;
  *answer = extend(self, live, args[0], end, needed);
  return 1;
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
  if (!self->live) return 0;  // not initialised
  PyObject* const id = PyObject_GetAttr(args[0], s_request_id);
  if (!id) return 1;
  PyObject* const found = PyDict_GetItemWithError(self->live, id);
  Py_DECREF(id);
  if (!found) return PyErr_Occurred() != NULL;
  if (Py_TYPE(found) != kvc_admitted_type) return 0;
  Admitted* const live = (Admitted*)found;
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

static int allocator_init(SlotAllocator* self, PyObject* args, PyObject* keywords) {
  static char* names[] = {"live", "empty", "blocks_type", "max_model_len", "publishes_at_once", NULL};
  PyObject *live, *empty, *blocks_type;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OOnp", names, &PyDict_Type, &live, &empty, &blocks_type,
                                   &self->max_model_len, &self->publishes_at_once))
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
  return 0;
}

static int allocator_clear(SlotAllocator* self) {
  Py_CLEAR(self->live);
  Py_CLEAR(self->empty);
  Py_CLEAR(self->blocks_type);
  return 0;
}

static void allocator_dealloc(SlotAllocator* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  allocator_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
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
    {NULL, NULL, 0, NULL}};

static PyType_Slot allocator_slots[] = {{Py_tp_doc,
                                         "Handles allocate_slots() of running requests; _allocate_slots() of "
                                         "the derived class handles all others."},
                                        {Py_tp_init, allocator_init},
                                        {Py_tp_new, PyType_GenericNew},
                                        {Py_tp_dealloc, allocator_dealloc},
                                        {Py_tp_traverse, allocator_traverse},
                                        {Py_tp_clear, allocator_clear},
                                        {Py_tp_methods, allocator_methods},
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
  s_own_token_ids = PyUnicode_InternFromString("_all_token_ids");
  s_general = PyUnicode_InternFromString("_allocate_slots");
  return s_general && allocator && PyModule_AddObject(module, "SlotAllocator", allocator) == 0;
}
