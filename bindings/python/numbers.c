// SPDX-License-Identifier: Apache-2.0
// Numbers and texts of arguments, with exceptions that name the argument, its value and what it must be.
#include <float.h>
#include <math.h>

#include "native.h"

// Replaces the TypeError of a failed conversion. Other exceptions of the object's own code are left as they
// are.
static int wrong_type(PyObject* object, const char* name, const char* wanted) {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return 0;
  PyErr_Clear();  // repr() runs Python code, which may not run beside an exception
  PyErr_Format(PyExc_TypeError, "%s is %.100R; it must be %s", name, object, wanted);
  return 0;
}

static int past_limits(PyObject* number, const char* name, size_t size, int is_signed) {
  const unsigned long long all = ULLONG_MAX >> (64 - 8 * size);
  PyErr_Clear();
  if (is_signed) {
    const long long most = (long long)(all >> 1);
    PyErr_Format(PyExc_OverflowError, "%s is %.100R; it must be from %lld to %lld", name, number, -most - 1,
                 most);
  } else {
    PyErr_Format(PyExc_OverflowError, "%s is %.100R; it must be from 0 to %llu", name, number, all);
  }
  return 0;
}

int kvc_get_integer(PyObject* object, const char* name, size_t size, int is_signed,
                    unsigned long long* value) {
  PyObject* const number = PyNumber_Index(object);
  if (!number) return wrong_type(object, name, "an int");
  int fits;
  if (is_signed) {
    const long long given = PyLong_AsLongLong(number);
    const int bits = 64 - 8 * (int)size;
    fits = !PyErr_Occurred() && (long long)((unsigned long long)given << bits) >> bits == given;
    *value = (unsigned long long)given;
  } else {
    *value = PyLong_AsUnsignedLongLong(number);
    fits = !PyErr_Occurred() && *value <= ULLONG_MAX >> (64 - 8 * size);
  }
  if (!fits) past_limits(number, name, size, is_signed);
  Py_DECREF(number);
  return fits;
}

int kvc_get_float(PyObject* object, const char* name, size_t size, double* value) {
  *value = PyFloat_AsDouble(object);
  if (*value == -1 && PyErr_Occurred()) return wrong_type(object, name, "a float");
  if (size == sizeof(double) || !isfinite(*value) || fabs(*value) <= FLT_MAX) return 1;
  PyErr_Format(PyExc_OverflowError, "%s is %.100R, which is no 32-bit float", name, object);
  return 0;
}

int kvc_get_text(PyObject* object, const char* name, const char** text) {
  *text = NULL;
  if (object == Py_None) return 1;
  if (!PyUnicode_Check(object)) return wrong_type(object, name, "a str");
  return (*text = PyUnicode_AsUTF8(object)) != NULL;
}

int kvc_get_element(PyObject* object, const char* name, Py_ssize_t index, int32_t* value) {
  PyObject* const number = PyNumber_Index(object);
  if (!number) {
    char element[96];
    PyOS_snprintf(element, sizeof element, index < 0 ? "%s" : "%s[%zd]", name, index);
    return wrong_type(object, element, "an int");
  }
  int overflow;
  const long long given = PyLong_AsLongLongAndOverflow(number, &overflow);
  const int fits = !overflow && given >= INT32_MIN && given <= INT32_MAX;
  *value = (int32_t)given;
  PyObject* const error = overflow ? PyExc_OverflowError : PyExc_ValueError;
  if (!fits && index < 0) PyErr_Format(error, "%s is %.100R, which is no int32", name, number);
  if (!fits && index >= 0) PyErr_Format(error, "%s[%zd] is %.100R, which is no int32", name, index, number);
  Py_DECREF(number);
  return fits;
}
