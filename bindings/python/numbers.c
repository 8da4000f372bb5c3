// SPDX-License-Identifier: Apache-2.0
// Numbers and texts of arguments, with exceptions that name the argument, its value and what it must be.
#include <float.h>
#include <math.h>

#include "native.h"

// What an argument or a field stands for: `call` is the C function that takes it, or <struct>_<field>_set.
static const struct {
  const char *call, *name, *wanted;
} kEnumerations[] = {
    {"kvc_storage_config_layout_set", "layout", "a kvcache.Layout, such as kvcache.Layout.LBHNC"},
    {"kvc_storage_config_memory_kind_set", "memory_kind",
     "a kvcache.MemoryKind, such as kvcache.MemoryKind.HOST"},
    {"kvc_storage_config_flags_set", "flags", "kvcache.StorageFlags, such as kvcache.StorageFlags.LATENT"},
    {"kvc_request_config_flags_set", "flags", "kvcache.RequestFlags, such as kvcache.RequestFlags.NO_READ"},
    {"", "plane", "a kvcache.Plane, such as kvcache.Plane.K"},
};

// The limits of the library where the C type of a field holds more. The library checks them; these are for
// numbers that do not even fit into the type.
static const struct {
  const char* call;
  unsigned long long least, most;
} kLimits[] = {
    {"kvc_manager_config_block_size_set", 0, 1024},
    {"kvc_manager_config_num_blocks_set", 1, KVC_MAX_BLOCKS},
    {"kvc_pool_config_num_blocks_set", 1, KVC_MAX_BLOCKS},
    {"kvc_manager_config_max_blocks_set", 0, KVC_MAX_BLOCKS},
    {"kvc_pool_config_max_blocks_set", 0, KVC_MAX_BLOCKS},
    {"kvc_manager_config_max_nodes_set", 0, 2147483646},
    {"kvc_manager_config_max_requests_set", 0, 262143},
    {"kvc_manager_config_max_request_tokens_set", 0, 1ull << 30},
    {"kvc_manager_config_event_capacity_set", 0, 1ull << 24},
    {"kvc_manager_config_watermark_blocks_set", 0, KVC_MAX_BLOCKS - 1},
    {"kvc_manager_config_vocab_size_set", 0, 1ull << 31},
    {"kvc_storage_config_num_layers_set", 1, 65536},
    {"kvc_storage_config_num_heads_set", 1, 65536},
    {"kvc_storage_config_head_dim_set", 1, 8192},
    {"kvc_storage_config_v_head_dim_set", 0, 8192},
    {"kvc_storage_config_block_size_set", 0, 1048576},
    {"kvc_storage_config_alignment_set", 0, 4096},
    {"kvc_storage_config_num_threads_set", 0, 256},
    {"kvc_step_limits_max_frees_set", 0, 1ull << 40},
    {"kvc_step_limits_max_requests_set", 0, 1ull << 40},
    {"kvc_step_limits_max_admissions_set", 0, 1ull << 40},
    {"kvc_step_limits_max_tokens_set", 0, 1ull << 40},
    {"kvc_step_limits_max_prompt_tokens_set", 0, 1ull << 40},
    {"kvc_step_limits_max_rows_set", 0, 1ull << 40},
    {"kvc_step_limits_row_stride_set", 0, 1ull << 40},
    {"kvc_step_limits_max_changes_set", 0, 1ull << 40},
    {"kvc_attention_window_set", 0, 2147483647},
    {"kvc_attention_sinks_set", 0, 2147483647},
};

// Replaces the TypeError of a failed conversion. Other exceptions of the object's own code are left as they
// are.
static int wrong_type(PyObject* object, const char* name, const char* wanted) {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return 0;
  PyErr_Clear();  // repr() runs Python code, which may not run beside an exception
  PyErr_Format(PyExc_TypeError, "%s is %.100R; it must be %s", name, object, wanted);
  return 0;
}

static const char* wanted_integer(const char* call, const char* name) {
  for (size_t i = 0; i < sizeof kEnumerations / sizeof *kEnumerations; ++i) {
    if (strcmp(kEnumerations[i].name, name) == 0 && strstr(call, kEnumerations[i].call))
      return kEnumerations[i].wanted;
  }
  return "an int";
}

static int past_limits(PyObject* number, const char* call, const char* name, size_t size, int is_signed) {
  unsigned long long least = 0, most = ULLONG_MAX >> (64 - 8 * size);
  PyErr_Clear();
  for (size_t i = 0; i < sizeof kLimits / sizeof *kLimits; ++i)
    if (strcmp(kLimits[i].call, call) == 0) least = kLimits[i].least, most = kLimits[i].most;
  int overflow = 0;
  const long long low = PyLong_AsLongLongAndOverflow(number, &overflow);
  const int negative = overflow < 0 || (!overflow && low < 0);
  if (is_signed) {
    const long long highest = (long long)(most >> 1);
    PyErr_Format(PyExc_OverflowError, "%s is %.100R; it must be from %lld to %lld", name, number,
                 -highest - 1, highest);
  } else if (most != ULLONG_MAX >> (64 - 8 * size)) {
    PyErr_Format(PyExc_OverflowError, "%s is %.100R; it must be from %llu to %llu", name, number, least,
                 most);
  } else if (negative) {
    PyErr_Format(PyExc_OverflowError, "%s is %.100R; it must be at least 0", name, number);
  } else {
    PyErr_Format(PyExc_OverflowError, "%s is %.100R; it must be at most %llu", name, number, most);
  }
  return 0;
}

int kvc_get_integer(PyObject* object, const char* call, const char* name, size_t size, int is_signed,
                    unsigned long long* value) {
  PyObject* const number = PyNumber_Index(object);
  if (!number) return wrong_type(object, name, wanted_integer(call, name));
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
  if (!fits) past_limits(number, call, name, size, is_signed);
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
  PyObject* const number = PyBool_Check(object) ? NULL : PyNumber_Index(object);  // True is no id
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
  static const char limits[] =
      "it must be from 0 to 2147483647";  // -1, which some arrays take, is no overflow
  if (!fits && index < 0) PyErr_Format(error, "%s is %.100R; %s", name, number, limits);
  if (!fits && index >= 0) PyErr_Format(error, "%s[%zd] is %.100R; %s", name, index, number, limits);
  Py_DECREF(number);
  return fits;
}
