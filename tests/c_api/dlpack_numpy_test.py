#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plane of a storage as a NumPy array, by numpy.from_dlpack: no copy, and alive past its storage. Skipped without NumPy."""
import ctypes
import gc
import os
import sys

try:
    import numpy
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)
if os.environ.get("KVC_SANITIZE"):
    print("skipped: the library is built with a sanitizer, whose run time would have to come before the interpreter's")
    sys.exit(77)
library = ctypes.CDLL(os.environ["KVC_LIBRARY"])

LAYERS, HEADS, DIM, BLOCK_SIZE, BLOCKS = 2, 3, 8, 4, 5
FLOAT32, PLANE_K = 6, 0


class Config(ctypes.Structure):  # kvc_storage_config, as far as it is needed; the library takes the rest as 0
    _fields_ = [("struct_size", ctypes.c_size_t), ("num_blocks", ctypes.c_uint64)] + [
        (name, ctypes.c_uint32) for name in (
            "num_layers", "num_heads", "head_dim", "v_head_dim", "block_size", "dtype", "layout", "flags", "scale_group",
            "alignment", "num_threads", "memory_kind")] + [("rest", ctypes.c_void_p * 16)]


class Rows(ctypes.Structure):  # kvc_rows
    _fields_ = [("struct_size", ctypes.c_size_t), ("k", ctypes.c_void_p), ("v", ctypes.c_void_p),
                ("num_tokens", ctypes.c_size_t), ("first_layer", ctypes.c_uint32), ("num_layers", ctypes.c_uint32),
                ("dtype", ctypes.c_int32), ("reserved", ctypes.c_uint32), ("strides", ctypes.c_int64 * 6),
                ("slots", ctypes.c_void_p), ("block_table", ctypes.c_void_p), ("block_table_size", ctypes.c_size_t),
                ("first_token", ctypes.c_uint64), ("rope", ctypes.c_void_p * 4)]


class Plane:
    """What numpy.from_dlpack asks."""

    def __init__(self, storage, plane, layer):
        self.tensor = ctypes.c_void_p()
        check(library.kvc_storage_export_dlpack(storage, plane, layer, ctypes.byref(self.tensor)))

    def __dlpack__(self, stream=None):
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new_capsule(self.tensor, b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0


def check(status):
    if status != 0:
        library.kvc_last_error.restype = ctypes.c_char_p
        raise SystemExit(f"status {status}: {library.kvc_last_error().decode()}")


config = Config(struct_size=ctypes.sizeof(Config), num_blocks=BLOCKS, num_layers=LAYERS, num_heads=HEADS, head_dim=DIM,
                block_size=BLOCK_SIZE, dtype=FLOAT32)
storage = ctypes.c_void_p()
check(library.kvc_storage_create(ctypes.byref(config), ctypes.byref(storage)))
array = numpy.from_dlpack(Plane(storage, PLANE_K, 1))
assert array.shape == (BLOCKS, HEADS, BLOCK_SIZE, DIM) and array.dtype == numpy.float32, (array.shape, array.dtype)
assert not array.any()

k = numpy.arange(LAYERS * 2 * HEADS * DIM, dtype=numpy.float32).reshape(LAYERS, 2, HEADS, DIM) + 1
slots = numpy.array([3 * BLOCK_SIZE + 2, 1], dtype=numpy.int64)
rows = Rows(struct_size=ctypes.sizeof(Rows), k=k.ctypes.data, v=k.ctypes.data, num_tokens=2, num_layers=LAYERS,
            slots=slots.ctypes.data)
check(library.kvc_storage_store(storage, ctypes.byref(rows), None))
assert (array[3, :, 2] == k[1, 0]).all() and (array[0, :, 1] == k[1, 1]).all()
assert numpy.count_nonzero(array) == 2 * HEADS * DIM

library.kvc_storage_destroy(storage)
gc.collect()
assert (array[3, :, 2] == k[1, 0]).all(), "the array keeps the memory"
del array
gc.collect()
print("ok")
