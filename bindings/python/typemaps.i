// SPDX-License-Identifier: Apache-2.0
// What the declarations of kvcache.i mean in Python. Arrays come by the buffer protocol (NumPy, array.array, memoryview).
// arrays.c checks them; a call holds them until it returns, and never copies them. Plain sequences and single token ids
// are copied. The last reference destroys an object: a call in another thread holds one, so close() never frees memory
// that the call uses. Calls that hash, match or compute release the interpreter lock. The others take less time than
// releasing it.

%{
#include "native.h"

// The exception of a status, with the text of this thread's failed call, which is copied before anything else runs: an import may call the library.
// The classes are Python's: kvcache/errors.py.
void kvc_raise(kvc_status status) {
  PyObject* text = PyUnicode_FromString(kvc_last_error());
  PyObject* module = text ? PyImport_ImportModule("kvcache.errors") : NULL;
  PyObject* error = module ? PyObject_CallMethod(module, "from_status", "iO", (int)status, text) : NULL;
  if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(module);
  Py_XDECREF(text);
}

// One result is itself, several are a tuple.
static PyObject* kvc_add_result(PyObject* result, PyObject* value) {
  if (!value || !result) {
    Py_XDECREF(result);
    Py_XDECREF(value);
    return NULL;
  }
  if (result == Py_None) {
    Py_DECREF(result);
    return value;
  }
  PyObject* all = PyTuple_Check(result) ? result : PyTuple_Pack(1, result);
  if (all != result) Py_DECREF(result);
  PyObject* last = all ? PyTuple_Pack(1, value) : NULL;
  PyObject* sum = last ? PySequence_Concat(all, last) : NULL;
  Py_XDECREF(last);
  Py_XDECREF(all);
  Py_DECREF(value);
  return sum;
}
%}

// ---- lock of the interpreter: released by long calls alone, which src/api/calls.def names ----------------------------------------------------------

%nothread;
%define KVC_LONG_CALL(name)
%thread name;
%enddef
KVC_LONG_CALL(storage_adopt)

// ---- errors and results -------------------------------------------------------------------------------------------

%typemap(out) kvc_status {
  if ($1 != KVC_OK) {
    kvc_raise($1);
    SWIG_fail;
  }
  $result = Py_None;
  Py_INCREF(Py_None);
}

// A step returns None, or if items failed the text of the first of them and the counts of items, as
// kvcache.step.Step.errors reads them.
%typemap(out) kvc_status manager_step {
  if ($1 != KVC_OK) {
    kvc_raise($1);
    SWIG_fail;
  }
  if (step_num_failed(arg2)) {
    $result = Py_BuildValue("(sKKKKK)", kvc_last_error(), (unsigned long long)arg2->num_frees, (unsigned long long)arg2->num_preempts,
                            (unsigned long long)arg2->num_truncates, (unsigned long long)arg2->num_requests,
                            (unsigned long long)arg2->num_admissions);
  } else {
    $result = Py_None;
    Py_INCREF(Py_None);
  }
}

// Numbers are whatever is one to Python, NumPy's included. The exception names the argument or field, its value and the limits.
%define KVC_PYTHON_INTEGER(TYPE)
%typemap(in) TYPE {
  unsigned long long value;
  if (!kvc_get_integer($input, "$symname", "$1_name", sizeof($1_ltype), ($1_ltype)-1 < ($1_ltype)0, &value)) SWIG_fail;
  $1 = ($1_ltype)value;
}
%enddef
KVC_PYTHON_INTEGER(uint64_t)
KVC_PYTHON_INTEGER(int64_t)
KVC_PYTHON_INTEGER(size_t)
KVC_PYTHON_INTEGER(uint32_t)
KVC_PYTHON_INTEGER(int32_t)
%typemap(in) float, double {
  double value;
  if (!kvc_get_float($input, "$1_name", sizeof($1_ltype), &value)) SWIG_fail;
  $1 = ($1_ltype)value;
}

// Names of devices, backends, files and presets. The text lives as long as the caller's object.
%typemap(in) const char *device, const char *name, const char *path, const char *url, const char *folder, const char *codec, const char *topic,
    const char *medium, const char *hash_seed, const char *lora_name, const char *lora_path, const char *cache_salt {
  if (!kvc_get_text($input, "$1_name", (const char **)&$1)) SWIG_fail;
}
%typemap(freearg) const char *device, const char *name, const char *path, const char *url, const char *folder, const char *codec, const char *topic,
    const char *medium, const char *hash_seed, const char *lora_name, const char *lora_path, const char *cache_salt ""

%define KVC_RESULT(TYPE, NAME)
%typemap(in, numinputs=0) TYPE *NAME (TYPE value) "value = 0; $1 = &value;"
%typemap(argout) TYPE *NAME {
  if (!($result = kvc_add_result($result, PyLong_FromUnsignedLongLong(*$1)))) SWIG_fail;
}
%enddef

// ---- arrays ---------------------------------------------------------------------------------------------------------

%ignore KVC_PYTHON_INT32;
%ignore KVC_PYTHON_INT64;
%ignore KVC_PYTHON_UINT64;
%ignore KVC_PYTHON_BYTES;
#define KVC_PYTHON_BYTES kBytes
#define KVC_PYTHON_INT32 kSigned
#define KVC_PYTHON_INT64 kSigned
#define KVC_PYTHON_UINT64 kUnsigned

%define KVC_PYTHON_ARRAY(QUALIFIED, TYPE, KIND, WRITABLE, POINTER, COUNT)
%typemap(in) (QUALIFIED *POINTER, size_t COUNT) (kvc_buffer buffer = {{0}}) {
  static const kvc_array_rule rule = {"POINTER", KIND, WRITABLE, sizeof(TYPE)};
  void* data;
  if (!kvc_get_array($input, &rule, &buffer, &data, &$2)) SWIG_fail;
  $1 = ($1_ltype)data;
}
%typemap(freearg) (QUALIFIED *POINTER, size_t COUNT) "kvc_release_array(&buffer$argnum);"
%enddef
%define KVC_IN(TYPE, ELEMENT, POINTER, COUNT)
KVC_PYTHON_ARRAY(const TYPE, TYPE, KVC_PYTHON_ ## ELEMENT, 0, POINTER, COUNT)
%enddef
%define KVC_OUT(TYPE, ELEMENT, POINTER, COUNT)
KVC_PYTHON_ARRAY(TYPE, TYPE, KVC_PYTHON_ ## ELEMENT, 1, POINTER, COUNT)
%enddef
%define KVC_IN_RECORDS(TYPE, POINTER, COUNT)
KVC_PYTHON_ARRAY(const TYPE, TYPE, kBytes, 0, POINTER, COUNT)
%enddef
%define KVC_OUT_RECORDS(TYPE, POINTER, COUNT)
KVC_PYTHON_ARRAY(TYPE, TYPE, kBytes, 1, POINTER, COUNT)
%enddef

// Arrays without which a call has no meaning.
%define KVC_PYTHON_REQUIRED(TYPE, POINTER, COUNT)
%typemap(check) (const TYPE *POINTER, size_t COUNT) {
  if (!$1) {
    PyErr_SetString(PyExc_TypeError, "POINTER is None; it must be an array or a sequence of int");
    SWIG_fail;
  }
}
%enddef
KVC_PYTHON_REQUIRED(int32_t, tokens, num_tokens)
KVC_PYTHON_REQUIRED(int32_t, blocks, num_blocks)
KVC_PYTHON_REQUIRED(uint64_t, requests, num_requests)

%define KVC_PYTHON_POINTER(QUALIFIED, TYPE, KIND, WRITABLE, POINTER)
%typemap(in) QUALIFIED *POINTER (kvc_buffer buffer = {{0}}) {
  static const kvc_array_rule rule = {"POINTER", KIND, WRITABLE, sizeof(TYPE)};
  void* data;
  size_t count;
  if (!kvc_get_array($input, &rule, &buffer, &data, &count)) SWIG_fail;
  $1 = ($1_ltype)data;
}
%typemap(freearg) QUALIFIED *POINTER "kvc_release_array(&buffer$argnum);"
%enddef
%define KVC_IN_ARRAY(TYPE, ELEMENT, POINTER)
KVC_PYTHON_POINTER(const TYPE, TYPE, KVC_PYTHON_ ## ELEMENT, 0, POINTER)
%enddef
%define KVC_OUT_ARRAY(TYPE, ELEMENT, POINTER)
KVC_PYTHON_POINTER(TYPE, TYPE, KVC_PYTHON_ ## ELEMENT, 1, POINTER)
%enddef

// ---- objects ----------------------------------------------------------------------------------------------------------

// Number of objects that exist, to find leaks.
%{
static long kvc_num_objects = 0;

kvc_manager* kvc_manager_of(PyObject* object) {
  void* manager = NULL;
  if (SWIG_ConvertPtr(object, &manager, SWIGTYPE_p_kvc_manager, 0) < 0 || !manager) {
    PyErr_SetString(PyExc_ValueError, "the manager is closed");
    return NULL;
  }
  return (kvc_manager*)manager;
}

kvc_tier* kvc_tier_of(PyObject* object) {
  void* tier = NULL;
  if (SWIG_ConvertPtr(object, &tier, SWIGTYPE_p_kvc_tier, 0) < 0 || !tier) {
    PyErr_SetString(PyExc_ValueError, "the tier is closed");
    return NULL;
  }
  return (kvc_tier*)tier;
}
%}
%init %{
  if (!kvc_add_admitted(m) || !kvc_add_slots(m) || !kvc_add_events(m) || !kvc_add_tier_calls(m)) return NULL;
%}
%inline %{
static long kvc_live_objects(void) { return kvc_num_objects; }
%}
PyObject* kvc_pack_tokens(PyObject* tokens);

%nodefaultctor;
%nodefaultdtor;
struct kvc_manager {};
struct kvc_storage {};
struct kvc_stream {};
struct kvc_workload {};
struct kvc_sizer {};
struct kvc_tier {};
struct kvc_draft {};
struct kvc_offload {};
struct kvc_publisher {};
struct kvc_scheduler {};
struct kvc_index {};
struct kvc_kept {};
struct kvc_stream_event {};
%clearnodefaultctor;
%clearnodefaultdtor;

%define KVC_OBJECT(TYPE, NAME)
%ignore TYPE ## _destroy;
%extend TYPE {
  ~TYPE() {
    --kvc_num_objects;
    Py_BEGIN_ALLOW_THREADS  // waits for the work of a stream
    TYPE ## _destroy($self);
    Py_END_ALLOW_THREADS
  }
}
%typemap(in, numinputs=0) TYPE **NAME (TYPE *object) "object = NULL; $1 = &object;"
%typemap(argout) TYPE **NAME {
  ++kvc_num_objects;
  if (!($result = kvc_add_result($result, SWIG_NewPointerObj(*$1, $*1_descriptor, SWIG_POINTER_OWN)))) SWIG_fail;
}
%typemap(check) TYPE * {
  if (!$1) {
    PyErr_SetString(PyExc_ValueError, "the NAME is closed");
    SWIG_fail;
  }
}
%enddef

%typemap(check) kvc_offload *optional_offload ""  // None = there is none

// A stream of a device's runtime is an address.
%typemap(in) void *handle {
  $1 = $input == Py_None ? NULL : PyLong_AsVoidPtr($input);
  if (PyErr_Occurred()) SWIG_fail;
}
%typemap(in, numinputs=0) void **handle (void *value) "value = NULL; $1 = &value;"
%typemap(argout) void **handle {
  if (!($result = kvc_add_result($result, PyLong_FromVoidPtr(*$1)))) SWIG_fail;
}

// A view is (address, element type, shape, byte strides).
%typemap(in, numinputs=0) kvc_view *view (kvc_view value) "memset(&value, 0, sizeof value); $1 = &value;"
%typemap(argout) kvc_view *view {
  PyObject* shape = PyTuple_New($1->ndim);
  PyObject* strides = PyTuple_New($1->ndim);
  for (int32_t i = 0; shape && strides && i < $1->ndim; ++i) {
    PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong($1->shape[i]));
    PyTuple_SET_ITEM(strides, i, PyLong_FromLongLong($1->strides[i]));
  }
  PyObject* address = PyLong_FromVoidPtr($1->data);
  if (!($result = kvc_add_result($result, Py_BuildValue("(NiNN)", address, (int)$1->dtype, shape, strides)))) SWIG_fail;
}
// No stream: the work is done on return.
%typemap(check) kvc_stream *stream ""

// A DLPack tensor as a capsule that keeps the owner of external memory.
%rename(kvc_storage_export_dlpack) export_dlpack;
%inline %{
static PyObject *export_dlpack(kvc_storage *s, int32_t plane, uint32_t layer, PyObject *owner) {
  void *tensor;
  const kvc_status status = kvc_storage_export_dlpack(s, plane, layer, &tensor);
  if (status == KVC_OK) return kvc_dlpack_capsule(tensor, owner);
  kvc_raise(status);
  return NULL;
}
static PyObject *kvc_storage_dlpack_device(kvc_storage *s, int32_t plane, uint32_t layer) {
  void *tensor;
  const kvc_status status = kvc_storage_export_dlpack(s, plane, layer, &tensor);
  if (status == KVC_OK) return kvc_dlpack_device(tensor);
  kvc_raise(status);
  return NULL;
}
%}

// Several objects, such as the storages of all groups: a tuple, in which a missing one is None. The hand-written layer makes it.
%define KVC_OBJECTS(TYPE, POINTER, COUNT)
%typemap(in) (TYPE *const *POINTER, size_t COUNT) (TYPE *some[64]) {
  $1 = some;
  $2 = 0;
  if (!PyTuple_Check($input) || PyTuple_GET_SIZE($input) > 64) {
    PyErr_SetString(PyExc_TypeError, "POINTER must be a tuple of at most 64 objects");
    SWIG_fail;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE($input); ++i) {
    void *object = NULL;
    if (SWIG_ConvertPtr(PyTuple_GET_ITEM($input, i), &object, $descriptor(TYPE *), 0) < 0) {
      PyErr_Format(PyExc_TypeError, "POINTER[%zd] is %.100s; it must be an object of its kind", i, Py_TYPE(PyTuple_GET_ITEM($input, i))->tp_name);
      SWIG_fail;
    }
    some[$2++] = (TYPE *)object;
  }
}
%enddef

// The memory of a scheduler (kept.c).
%extend kvc_kept {
  kvc_kept();
  ~kvc_kept();
  void end();
  void lend(kvc_scheduler_config *config);
  uint64_t num_changes();
  int high();
  double usage();
}

// Digests in structs.
%typemap(out) uint8_t [32] "$result = PyBytes_FromStringAndSize((const char *)$1, 32);"

%include "../structs.i"
