// SPDX-License-Identifier: Apache-2.0
// Lists of token ids as int32. Prompts are long lists, so that this loop is what their admission costs
// Python.
#include "native.h"

// Whether it is an int of one digit, as token ids are; then its value.
static inline int small_value(PyObject* item, int32_t* value) {
  if (!PyLong_CheckExact(item)) return 0;
#if PY_VERSION_HEX >= 0x030C0000
  if (!PyUnstable_Long_IsCompact((PyLongObject*)item)) return 0;
  *value = (int32_t)PyUnstable_Long_CompactValue((PyLongObject*)item);
#else
  const Py_ssize_t size = Py_SIZE(item);
  if (size < 0 || size > 1) return 0;
  *value = size == 0 ? 0 : (int32_t)((PyLongObject*)item)->ob_digit[0];
#endif
  return 1;
}

PyObject* kvc_item(PyObject* items, Py_ssize_t i, Py_ssize_t length, const char* name) {
  if (PySequence_Fast_GET_SIZE(items) == length) {
    PyObject* const item = PySequence_Fast_GET_ITEM(items, i);
    Py_INCREF(item);
    return item;
  }
  PyErr_Format(PyExc_ValueError, "%s: reading an item changed the list from %zd to %zd items; pass a copy",
               name, length, PySequence_Fast_GET_SIZE(items));
  return NULL;
}

int kvc_read_int32(PyObject* items, Py_ssize_t first, Py_ssize_t count, const char* name, int32_t* out) {
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(items);
  PyObject** all = PySequence_Fast_ITEMS(items) + first;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (small_value(all[i], &out[i])) continue;
    // Until the end of this round, Python code may run and change the list.
    PyObject* const item = kvc_item(items, first + i, length, name);
    const int read = item && kvc_get_element(item, name, first + i, &out[i]);
    Py_XDECREF(item);
    if (!read) return 0;
    if (i + 1 == count) break;
    PyObject* const next = kvc_item(items, first + i + 1, length, name);
    if (!next) return 0;
    Py_DECREF(next);
    all = PySequence_Fast_ITEMS(items) + first;
  }
  return 1;
}

PyObject* kvc_pack_tokens(PyObject* tokens) {
  if (PyAnySet_Check(tokens) || PyDict_Check(tokens)) {
    PyErr_Format(PyExc_TypeError, "tokens is %s; it must be a sequence of int such as a list",
                 Py_TYPE(tokens)->tp_name);
    return NULL;
  }
  PyObject* items = PySequence_Fast(tokens, "tokens must be a sequence of int");
  if (!items) return NULL;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  PyObject* bytes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int32_t));
  PyObject* view = NULL;
  if (bytes && kvc_read_int32(items, 0, count, "tokens", (int32_t*)PyBytes_AS_STRING(bytes)))
    view = PyMemoryView_FromObject(bytes);
  PyObject* packed = view ? PyObject_CallMethod(view, "cast", "s", "i") : NULL;
  Py_XDECREF(view);
  Py_XDECREF(bytes);
  Py_DECREF(items);
  return packed;
}
