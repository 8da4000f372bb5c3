// SPDX-License-Identifier: Apache-2.0
// Events as objects of a scheduler in Python, made in one pass: a block that is told alone costs its lists
// and its object. For kvcache/integrations/_vllm_events.py.
#include <stdint.h>
#include <string.h>

#include "native.h"

typedef struct Conversion {
  const kvc_event* events;
  const int32_t* tokens;  // of events[0] on
  Py_ssize_t num_events, num_tokens;
  int int_hashes;
  PyObject *stored, *removed, *cleared;  // called for a run of events
  PyObject *middle, *ends, *keys;        // arguments of `stored`; see the docstring
} Conversion;

// 32 bytes, or the last 8 as an integer.
static PyObject* hash_of(const Conversion* c, const uint8_t* digest) {
  if (!c->int_hashes) return PyBytes_FromStringAndSize((const char*)digest, 32);
  uint64_t last;
  memcpy(&last, digest + 24, sizeof last);
  if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) last = __builtin_bswap64(last);
  return PyLong_FromUnsignedLongLong(last);
}

static PyObject* hashes_of(const Conversion* c, const kvc_event* events, Py_ssize_t count) {
  PyObject* const list = PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    PyObject* const hash = hash_of(c, events[i].digest);
    if (!hash) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, i, hash);
  }
  return list;
}

static PyObject* ids_of(const int32_t* tokens, Py_ssize_t count) {
  PyObject* const list = PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    PyObject* const id = PyLong_FromLong(tokens[i]);
    if (!id) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, i, id);
  }
  return list;
}

// One of extra keys per block, or a list of None.
static PyObject* keys_of(const Conversion* c, uint64_t offset, Py_ssize_t count) {
  if (c->keys != Py_None) return PyObject_CallFunction(c->keys, "Kn", (unsigned long long)offset, count);
  PyObject* const list = PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    Py_INCREF(Py_None);
    PyList_SET_ITEM(list, i, Py_None);
  }
  return list;
}

enum { kMostArguments = 32, kOwn = 4 };

static PyObject* call_stored(const Conversion* c, const kvc_event* first, Py_ssize_t count,
                             const int32_t* tokens, Py_ssize_t num_tokens) {
  PyObject* const end = PyTuple_GET_ITEM(c->ends, first->group);
  const Py_ssize_t in_middle = PyTuple_GET_SIZE(c->middle), at_end = PyTuple_GET_SIZE(end);
  PyObject* own[kOwn] = {hashes_of(c, first, count), NULL, ids_of(tokens, num_tokens),
                         keys_of(c, first->token_offset, count)};
  if (first->token_offset != 0) {
    own[1] = hash_of(c, first->parent_digest);
  } else {
    Py_INCREF(Py_None);
    own[1] = Py_None;
  }
  PyObject* made = NULL;
  if (own[0] && own[1] && own[2] && own[3]) {
    PyObject* arguments[kMostArguments];
    size_t n = 0;
    for (; n < 3; ++n) arguments[n] = own[n];
    for (Py_ssize_t i = 0; i < in_middle; ++i) arguments[n++] = PyTuple_GET_ITEM(c->middle, i);
    arguments[n++] = own[3];
    for (Py_ssize_t i = 0; i < at_end; ++i) arguments[n++] = PyTuple_GET_ITEM(end, i);
    made = PyObject_Vectorcall(c->stored, arguments, n, NULL);
  }
  for (int i = 0; i < kOwn; ++i) Py_XDECREF(own[i]);
  return made;
}

static PyObject* call_removed(const Conversion* c, const kvc_event* first, Py_ssize_t count) {
  PyObject* const hashes = hashes_of(c, first, count);
  PyObject* const group = hashes ? PyLong_FromUnsignedLong(first->group) : NULL;
  PyObject* const made = group ? PyObject_CallFunctionObjArgs(c->removed, hashes, group, NULL) : NULL;
  Py_XDECREF(hashes);
  Py_XDECREF(group);
  return made;
}

// Whether the next event belongs to the run of this one.
static int goes_on(const kvc_event* event, const kvc_event* next) {
  if (next->kind != event->kind || next->group != event->group) return 0;
  return next->kind == KVC_EVENT_REMOVED ||
         (next->kind == KVC_EVENT_STORED && next->parent_node == event->node);
}

static PyObject* converted(const Conversion* c) {
  PyObject* const result = PyList_New(0);
  Py_ssize_t token = 0;
  for (Py_ssize_t i = 0, end; result && i < c->num_events; i = end) {
    const kvc_event* const first = &c->events[i];
    Py_ssize_t tokens = first->num_tokens;
    for (end = i + 1; end < c->num_events && goes_on(&c->events[end - 1], &c->events[end]); ++end)
      tokens += c->events[end].num_tokens;
    PyObject* made = NULL;
    if (tokens > c->num_tokens - token) {
      PyErr_Format(PyExc_ValueError, "tokens has %zd elements; the events up to %zd have %zd", c->num_tokens,
                   end - 1, token + tokens);
    } else if (first->kind == KVC_EVENT_NAMESPACE_CLEARED || first->kind == KVC_EVENT_ALL_CLEARED) {
      made = PyObject_CallObject(c->cleared, NULL);
    } else if (first->group >= (size_t)PyTuple_GET_SIZE(c->ends)) {
      PyErr_Format(PyExc_ValueError, "events[%zd] is of group %u; ends has %zd", i, first->group,
                   PyTuple_GET_SIZE(c->ends));
    } else if (first->kind == KVC_EVENT_STORED) {
      made = call_stored(c, first, end - i, c->tokens + token, tokens);
    } else if (first->kind == KVC_EVENT_REMOVED) {
      made = call_removed(c, first, end - i);
    } else {
      PyErr_Format(PyExc_ValueError, "events[%zd] is of kind %u; an EventKind is wanted", i, first->kind);
    }
    token += tokens;
    if (!made || PyList_Append(result, made) != 0) {
      Py_XDECREF(made);
      Py_DECREF(result);
      return NULL;
    }
    Py_DECREF(made);
  }
  return result;
}

static int check(const Conversion* c) {
  const Py_ssize_t most = kMostArguments - kOwn - PyTuple_GET_SIZE(c->middle);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(c->ends); ++i) {
    PyObject* const end = PyTuple_GET_ITEM(c->ends, i);
    if (PyTuple_Check(end) && PyTuple_GET_SIZE(end) <= most) continue;
    PyErr_Format(PyExc_TypeError, "ends[%zd] is %.100R; it must be a tuple of at most %zd arguments", i, end,
                 most > 0 ? most : 0);
    return 0;
  }
  if (most >= 0) return 1;
  PyErr_Format(PyExc_TypeError, "middle has %zd arguments; at most %d", PyTuple_GET_SIZE(c->middle),
               kMostArguments - kOwn);
  return 0;
}

static PyObject* runs_of_events(PyObject* module, PyObject* args) {
  static const kvc_array_rule kEvents = {"events", kBytes, 0, sizeof(kvc_event)},
                              kTokens = {"tokens", kSigned, 0, 4};
  (void)module;
  PyObject *events, *tokens;
  Conversion c = {0};
  if (!PyArg_ParseTuple(args, "OOpOOOO!O!O:runs_of_events", &events, &tokens, &c.int_hashes, &c.stored,
                        &c.removed, &c.cleared, &PyTuple_Type, &c.middle, &PyTuple_Type, &c.ends, &c.keys) ||
      !check(&c))
    return NULL;
  kvc_buffer of_events = {0}, of_tokens = {0};
  void *event_data = NULL, *token_data = NULL;
  size_t num_events = 0, num_tokens = 0;
  PyObject* result = NULL;
  if (kvc_get_array(events, &kEvents, &of_events, &event_data, &num_events) &&
      kvc_get_array(tokens, &kTokens, &of_tokens, &token_data, &num_tokens)) {
    if ((uintptr_t)event_data % _Alignof(kvc_event) != 0) {
      PyErr_Format(PyExc_ValueError, "events begins at an address that is no multiple of %zu: pass x.copy()",
                   _Alignof(kvc_event));
    } else {
      c.events = event_data, c.num_events = (Py_ssize_t)num_events;
      c.tokens = token_data, c.num_tokens = (Py_ssize_t)num_tokens;
      result = converted(&c);
    }
  }
  kvc_release_array(&of_events);
  kvc_release_array(&of_tokens);
  return result;
}

static PyMethodDef functions[] = {
    {"runs_of_events", runs_of_events, METH_VARARGS,
     "runs_of_events(events, tokens, int_hashes, stored, removed, cleared, middle, ends, keys)\n--\n\n"
     "Returns a list with one object for each run of events. A chain of stored blocks is a run, and so are "
     "blocks of a group that are removed one after the other.\n\n"
     "events, tokens: from EventReader.poll(). int_hashes: a hash is the last 8 bytes of a digest as an "
     "integer, else all 32 bytes.\n"
     "stored(hashes, parent hash or None, token ids, *middle, keys, *ends[group]), removed(hashes, group) "
     "and "
     "cleared() make the objects.\n"
     "keys(token offset, number of blocks) gives the extra keys of the blocks; None = they have none."},
    {NULL, NULL, 0, NULL}};

int kvc_add_events(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
