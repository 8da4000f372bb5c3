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

// NumPy's names of the element type that an argument must have, and of the one that it has.
static const char* wanted_type(const kvc_array_rule* rule) {
  return rule->kind == kBytes      ? "bytes"
         : rule->kind == kUnsigned ? "uint64"
         : rule->size == 4         ? "int32"
                                   : "int64";
}

static void type_name(const Py_buffer* view, char* name, size_t size) {
  static const struct {
    const char *formats, *name;
  } kKinds[] = {{"bhilqn", "int"}, {"BHILQN", "uint"}, {"efdg", "float"}};
  const char* const given = view->format ? view->format : "B";
  const int other_order = *given == (PY_LITTLE_ENDIAN ? '>' : '<') || *given == '!';
  const char* const format = given + (*given && strchr("@=<>!", *given));
  const char* kind = NULL;
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds && *format && !format[1]; ++i)
    if (strchr(kKinds[i].formats, *format)) kind = kKinds[i].name;
  if (kind)
    snprintf(name, size, "%s%d%s", kind, (int)view->itemsize * 8,
             other_order ? " in another byte order" : "");
  else
    snprintf(name, size, "of format '%s'", given);
}

static void wrong_type(const Py_buffer* view, const kvc_array_rule* rule) {
  char name[64];
  type_name(view, name, sizeof name);
  if (rule->kind == kBytes) {
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes; it must be whole records of %zu bytes", rule->name,
                 view->len, rule->size);
  } else {
    PyErr_Format(PyExc_TypeError, "%s is %s; it must be %s: pass %snp.%s)", rule->name, name,
                 wanted_type(rule), rule->writable ? "np.empty(n, " : "x.astype(", wanted_type(rule));
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
    PyErr_Format(PyExc_TypeError, "%s must be %s; this %s gives no buffer: %S", rule->name, wanted_type(rule),
                 Py_TYPE(object)->tp_name, value ? value : Py_None);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  } else {
    PyErr_Restore(type, value, trace);
  }
  return 0;
}

// Copies a sequence. A set of ids has no order.
static int read_sequence(PyObject* object, const kvc_array_rule* rule, kvc_buffer* buffer, size_t* count) {
  const int ordered = !PyAnySet_Check(object) && !PyDict_Check(object);
  const int readable = !rule->writable && rule->kind != kBytes && ordered;
  PyObject* const items = readable ? PySequence_Fast(object, "") : NULL;
  if (!items) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return 0;
    const char* const wanted =
        rule->writable            ? "%s is %s; it must be a writable array of %s"
        : rule->kind != kBytes    ? "%s is %s; it must be an array of %s, or a sequence of int such as a list"
        : PyUnicode_Check(object) ? "%s is %s; it must be %s: pass x.encode()"
                                  : "%s is %s; it must be %s";
    PyErr_Format(PyExc_TypeError, wanted, rule->name, Py_TYPE(object)->tp_name, wanted_type(rule));
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
      const int read = item && kvc_get_integer(item, "", rule->name, rule->size, rule->kind == kSigned,
                                               (unsigned long long*)buffer->copy + i);
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
    return kvc_get_element(object, rule->name, -1, &buffer->single);
  }
  if (!PyObject_CheckBuffer(object)) {
    if (!read_sequence(object, rule, buffer, count)) return 0;
    *data = buffer->copy;
    return 1;
  }
  if (!get_view(object, rule, &buffer->view)) return 0;
  if (scalars && buffer->view.ndim == 0) {  // an integer of NumPy
    *data = &buffer->single, *count = 1;
    return kvc_get_element(object, rule->name, -1, &buffer->single);
  }
  if (!check_buffer(&buffer->view, rule)) return 0;
  *data = buffer->view.buf ? buffer->view.buf : &buffer->single;  // NULL is None
  *count = (size_t)buffer->view.len / rule->size;
  return 1;
}

void kvc_release_array(kvc_buffer* buffer) {
  free(buffer->copy);
  if (buffer->view.obj) PyBuffer_Release(&buffer->view);
}
