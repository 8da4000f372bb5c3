// SPDX-License-Identifier: Apache-2.0
// Declarations that the hand-written C of the package and the wrapper of SWIG share.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <kvcache.h>

// typemaps.i. The manager or tier behind its Python object, or NULL with an exception.
kvc_manager* kvc_manager_of(PyObject* object);
kvc_tier* kvc_tier_of(PyObject* object);
// typemaps.i. Raises the exception of a status, with the text of this thread's failed call.
void kvc_raise(kvc_status status);

// arrays.c. The requirements on an array argument.
enum { kSigned, kUnsigned, kBytes };  // integers; integers of either sign; any memory of this many bytes
typedef struct kvc_array_rule {
  const char* name;  // of the argument
  int kind, writable;
  size_t size;  // of an element
} kvc_array_rule;

// Holds the array of an argument during a call.
typedef struct kvc_buffer {
  Py_buffer view;
  void* copy;  // of a sequence
  int32_t single;
} kvc_buffer;

// Gets the elements of an argument and their number; None gives NULL and 0. On failure it sets an exception
// and returns false. Call kvc_release_array() in either case.
int kvc_get_array(PyObject* object, const kvc_array_rule* rule, kvc_buffer* buffer, void** data,
                  size_t* count);
void kvc_release_array(kvc_buffer* buffer);

// tokens.c. A new reference to items[i] of the result of PySequence_Fast(). NULL with an exception if its
// length is no longer `length`: Python code that runs while a list is read may change the list.
PyObject* kvc_item(PyObject* items, Py_ssize_t i, Py_ssize_t length, const char* name);
// tokens.c. Reads items[first .. first + count) of the result of PySequence_Fast() as int32. Returns false
// with an exception that names the array and the index.
int kvc_read_int32(PyObject* items, Py_ssize_t first, Py_ssize_t count, const char* name, int32_t* out);
// tokens.c. Token ids as an int32 memoryview, for a list that several calls take.
PyObject* kvc_pack_tokens(PyObject* tokens);

// numbers.c. Read an argument or a field of `size` bytes. Return false with an exception that gives its name,
// its value and what it must be. call: the C function of the argument, or <struct>_<field>_set.
int kvc_get_integer(PyObject* object, const char* call, const char* name, size_t size, int is_signed,
                    unsigned long long* value);
int kvc_get_float(PyObject* object, const char* name, size_t size, double* value);
int kvc_get_text(PyObject* object, const char* name, const char** text);
// An element of an array, as an int32; its exception has the index.
int kvc_get_element(PyObject* object, const char* name, Py_ssize_t index, int32_t* value);

// dlpack.c. A DLManagedTensor as a capsule; `owner`, unless None, lives as long as the tensor.
PyObject* kvc_dlpack_capsule(void* tensor, PyObject* owner);
// (device type, device number) of a DLManagedTensor, whose deleter is called.
PyObject* kvc_dlpack_device(void* tensor);

// kept.c. Memory of a scheduler, which its config borrows, and the last pressure that the scheduler told.
// What is released after kvc_kept_end stays until the object is deleted.
typedef struct kvc_kept kvc_kept;
kvc_kept* new_kvc_kept(void);
void delete_kvc_kept(kvc_kept* kept);
void kvc_kept_end(kvc_kept* kept);
void kvc_kept_lend(kvc_kept* kept, kvc_scheduler_config* config);
uint64_t kvc_kept_num_changes(const kvc_kept* kept);
int kvc_kept_high(const kvc_kept* kept);
double kvc_kept_usage(const kvc_kept* kept);

// admitted.c, slots.c, events.c, tier_calls.c. Add the types and functions to the module.
int kvc_add_admitted(PyObject* module);
int kvc_add_slots(PyObject* module);
int kvc_add_events(PyObject* module);
int kvc_add_tier_calls(PyObject* module);
