# SPDX-License-Identifier: Apache-2.0
"""Structs that the library fills, as named tuples with the fields of C."""

from __future__ import annotations

import collections
from typing import Any


def record(name: str, struct: Any, doc: str) -> Any:
    """A named tuple with the fields of a struct; `read` makes one from a filled struct."""
    fields = sorted(field for field, kind in vars(struct).items() if type(kind).__name__ == "getset_descriptor"
                    and not field.startswith("_") and field not in ("this", "thisown"))
    result = collections.namedtuple(name, fields)
    result.__doc__ = doc
    result.read = classmethod(lambda cls, filled: cls._make(getattr(filled, field) for field in fields))
    return result
