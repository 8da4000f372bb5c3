// SPDX-License-Identifier: Apache-2.0
// What a scheduler calls at every step of a tier below its cache: lookups from a table, jobs, and their ends,
// without a Python object for a page. The derived class in kvcache/integrations/vllm_tier.py handles what is
// rare: failures, refusals, keys of other sizes. One thread at a time uses it, under the interpreter lock.
#include <Python.h>
#include <stddef.h>
#include <structmember.h>
#include <time.h>
#include <unistd.h>

#include "native.h"

enum { kHashBytes = 32, kGroupBytes = 4, kNameBytes = kHashBytes + kGroupBytes, kPolled = 64 };

// A job of the tier.
typedef struct Batch {
  struct Batch *before, *after;
  PyObject* job;   // id of the scheduler's job; NULL: a question which pages are there
  PyObject* keys;  // list of bytes; the scheduler's own, which does not change until the job has ended
  int loads;
  Py_ssize_t count;
  kvc_tier_item items[];
} Batch;

typedef struct TierCalls {
  PyObject_HEAD PyObject* owner;  // the tier, kept alive
  kvc_tier* t;
  pid_t pid;         // that opened it
  Py_buffer memory;  // of the rows that jobs load and store
  unsigned long long row_bytes, num_rows, lease_ns;
  PyObject *hit, *miss, *retry;  // answers of lookup()
  PyObject* result_type;         // called with (job, True[, None, None, bytes])
  PyObject* key_of;              // called with the name of a page; returns the key, 32 bytes
  int tells_bytes;
  // Keys that live requests have asked for, and their answers; request: the keys that it was the first to ask
  // for; the same of requests that finished before all answers came; keys to ask for; results to return.
  PyObject *found, *asked_by, *left, *to_ask, *ended;
  Py_ssize_t num_asked, num_moving;  // jobs that ask; that load or store
  Batch* first;
  int has_mask;
  uint8_t group[kGroupBytes], mask[kHashBytes];  // of the last group: key = hash ^ mask
} TierCalls;

static PyObject *s_req_id, *s_job_id, *s_keys, *s_chunk_ids, *s_block_ids;

static void unlink_batch(TierCalls* self, Batch* batch) {
  if (batch->before) batch->before->after = batch->after;
  if (batch->after) batch->after->before = batch->before;
  if (self->first == batch) self->first = batch->after;
}

static void free_batch(Batch* batch) {
  Py_XDECREF(batch->job);
  Py_DECREF(batch->keys);
  PyMem_Free(batch);
}

// ---- keys

static int call_key_of(const TierCalls* self, PyObject* name, uint8_t* key) {
  PyObject* const made = PyObject_CallFunctionObjArgs(self->key_of, name, NULL);
  const int good = made && PyBytes_Check(made) && PyBytes_GET_SIZE(made) == kHashBytes;
  if (good) memcpy(key, PyBytes_AS_STRING(made), kHashBytes);
  if (made && !good) PyErr_SetString(PyExc_TypeError, "key_of() returned something else than 32 bytes");
  Py_XDECREF(made);
  return good;
}

static int read_mask(TierCalls* self, const uint8_t* group) {
  uint8_t name[kNameBytes] = {0};
  memcpy(name + kHashBytes, group, kGroupBytes);
  PyObject* const bytes = PyBytes_FromStringAndSize((const char*)name, kNameBytes);
  self->has_mask = bytes && call_key_of(self, bytes, self->mask);
  memcpy(self->group, group, kGroupBytes);
  Py_XDECREF(bytes);
  return self->has_mask;
}

static int check_key(const TierCalls* self, PyObject* name) {
  if (!self->key_of) {
    PyErr_SetString(PyExc_ValueError, "the tier is closed");
  } else if (!PyBytes_Check(name)) {
    PyErr_Format(PyExc_TypeError, "a key is %.100s; it must be bytes", Py_TYPE(name)->tp_name);
  } else {
    return 1;
  }
  return 0;
}

static int read_key(TierCalls* self, PyObject* name, uint8_t* key) {
  if (!check_key(self, name)) return 0;
  if (PyBytes_GET_SIZE(name) != kNameBytes) return call_key_of(self, name, key);
  const uint8_t* const bytes = (const uint8_t*)PyBytes_AS_STRING(name);
  if ((!self->has_mask || memcmp(bytes + kHashBytes, self->group, kGroupBytes) != 0) &&
      !read_mask(self, bytes + kHashBytes))
    return 0;
  for (int i = 0; i < kHashBytes; ++i) key[i] = bytes[i] ^ self->mask[i];
  return 1;
}

// ---- jobs

// Takes `keys`, a list. NULL with an exception, and then it is released.
static Batch* new_batch(TierCalls* self, PyObject* keys) {
  const Py_ssize_t count = PyList_GET_SIZE(keys);
  Batch* const batch = PyMem_Calloc(1, offsetof(Batch, items) + (size_t)count * sizeof(kvc_tier_item));
  if (!batch) {
    Py_DECREF(keys);
    PyErr_NoMemory();
    return NULL;
  }
  batch->keys = keys, batch->count = count;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const name = kvc_item(keys, i, count, "keys");  // key_of() may run anything
    const int good = name && read_key(self, name, batch->items[i].key);
    Py_XDECREF(name);
    if (!good) {
      free_batch(batch);
      return NULL;
    }
  }
  return batch;
}

// A fork has no threads of the tier, and perhaps locks that nobody lets go of.
static int is_own(const TierCalls* self) {
  if (self->pid == getpid()) return 1;
  PyErr_Format(PyExc_ValueError,
               "the tier was opened in process %ld, of which this is a fork: open it after the fork",
               (long)self->pid);
  return 0;
}

// 1: the tier has it. 0: the tier refused it, and said so. -1: an exception.
static int submit(TierCalls* self, Batch* batch, uint32_t kind, uint32_t priority) {
  if (!self->t) {
    PyErr_SetString(PyExc_ValueError, "the tier is closed");
    return -1;
  }
  if (!is_own(self)) return -1;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  const kvc_tier_job job = {.struct_size = sizeof job,
                            .items = batch->items,
                            .num_items = (size_t)batch->count,
                            .kind = kind,
                            .priority = priority,
                            .now_ns = now_ns,
                            .lease_ns = kind == KVC_TIER_EXISTS ? self->lease_ns : 0,
                            .user_data = (uint64_t)(uintptr_t)batch};
  uint64_t id;
  const kvc_status status = kvc_tier_submit(self->t, &job, &id);
  if (status == KVC_ERROR_LIMIT) {
    PyObject* const done = PyObject_CallMethod((PyObject*)self, "_refuse", "s", kvc_last_error());
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  if (status != KVC_OK) {
    kvc_raise(status);
    return -1;
  }
  batch->after = self->first;
  if (self->first) self->first->before = batch;
  self->first = batch;
  return 1;
}

static int call_quietly(TierCalls* self, const char* method) {
  PyObject* const done = PyObject_CallMethod((PyObject*)self, method, NULL);
  Py_XDECREF(done);
  return done != NULL;
}

// ---- lookups

static PyObject* calls_lookup(TierCalls* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 2)
    return PyErr_Format(PyExc_TypeError, "lookup() takes a key and a request, not %zd arguments", count);
  PyObject* answer = PyDict_GetItemWithError(self->found, args[0]);
  if (!answer) {
    if (PyErr_Occurred() || !check_key(self, args[0]) ||
        PyDict_SetItem(self->found, args[0], self->retry) < 0 || PyList_Append(self->to_ask, args[0]) < 0)
      return NULL;
    PyObject* const request = PyObject_GetAttr(args[1], s_req_id);
    if (!request) return NULL;
    PyObject* asked = PyDict_GetItemWithError(self->asked_by, request);
    Py_XINCREF(asked);
    if (!asked && !PyErr_Occurred() && (asked = PyList_New(0)) &&
        PyDict_SetItem(self->asked_by, request, asked) < 0)
      Py_CLEAR(asked);
    Py_DECREF(request);
    const int added = asked && PyList_Append(asked, args[0]) == 0;
    Py_XDECREF(asked);
    if (!added) return NULL;
    answer = self->retry;
  }
  Py_INCREF(answer);
  return answer;
}

static PyObject* calls_on_schedule_end(TierCalls* self, PyObject* const* args, Py_ssize_t count) {
  (void)args, (void)count;
  if (PyList_GET_SIZE(self->to_ask) == 0) Py_RETURN_NONE;
  PyObject* const none = PyList_New(0);
  if (!none) return NULL;
  PyObject* const keys = self->to_ask;
  self->to_ask = none;
  Batch* const batch = new_batch(self, keys);
  if (!batch) return NULL;
  const int taken = submit(self, batch, KVC_TIER_EXISTS, KVC_TIER_LOAD);
  if (taken > 0) {
    ++self->num_asked;
    Py_RETURN_NONE;
  }
  for (Py_ssize_t i = 0; taken == 0 && i < PyList_GET_SIZE(keys); ++i)
    if (PyDict_SetItem(self->found, PyList_GET_ITEM(keys, i), self->miss) < 0) break;
  free_batch(batch);
  if (PyErr_Occurred() || !call_quietly(self, "_forget_left")) return NULL;
  Py_RETURN_NONE;
}

static int forget(TierCalls* self, PyObject* key) {
  const int known = PyDict_Contains(self->found, key);
  return known < 0 ? 0 : !known || PyDict_DelItem(self->found, key) == 0;
}

static int take_answers(TierCalls* self, Batch* batch) {
  int good = 1;
  for (Py_ssize_t i = 0; good && i < batch->count && i < PyList_GET_SIZE(batch->keys); ++i) {
    PyObject* const key = PyList_GET_ITEM(batch->keys, i);
    const int32_t result = batch->items[i].result;
    Py_INCREF(key);
    good = result == KVC_PAGE_PENDING  // being written: to be asked again
               ? forget(self, key)
               : PyDict_SetItem(self->found, key, result == KVC_PAGE_OK ? self->hit : self->miss) == 0;
    Py_DECREF(key);
  }
  return good && (PyList_GET_SIZE(self->left) == 0 || call_quietly(self, "_forget_left"));
}

static PyObject* calls_on_request_finished(TierCalls* self, PyObject* context) {
  PyObject* const request = PyObject_GetAttr(context, s_req_id);
  if (!request) return NULL;
  PyObject* const keys = PyDict_GetItemWithError(self->asked_by, request);
  Py_XINCREF(keys);
  int good = !PyErr_Occurred() && (!keys || PyDict_DelItem(self->asked_by, request) == 0);
  Py_DECREF(request);
  if (good && keys && (PyList_GET_SIZE(self->to_ask) != 0 || self->num_asked != 0)) {
    good = PyList_Append(self->left, keys) == 0 && call_quietly(self, "_forget_left");
  } else {
    for (Py_ssize_t i = 0; good && keys && i < PyList_GET_SIZE(keys); ++i)
      good = forget(self, PyList_GET_ITEM(keys, i));
  }
  Py_XDECREF(keys);
  if (!good) return NULL;
  Py_RETURN_NONE;
}

// ---- loads and stores

// Sets data and bytes of the items to rows of the memory. 1, 0: there are no such rows, -1: an exception.
static int set_rows(TierCalls* self, PyObject* rows, Batch* batch) {
  const kvc_array_rule rule = {"chunk_ids", kSigned, 0, sizeof(int32_t)};
  kvc_buffer buffer = {0};
  void* data;
  size_t count;
  int good = kvc_get_array(rows, &rule, &buffer, &data, &count) ? 1 : -1;
  if (good > 0 && (count == 0 || count != (size_t)batch->count)) good = 0;
  for (Py_ssize_t i = 0; good > 0 && i < batch->count; ++i) {
    const uint64_t row = (uint64_t)((const int32_t*)data)[i];  // a negative one becomes large
    if (row >= self->num_rows) good = 0;
    batch->items[i].data = (char*)self->memory.buf + row * self->row_bytes;
    batch->items[i].bytes = self->row_bytes;
  }
  kvc_release_array(&buffer);
  return good;
}

static PyObject* rows_of(PyObject* job) {
  PyObject* rows = PyObject_GetAttr(job, s_chunk_ids);
  if (!rows && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    rows = PyObject_GetAttr(job, s_block_ids);
  }
  return rows;
}

static PyObject* transfer(TierCalls* self, PyObject* job, int loads) {
  PyObject* keys = PyObject_GetAttr(job, s_keys);
  if (keys && !PyList_Check(keys)) Py_SETREF(keys, PySequence_List(keys));
  Batch* const batch = keys ? new_batch(self, keys) : NULL;
  if (!batch) return NULL;
  batch->loads = loads;
  batch->job = PyObject_GetAttr(job, s_job_id);
  PyObject* const rows = batch->job ? rows_of(job) : NULL;
  int taken = rows ? set_rows(self, rows, batch) : -1;
  Py_XDECREF(rows);
  if (taken > 0)
    taken = submit(self, batch, loads ? KVC_TIER_GET : KVC_TIER_PUT, loads ? KVC_TIER_LOAD : KVC_TIER_STORE);
  if (taken > 0) {
    ++self->num_moving;
    Py_RETURN_NONE;
  }
  if (taken == 0) {
    PyObject* const result = PyObject_CallMethod((PyObject*)self, "_fail", "OO[]i", batch->job, keys, loads);
    if (!result || PyList_Append(self->ended, result) < 0) taken = -1;
    Py_XDECREF(result);
  }
  free_batch(batch);
  if (taken < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* calls_submit_store(TierCalls* self, PyObject* job) { return transfer(self, job, 0); }
static PyObject* calls_submit_load(TierCalls* self, PyObject* job) { return transfer(self, job, 1); }

// Lookups of these keys that were misses are hits.
static int note_stored(TierCalls* self, PyObject* keys) {
  if (PyDict_GET_SIZE(self->found) == 0) return 1;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); ++i) {
    PyObject* const key = PyList_GET_ITEM(keys, i);
    Py_INCREF(key);
    PyObject* const answer = PyDict_GetItemWithError(self->found, key);
    const int good =
        answer == self->miss ? PyDict_SetItem(self->found, key, self->hit) == 0 : answer || !PyErr_Occurred();
    Py_DECREF(key);
    if (!good) return 0;
  }
  return 1;
}

static PyObject* calls_note_stored(TierCalls* self, PyObject* keys) {
  if (!PyList_Check(keys)) return PyErr_Format(PyExc_TypeError, "keys must be a list");
  if (!note_stored(self, keys)) return NULL;
  Py_RETURN_NONE;
}

static PyObject* result_of(TierCalls* self, Batch* batch, uint64_t num_ok) {
  if (num_ok == (uint64_t)batch->count) {
    if (!batch->loads && !note_stored(self, batch->keys)) return NULL;
    if (!self->tells_bytes) return PyObject_CallFunctionObjArgs(self->result_type, batch->job, Py_True, NULL);
    PyObject* const bytes = PyLong_FromUnsignedLongLong((uint64_t)batch->count * self->row_bytes);
    PyObject* const args[] = {batch->job, Py_True, Py_None, Py_None, bytes};
    PyObject* const result = bytes ? PyObject_Vectorcall(self->result_type, args, 5, NULL) : NULL;
    Py_XDECREF(bytes);
    return result;
  }
  PyObject* const good = PyList_New(0);
  PyObject* result = good;
  if (PyList_GET_SIZE(batch->keys) != batch->count) {  // then no key is known to be loaded
    PyErr_SetString(PyExc_RuntimeError, "the keys of a job were changed before it ended");
    result = NULL;
  }
  for (Py_ssize_t i = 0; result && i < batch->count && i < PyList_GET_SIZE(batch->keys); ++i)
    if (batch->items[i].result == KVC_PAGE_OK && PyList_Append(good, PyList_GET_ITEM(batch->keys, i)) < 0)
      result = NULL;
  if (result)
    result =
        PyObject_CallMethod((PyObject*)self, "_fail", "OOOi", batch->job, batch->keys, good, batch->loads);
  Py_XDECREF(good);
  return result;
}

// Takes what has ended; adds the results to a list. Returns false with the first exception, and takes all the
// same.
static int take_ended(TierCalls* self, PyObject* results) {
  kvc_tier_completion polled[kPolled];
  size_t count = kPolled;
  if (self->t && self->first && !is_own(self)) return 0;
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  while (count == kPolled && self->t && self->first) {
    const kvc_status status = kvc_tier_poll(self->t, polled, kPolled, &count);
    if (status != KVC_OK) {
      kvc_raise(status);
      count = 0;
    }
    for (size_t i = 0; i < count; ++i) {  // all at once: what follows may run anything, also _close()
      Batch* const batch = (Batch*)(uintptr_t)polled[i].user_data;
      unlink_batch(self, batch);
      --*(batch->job ? &self->num_moving : &self->num_asked);
    }
    for (size_t i = 0; i < count; ++i) {
      Batch* const batch = (Batch*)(uintptr_t)polled[i].user_data;
      if (batch->job) {
        PyObject* const result = result_of(self, batch, polled[i].num_ok);
        if (result) (void)PyList_Append(results, result);
        Py_XDECREF(result);
      } else {
        (void)take_answers(self, batch);
      }
      free_batch(batch);
      if (PyErr_Occurred() && !type) PyErr_Fetch(&type, &value, &trace);
      PyErr_Clear();
    }
    if (PyErr_Occurred() && !type) PyErr_Fetch(&type, &value, &trace);
  }
  if (type) PyErr_Restore(type, value, trace);
  return type == NULL;
}

static PyObject* calls_get_finished_jobs(TierCalls* self, PyObject* unused) {
  (void)unused;
  PyObject* const none = PyList_New(0);
  if (!none) return NULL;
  if (!self->first && PyList_GET_SIZE(self->ended) == 0) return none;
  PyObject* const results = self->ended;  // which keeps them if there is an exception
  Py_INCREF(results);
  if (!take_ended(self, results)) {
    Py_DECREF(results);
    Py_DECREF(none);
    return NULL;
  }
  Py_SETREF(self->ended, none);
  return results;
}

// ---- the type

static PyObject* calls_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  (void)args, (void)keywords;
  TierCalls* self = (TierCalls*)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->found = PyDict_New(), self->asked_by = PyDict_New();
  self->left = PyList_New(0), self->to_ask = PyList_New(0), self->ended = PyList_New(0);
  if (!self->found || !self->asked_by || !self->left || !self->to_ask || !self->ended) Py_CLEAR(self);
  return (PyObject*)self;
}

static PyObject* calls_open(TierCalls* self, PyObject* args, PyObject* keywords) {
  PyObject *owner, *memory, *answers[3], *result_type, *key_of;
  unsigned long long row_bytes, lease_ns;
  int tells_bytes;
  static char* names[] = {"tier",        "memory",      "row_bytes", "lease_ns", "answers",
                          "result_type", "tells_bytes", "key_of",    NULL};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOKK(OOO)OpO", names, &owner, &memory, &row_bytes,
                                   &lease_ns, &answers[0], &answers[1], &answers[2], &result_type,
                                   &tells_bytes, &key_of))
    return NULL;
  kvc_tier* const t = kvc_tier_of(owner);
  if (!t) return NULL;
  if (self->owner || self->memory.obj) return PyErr_Format(PyExc_ValueError, "the tier is open");
  if (PyObject_GetBuffer(memory, &self->memory, PyBUF_CONTIG) < 0) return NULL;
  if (row_bytes == 0 || (unsigned long long)self->memory.len % row_bytes != 0) {
    PyBuffer_Release(&self->memory);
    return PyErr_Format(PyExc_ValueError, "row_bytes is %llu; it must divide the bytes of the memory",
                        row_bytes);
  }
  self->row_bytes = row_bytes, self->num_rows = (unsigned long long)self->memory.len / row_bytes;
  self->lease_ns = lease_ns, self->tells_bytes = tells_bytes, self->t = t, self->pid = getpid();
  Py_INCREF(owner), self->owner = owner;
  Py_INCREF(answers[0]), self->hit = answers[0];
  Py_INCREF(answers[1]), self->miss = answers[1];
  Py_INCREF(answers[2]), self->retry = answers[2];
  Py_INCREF(result_type), self->result_type = result_type;
  Py_INCREF(key_of), self->key_of = key_of;
  Py_RETURN_NONE;
}

static void free_all(TierCalls* self) {
  while (self->first) {
    Batch* const batch = self->first;
    self->first = batch->after;
    free_batch(batch);
  }
  self->num_asked = self->num_moving = 0;
  PyBuffer_Release(&self->memory);
}

// The tier ends when nobody has it any more: then the items and the memory are free. If close() fails, the
// tier may still work on them: they are kept until another call has closed it, or for ever.
static PyObject* calls_close(TierCalls* self, PyObject* close) {
  self->t = NULL;
  Py_CLEAR(self->owner);
  PyObject* const done = PyObject_CallNoArgs(close);
  if (done) free_all(self);
  return done;
}

static int calls_traverse(TierCalls* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  PyObject* const all[] = {self->owner,       self->hit,    self->miss,  self->retry,
                           self->result_type, self->key_of, self->found, self->asked_by,
                           self->left,        self->to_ask, self->ended, self->memory.obj};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) Py_VISIT(all[i]);
  return 0;
}

static int calls_clear(TierCalls* self) {
  Py_CLEAR(self->key_of);
  return 0;
}

static void calls_dealloc(TierCalls* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  const int is_fork = self->t && self->pid != getpid();
  if (self->t && self->first && !is_fork) {  // somebody else may have the tier, and it works on the items
    Py_BEGIN_ALLOW_THREADS(void) kvc_tier_drain(self->t);
    Py_END_ALLOW_THREADS
  }
  Py_CLEAR(self->owner);
  if (!self->first || (self->t && !is_fork)) free_all(self);
  PyObject* const all[] = {self->hit,   self->miss,     self->retry, self->result_type, self->key_of,
                           self->found, self->asked_by, self->left,  self->to_ask,      self->ended};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) Py_XDECREF(all[i]);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMemberDef calls_members[] = {
    {"_found", T_OBJECT_EX, offsetof(TierCalls, found), READONLY, "key: answer"},
    {"_asked_by", T_OBJECT_EX, offsetof(TierCalls, asked_by), READONLY,
     "request: keys that it asked for first"},
    {"_left", T_OBJECT_EX, offsetof(TierCalls, left), READONLY,
     "keys of finished requests with open questions"},
    {"_to_ask", T_OBJECT_EX, offsetof(TierCalls, to_ask), READONLY, "keys to ask for at the end of the step"},
    {"_ended", T_OBJECT_EX, offsetof(TierCalls, ended), READONLY,
     "results that get_finished_jobs() returns next"},
    {"_asked", T_PYSSIZET, offsetof(TierCalls, num_asked), READONLY, "jobs that ask which pages are there"},
    {"_jobs", T_PYSSIZET, offsetof(TierCalls, num_moving), READONLY, "jobs that load or store"},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef calls_methods[] = {
    {"_open", (PyCFunction)(void (*)(void))calls_open, METH_VARARGS | METH_KEYWORDS,
     "_open($self, tier, memory, row_bytes, lease_ns, answers, result_type, tells_bytes, key_of)\n--\n\n"
     "memory: a writable buffer of rows of row_bytes. answers: of lookup(), for a hit, a miss, and for \"ask "
     "again\".\nresult_type: called with (job, True), and with tells_bytes also (None, None, bytes)."},
    {"_close", (PyCFunction)calls_close, METH_O,
     "_close($self, close)\n--\n\nDrops the tier, and calls close(), after which nothing may work on the "
     "memory."},
    {"lookup", (PyCFunction)(void (*)(void))calls_lookup, METH_FASTCALL,
     "lookup($self, key, req_context, /)\n--\n\nThe answer of the table. A key that is not there is asked "
     "for at "
     "the end of the step."},
    {"on_schedule_end", (PyCFunction)(void (*)(void))calls_on_schedule_end, METH_FASTCALL,
     "on_schedule_end($self, context=None, /)\n--\n\nAsks for all keys of this step that the table does not "
     "know."},
    {"on_request_finished", (PyCFunction)calls_on_request_finished, METH_O,
     "on_request_finished($self, req_context, /)\n--\n\nForgets the answers that only this request asked "
     "for."},
    {"submit_store", (PyCFunction)calls_submit_store, METH_O,
     "submit_store($self, job_metadata, /)\n--\n\nBegins to store rows of the memory."},
    {"submit_load", (PyCFunction)calls_submit_load, METH_O,
     "submit_load($self, job_metadata, /)\n--\n\nBegins to load rows of the memory."},
    {"get_finished_jobs", (PyCFunction)calls_get_finished_jobs, METH_NOARGS,
     "get_finished_jobs($self, /)\n--\n\nResults of loads and stores that have ended. Takes the answers to "
     "lookups, "
     "too."},
    {"_note_stored", (PyCFunction)calls_note_stored, METH_O,
     "_note_stored($self, keys, /)\n--\n\nMisses of these keys are hits from now on."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot calls_slots[] = {
    {Py_tp_doc,
     "Lookups, jobs and their ends of a tier below a scheduler's cache. A derived class has _fail(job, "
     "keys, good, loads), _refuse(text) and _forget_left()."},
    {Py_tp_new, calls_new},
    {Py_tp_dealloc, calls_dealloc},
    {Py_tp_traverse, calls_traverse},
    {Py_tp_clear, calls_clear},
    {Py_tp_members, calls_members},
    {Py_tp_methods, calls_methods},
    {0, NULL}};
static PyType_Spec calls_spec = {"kvcache._native.TierCalls", sizeof(TierCalls), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, calls_slots};

int kvc_add_tier_calls(PyObject* module) {
  PyObject* const type = PyType_FromSpec(&calls_spec);
  s_req_id = PyUnicode_InternFromString("req_id");
  s_job_id = PyUnicode_InternFromString("job_id");
  s_keys = PyUnicode_InternFromString("keys");
  s_chunk_ids = PyUnicode_InternFromString("chunk_ids");
  s_block_ids = PyUnicode_InternFromString("block_ids");
  return s_req_id && s_job_id && s_keys && s_chunk_ids && s_block_ids && type &&
         PyModule_AddObject(module, "TierCalls", type) == 0;
}
