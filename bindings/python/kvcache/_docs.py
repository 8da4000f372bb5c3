# SPDX-License-Identifier: Apache-2.0
"""Texts of help() for attributes that have no `def` of their own."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any, Callable, TypeVar

_Class = TypeVar("_Class", bound=type)
_FIELD = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.M)


def described(cls: _Class) -> _Class:
    """Gives each field of a NamedTuple the text that the docstring of the class has for it, in lines like `    name, other name: text`."""
    for names, text in _FIELD.findall(cls.__doc__ or ""):
        for name in names.split(", "):
            getattr(cls, name).__doc__ = re.sub(r"\s+", " ", text)
    return cls


def add_properties(cls: type, holder: str, texts: dict[str, str], types: dict[str, Any] = {}) -> None:
    """Adds properties that read the attribute of the same name of `holder`, an attribute of the object. types: classes of enumerations."""
    for name, text in texts.items():
        get = attrgetter(f"{holder}.{name}")
        setattr(cls, name, property(_member(types[name], get) if name in types else get, doc=text))


def _member(kind: Any, get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: kind(get(self))
