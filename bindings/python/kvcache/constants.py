# SPDX-License-Identifier: Apache-2.0
"""The enumerations of kvcache.h. Values are those of C; see there for their meaning."""

from enum import IntEnum, IntFlag

from . import _native


def _members(prefix: str) -> "dict[str, int]":
    return {name[len(prefix):]: value for name, value in vars(_native).items() if name.startswith(prefix) and isinstance(value, int)}


Status = IntEnum("Status", {"OK": _native.KVC_OK, **_members("KVC_ERROR_")})
Feature = IntEnum("Feature", _members("KVC_FEATURE_"))
BlockState = IntEnum("BlockState", _members("KVC_BLOCK_"))
EventKind = IntEnum("EventKind", _members("KVC_EVENT_"))
Layout = IntEnum("Layout", _members("KVC_LAYOUT_"))
Plane = IntEnum("Plane", _members("KVC_PLANE_"))
RopeScaling = IntEnum("RopeScaling", _members("KVC_ROPE_"))
RequestFlags = IntFlag("RequestFlags", _members("KVC_REQUEST_"))
StorageFlags = IntFlag("StorageFlags", _members("KVC_STORAGE_"))


class DType(IntEnum):
    """Element types of arrays, views and stored keys and values."""

    INT8 = _native.KVC_INT8
    UINT8 = _native.KVC_UINT8
    INT32 = _native.KVC_INT32
    INT64 = _native.KVC_INT64
    UINT64 = _native.KVC_UINT64
    FLOAT32 = _native.KVC_FLOAT32
    FLOAT16 = _native.KVC_FLOAT16
    BFLOAT16 = _native.KVC_BFLOAT16
    FLOAT8_E4M3 = _native.KVC_FLOAT8_E4M3
    FLOAT8_E5M2 = _native.KVC_FLOAT8_E5M2
    INT4 = _native.KVC_INT4

    @classmethod
    def parse(cls, value: "DType | int | str") -> "DType":
        """From a member, a number, or a name such as "bf16", "bfloat16", "fp8_e4m3", "int8"."""
        if not isinstance(value, str):
            return cls(value)
        name = value.lower().replace("-", "_")
        name = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3", "fp8_e4m3": "float8_e4m3",
                "fp8_e5m2": "float8_e5m2"}.get(name, name)
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(member.name.lower() for member in cls)
            raise ValueError(f"dtype {value!r} is not known; one of {known}") from None
