# SPDX-License-Identifier: Apache-2.0
"""All calls, and which there must be: every public callable of the package. One that is missing here, or never succeeds, fails the fuzz."""

import dataclasses
import enum
import inspect

import calls_checkpoints  # noqa: F401
import calls_functions  # noqa: F401
import calls_index  # noqa: F401
import calls_manager  # noqa: F401
import calls_scheduler  # noqa: F401
import calls_speculation  # noqa: F401
import calls_step  # noqa: F401
import calls_storage  # noqa: F401
import calls_tiers  # noqa: F401
import kvcache
from kvcache import errors, speculation
from kvcache.storage import DLPack
from derived import derived
from world import CALLS, World, Wrong

__all__ = ["CALLS", "EXPECTED", "World", "Wrong", "public"]


def public():
    """Names of all callables and properties of the package that could go wrong: not of enumerations, tuples, exceptions and results."""
    names, more = [], [DLPack]
    for name, value in [(name, getattr(module, name)) for module in (kvcache, speculation) for name in module.__all__]:
        if not callable(value):
            continue
        if not inspect.isclass(value):
            names.append(name)
        elif not issubclass(value, (enum.Enum, tuple, BaseException)) and not dataclasses.is_dataclass(value):
            more.append(value)
    for cls in more:
        if cls not in (kvcache.Request, kvcache.Pin, kvcache.Namespace, kvcache.Event, kvcache.Prefixes, kvcache.Memory, kvcache.Plan, DLPack):  # which a Manager, a Storage or a Model makes
            names.append(cls.__name__)
        for base in cls.__mro__[:-1]:
            for member, value in vars(base).items():
                is_ours = not member.startswith("_") or member in ("__iter__", "__dlpack__", "__dlpack_device__")
                if is_ours and (callable(value) or isinstance(value, (property, classmethod, staticmethod))) and not is_field(value):
                    names.append(f"{cls.__name__}.{member}")
    return set(names)


def is_field(value):
    """A property that reads a field: Storage.fields, Model.fields, Step.run and Step.num_failed use them all."""
    return isinstance(value, property) and (not inspect.isfunction(value.fget) or value.fget.__name__ == "<lambda>")


# What a call may raise.
EXPECTED = (errors.KvCacheError, TypeError, ValueError, OverflowError, MemoryError)

CALLS.update({name: made for name in public() - set(CALLS) if (made := derived(name))})
