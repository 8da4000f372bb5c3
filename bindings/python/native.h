// SPDX-License-Identifier: Apache-2.0
// What the hand-written C of the package and the wrapper that SWIG writes have in common.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <kvcache.h>

// typemaps.i. The manager behind its Python object, or NULL with an exception.
kvc_manager* kvc_manager_of(PyObject* object);
// typemaps.i. Raises the exception of a status, with the text of this thread's failed call.
void kvc_raise(kvc_status status);

// tokens.c. items[i] as int32; false with an exception that names the array and the place.
int kvc_read_int32(PyObject* const* items, Py_ssize_t count, const char* name, int32_t* out);
// tokens.c. Token ids as an int32 memoryview: worth it for a list that several calls will take.
PyObject* kvc_pack_tokens(PyObject* tokens);

// dlpack.c. A DLManagedTensor as a capsule; `owner`, unless None, lives as long as the tensor.
PyObject* kvc_dlpack_capsule(void* tensor, PyObject* owner);
// (device type, device number) of a DLManagedTensor, which is ended.
PyObject* kvc_dlpack_device(void* tensor);

// admitted.c, slots.c. Add their types to the module.
int kvc_add_admitted(PyObject* module);
int kvc_add_slots(PyObject* module);
