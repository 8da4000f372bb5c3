// SPDX-License-Identifier: Apache-2.0
// Arrays of ids for native functions: one dimension, exactly the element type, used in place. A sequence of
// integers is copied. kvcache.i gives the type of each argument. kvcache/_arrays.py has checked arrays with
// shapes before; they come here as bytes.
#include <stdio.h>
#include <string.h>

#include "native.h"

static int has_type(const Py_buffer* view, const kvc_array_rule* rule) {
  const char* format = view->format ? view->format : "B";  // which is what NULL stands for
  if (rule->kind == kBytes) return (size_t)view->len % rule->size == 0;
  if (*format == '@' || *format == '=' || *format == (PY_LITTLE_ENDIAN ? '<' : '>')) ++format;
  if (!*format || format[1] || (size_t)view->itemsize != rule->size) return 0;
  return strchr(rule->kind == kSigned ? "ilq" : "ILQilq", *format) != NULL;
}

static void wrong_type(const Py_buffer* view, const kvc_array_rule* rule) {
  char numpy_type[32];  // int32_t is int32 there
  snprintf(numpy_type, sizeof numpy_type, "%.*s", (int)strlen(rule->type) - 2, rule->type);
  if (rule->kind == kBytes) {
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes; it must be whole records of %zu bytes (%s)", rule->name,
                 view->len, rule->size, rule->type);
  } else {
    PyErr_Format(PyExc_TypeError,
                 "%s has elements of format '%s', %zd bytes each; it must be an array of %s: pass %snp.%s)",
                 rule->name, view->format ? view->format : "B", view->itemsize, rule->type,
                 rule->writable ? "np.empty(n, " : "x.astype(", numpy_type);
  }
}

// Whether the library may read, or write, the memory as `rule` says. If not, sets an exception with the
// remedy.
static int check_buffer(const Py_buffer* view, const kvc_array_rule* rule) {
  if (!has_type(view, rule)) {
    wrong_type(view, rule);
  } else if (rule->kind != kBytes && view->ndim != 1) {
    PyErr_Format(PyExc_ValueError, "%s has %d dimensions; it must have 1: pass x.reshape(-1)", rule->name,
                 view->ndim);
  } else if (!PyBuffer_IsContiguous(view, 'C')) {
    PyErr_Format(PyExc_ValueError, "%s is not contiguous; it must be: pass %s", rule->name,
                 rule->writable ? "a new array, and copy from that" : "np.ascontiguousarray(x)");
  } else if (rule->kind != kBytes && (uintptr_t)view->buf % rule->size) {
    PyErr_Format(PyExc_ValueError, "%s begins at an address that is no multiple of %zu: pass %s", rule->name,
                 rule->size, rule->writable ? "a new array, and copy from that" : "x.copy()");
  } else if (rule->writable && view->readonly) {
    PyErr_Format(PyExc_ValueError, "%s is read-only; it must be writable: pass a new array", rule->name);
  } else {
    return 1;
  }
  return 0;
}

// Gets the buffer of an argument. If the object gives none, the exception names the argument.
static int get_view(PyObject* object, const kvc_array_rule* rule, Py_buffer* view) {
  if (PyObject_GetBuffer(object, view, PyBUF_FORMAT | PyBUF_STRIDES) == 0) return 1;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyErr_GivenExceptionMatches(type, PyExc_BufferError) ||
      PyErr_GivenExceptionMatches(type, PyExc_ValueError)) {
    PyErr_Format(PyExc_TypeError, "%s must be an array of %s; this %s gives no buffer: %S", rule->name,
                 rule->type, Py_TYPE(object)->tp_name, value ? value : Py_None);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  } else {
    PyErr_Restore(type, value, trace);
  }
  return 0;
}

static int read_single(PyObject* object, const kvc_array_rule* rule, kvc_buffer* buffer) {
  PyObject* const number = PyNumber_Index(object);
  const long long value = number ? PyLong_AsLongLong(number) : 0;
  Py_XDECREF(number);
  if (value == -1 && PyErr_Occurred()) return 0;
  if (value < INT32_MIN || value > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%s: %lld is not an int32", rule->name, value);
    return 0;
  }
  buffer->single = (int32_t)value;
  return 1;
}

static int read_int64(PyObject* item, const kvc_array_rule* rule, int64_t* out) {
  PyObject* const number = PyNumber_Index(item);
  if (!number) return 0;
  if (rule->kind == kUnsigned) {
    *out = (int64_t)PyLong_AsUnsignedLongLong(number);
  } else {
    *out = PyLong_AsLongLong(number);
  }
  Py_DECREF(number);
  return !PyErr_Occurred();
}

// Copies a sequence.
static int read_sequence(PyObject* object, const kvc_array_rule* rule, kvc_buffer* buffer, size_t* count) {
  PyObject* const items = rule->writable || rule->kind == kBytes ? NULL : PySequence_Fast(object, "");
  if (!items) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return 0;
    PyErr_Format(PyExc_TypeError, "%s must be %s of %s, not %s", rule->name,
                 rule->writable ? "a writable array" : "an array or a sequence", rule->type,
                 Py_TYPE(object)->tp_name);
    return 0;
  }
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(items);
  int done = 0;
  buffer->copy = malloc(length ? (size_t)length * rule->size : 1);
  if (!buffer->copy) {
    PyErr_NoMemory();
  } else if (rule->size == sizeof(int32_t)) {
    done = kvc_read_int32(items, 0, length, rule->name, (int32_t*)buffer->copy);
  } else {
    Py_ssize_t i = 0;
    for (; i < length; ++i) {
      PyObject* const item = kvc_item(items, i, length, rule->name);
      const int read = item && read_int64(item, rule, (int64_t*)buffer->copy + i);
      Py_XDECREF(item);
      if (!read) break;
    }
    done = i == length;
  }
  Py_DECREF(items);
  *count = (size_t)length;
  return done;
}

int kvc_get_array(PyObject* object, const kvc_array_rule* rule, kvc_buffer* buffer, void** data,
                  size_t* count) {
  const int scalars = rule->size == sizeof(int32_t) && rule->kind != kBytes && !rule->writable;
  *data = NULL, *count = 0;
  if (object == Py_None) return 1;
  if (scalars && PyLong_Check(object)) {
    *data = &buffer->single, *count = 1;
    return read_single(object, rule, buffer);
  }
  if (!PyObject_CheckBuffer(object)) {
    if (!read_sequence(object, rule, buffer, count)) return 0;
    *data = buffer->copy;
    return 1;
  }
  if (!get_view(object, rule, &buffer->view)) return 0;
  if (scalars && buffer->view.ndim == 0) {  // an integer of NumPy
    *data = &buffer->single, *count = 1;
    return read_single(object, rule, buffer);
  }
  if (!check_buffer(&buffer->view, rule)) return 0;
  *data = buffer->view.buf, *count = (size_t)buffer->view.len / rule->size;
  return 1;
}

void kvc_release_array(kvc_buffer* buffer) {
  free(buffer->copy);
  if (buffer->view.obj) PyBuffer_Release(&buffer->view);
}
