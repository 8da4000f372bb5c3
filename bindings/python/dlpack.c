// SPDX-License-Identifier: Apache-2.0
// DLPack tensors as capsules. The consumer of a capsule calls its deleter; this file does if there is none. A
// tensor over external memory keeps the owner, a Python object, because it may outlive the storage.
#include "native.h"

typedef struct Tensor {  // DLManagedTensor
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void* manager;
  void (*deleter)(struct Tensor*);
} Tensor;

typedef struct Owned {  // `manager` of a tensor with an owner
  Tensor tensor, *inner;
  PyObject* owner;
} Owned;

static void end_owned(Tensor* tensor) {
  Owned* const self = (Owned*)tensor->manager;
  self->inner->deleter(self->inner);
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(self->owner);
  PyGILState_Release(state);
  free(self);
}

PyObject* kvc_dlpack_device(void* tensor) {
  Tensor* const inner = (Tensor*)tensor;
  PyObject* const device = Py_BuildValue("ii", (int)inner->device_type, (int)inner->device_id);
  inner->deleter(inner);
  return device;
}

static void end_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // taken, and renamed
  Tensor* const tensor = (Tensor*)PyCapsule_GetPointer(capsule, "dltensor");
  tensor->deleter(tensor);
}

PyObject* kvc_dlpack_capsule(void* tensor, PyObject* owner) {
  Tensor* const inner = (Tensor*)tensor;
  if (owner == Py_None) return PyCapsule_New(inner, "dltensor", end_capsule);
  Owned* const self = (Owned*)malloc(sizeof *self);
  if (!self) {
    inner->deleter(inner);
    return PyErr_NoMemory();
  }
  Py_INCREF(owner);
  *self = (Owned){*inner, inner, owner};
  self->tensor.manager = self, self->tensor.deleter = end_owned;
  return PyCapsule_New(&self->tensor, "dltensor", end_capsule);
}
