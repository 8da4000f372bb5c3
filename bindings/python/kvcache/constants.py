# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the C headers, with the values of C. scripts/generate writes enumerations.py, and the members of the class here."""

from enum import IntEnum

from . import _native
from .enumerations import *  # noqa: F403


class DType(IntEnum):
    """Element types of arrays, views and stored keys and values.

    Arrays and views: INT8, UINT8, INT32, INT64, UINT64, FLOAT32, FLOAT16, BFLOAT16. Stored: FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3,
    FLOAT8_E5M2, INT8, INT4."""

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

    @property
    def bits(self) -> int:
        """Bits of one element, without scales: 4 for INT4, 16 for FLOAT16 and BFLOAT16."""
        return _native.kvc_dtype_bits(self)

    @classmethod
    def parse(cls, value: "DType | int | str") -> "DType":
        """Returns the member for a member, a number, or a name such as "bf16", "bfloat16", "fp8_e4m3", "int8".

        Raises ValueError for an unknown name or number, TypeError for anything else."""
        if not isinstance(value, str):
            try:
                return cls(value)
            except ValueError:
                error = ValueError if hasattr(value, "__index__") else TypeError
                raise error(f"dtype is {value!r:.100}; it must be a kvcache.DType, or one of the names {cls._known()}") from None
        name = value.lower().replace("-", "_")
        name = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3", "fp8_e4m3": "float8_e4m3",
                "fp8_e5m2": "float8_e5m2"}.get(name, name)
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"dtype {value!r} is not known; one of {cls._known()}") from None

    @classmethod
    def _known(cls) -> str:
        return ", ".join(member.name.lower() for member in cls)
