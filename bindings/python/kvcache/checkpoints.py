# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what a manager has cached, with the bytes of its blocks, in a folder or as one stream. kvcache/checkpoint.h is the manual of these
calls.

    manager.save("/path/of/folder", storage, model=b"my-model", weights=b"weights of May")
    # in another process, with a new manager:
    restored = manager.restore("/path/of/folder", storage, model=b"my-model", weights=b"weights of May")

The functions of this module are the same, and have more options.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Union

from . import _native
from ._arrays import grown, np, take_path
from ._docs import described
from .errors import BufferTooSmallError
from .manager import Manager
from .records import CheckpointInfo, CheckpointNeeds
from .request import Namespace, Request
from .storage import Storage

__all__ = ["CheckpointInfo", "CheckpointNeeds", "Restored", "checkpoint_info", "collect_checkpoints", "compact_checkpoint", "list_checkpoints",
           "measure_checkpoint", "remove_checkpoint", "restore_checkpoint", "restore_stream", "save_checkpoint", "save_stream", "validate_checkpoint"]

if TYPE_CHECKING:
    _Path = Union[str, os.PathLike[str]]
    _Storages = Union[Storage, Sequence[Optional[Storage]]]


@described
class Restored(NamedTuple):
    """What restore_checkpoint() made.

    namespaces: the namespaces of the manager, by their old ids.
    requests: with requests=True the waiting requests, by their old ids.
    committed: how many tokens of each had been committed, by their old ids; 0 = it waited.
    info: what was restored.
    """

    namespaces: dict[int, Namespace]
    requests: dict[int, Request]
    committed: dict[int, int]
    info: CheckpointInfo


def take_manager(manager: Any) -> Any:
    """Returns the native manager."""
    if not isinstance(manager, Manager):
        raise TypeError(f"manager is {type(manager).__name__}; it must be a kvcache.Manager")
    if manager._m is None:
        raise ValueError("the manager is closed")
    return manager._m


def take_storages(storages: Any) -> tuple[Storage | None, ...]:
    """Returns the storages of all groups, which are open, or None."""
    if isinstance(storages, Storage):
        storages = (storages,)
    if isinstance(storages, str) or not hasattr(storages, "__iter__"):
        raise TypeError(f"storages is {storages!r:.100}; it must be a kvcache.Storage, or a sequence with one for each group")
    taken = tuple(storages)
    if len(taken) > 64:
        raise ValueError(f"storages has {len(taken)} entries; it must have one for each group")
    for i, storage in enumerate(taken):
        if storage is not None and not isinstance(storage, Storage):
            raise TypeError(f"storages[{i}] is {type(storage).__name__}; it must be a kvcache.Storage, or None")
        if storage is not None and storage._s is None:
            raise ValueError(f"storages[{i}] is closed")
    return taken


def _native_storages(taken: tuple[Storage | None, ...]) -> tuple[Any, ...]:
    return tuple(None if storage is None else storage._s for storage in taken)


def save_checkpoint(manager: Manager, storages: _Storages, folder: _Path, *, model: bytes, weights: bytes, numerics: bytes = b"", num_layers: int = 0,
                    num_heads: int = 0, first_layer: int = 0, first_head: int = 0, codec: str = "none", level: int = 0, full: bool = False,
                    increment: bool = False, requests: bool = False, keep_last: int = 0, sync: bool = True, interval_ns: int = 0, last_ns: int = 0,
                    now_ns: int = 0) -> CheckpointInfo:
    """Saves what a manager has cached, with the bytes of its blocks, and returns what was saved. The manager may serve meanwhile.

    storages: a Storage in host memory for each group; None = its blocks are saved without bytes. folder: made if it is not there; what it is in
    must be. model, weights, numerics, num_layers, num_heads, first_layer, first_head: what computed the blocks, and the part of it that the
    storages have: see Storage.page_info(). codec: "none", or a plug-in: "lz4", "zstd". level: of the codec; 0 = its default.

    full: write all pages, in one file. increment: raise NotFoundError if there is no checkpoint to build on. requests: save the requests too, as
    their tokens. keep_last: remove checkpoints but for the newest so many that can be read; 0 = keep all. sync: wait for the disk; False = a checkpoint survives the
    end of the process, but perhaps not of the machine (it waits all the same before older ones are removed). interval_ns: do nothing, and return
    id 0, from last_ns until now_ns is last_ns + interval_ns; a now_ns before last_ns saves at once, and with an interval_ns now_ns 0 is refused.

    Raises InvalidArgumentError, NotFoundError (increment without a base, the codec, the folder's parent), BusyError (another process writes to the
    folder), LimitError (the disk is full), DeviceError, UnsupportedError (a storage of a device; channel keys), OutOfMemoryError. A failed save
    leaves all earlier checkpoints as they were."""
    m, kept = take_manager(manager), take_storages(storages)
    flags = (_native.KVC_CHECKPOINT_FULL if full else 0) | (_native.KVC_CHECKPOINT_INCREMENT if increment else 0)
    flags |= (_native.KVC_CHECKPOINT_REQUESTS if requests else 0) | (0 if sync else _native.KVC_CHECKPOINT_NO_SYNC)
    info = _native.kvc_checkpoint_info()
    memory = [storage._memory for storage in kept if storage is not None]  # until the end of the call
    _native.kvc_checkpoint_save(m, _native_storages(kept), model, weights, numerics, num_layers, num_heads, first_layer, first_head,
                                take_path("folder", folder), codec, level, flags, keep_last, interval_ns, last_ns, now_ns, info)
    del memory
    return CheckpointInfo.read(info)


def measure_checkpoint(manager: Manager, storages: _Storages, folder: _Path, *, model: bytes, weights: bytes, numerics: bytes = b"",
                       num_layers: int = 0, num_heads: int = 0, first_layer: int = 0, first_head: int = 0, codec: str = "none", full: bool = False,
                       increment: bool = False, requests: bool = False) -> CheckpointNeeds:
    """Tells what save_checkpoint() with the same parameters would write, and how much room the disk has. Writes nothing. Raises what that raises."""
    m, kept = take_manager(manager), take_storages(storages)
    flags = (_native.KVC_CHECKPOINT_FULL if full else 0) | (_native.KVC_CHECKPOINT_INCREMENT if increment else 0)
    flags |= _native.KVC_CHECKPOINT_REQUESTS if requests else 0
    return CheckpointNeeds.of(_native.kvc_checkpoint_measure, m, _native_storages(kept), model, weights, numerics, num_layers, num_heads, first_layer,
                              first_head, take_path("folder", folder), codec, flags)


def save_stream(manager: Manager, storages: _Storages, file: Any, *, model: bytes, weights: bytes, numerics: bytes = b"", num_layers: int = 0,
                num_heads: int = 0, first_layer: int = 0, first_head: int = 0, codec: str = "none", level: int = 0,
                requests: bool = False) -> CheckpointInfo:
    """Saves all that a manager has cached as one stream, and returns what was saved.

    file: a descriptor, or what has a fileno(): a file, a memfd, a pipe, a socket. It is written from its position on, past the buffer of a Python
    file, and stays open. All else as for save_checkpoint(). Raises DeviceError also if nobody reads a pipe."""
    m, kept, fd = take_manager(manager), take_storages(storages), _descriptor(file)
    info = _native.kvc_checkpoint_info()
    memory = [storage._memory for storage in kept if storage is not None]
    _native.kvc_checkpoint_save_stream(m, _native_storages(kept), model, weights, numerics, num_layers, num_heads, first_layer, first_head, fd, codec,
                                       level, _native.KVC_CHECKPOINT_REQUESTS if requests else 0, info)
    del memory
    return CheckpointInfo.read(info)


def restore_stream(manager: Manager, storages: _Storages, file: Any, *, model: bytes, weights: bytes, numerics: bytes = b"", num_layers: int = 0,
                   num_heads: int = 0, first_layer: int = 0, first_head: int = 0, folder: Optional[_Path] = None, requests: bool = False,
                   bytes_elsewhere: bool = False, cache_only: bool = False) -> Restored:
    """Fills a new manager with a checkpoint of save_stream(), after all of it was read and checked.

    file: a descriptor, or what has a fileno(). A file or a memfd is read from its position to its end, and the position stays; others until nothing
    more comes, so who writes must close, or shut down, its end. folder: what can be read once waits there in a file without a name; None = in
    memory, however much comes: give a folder unless you trust who writes. All else as for restore_checkpoint(). Raises CorruptError also if the stream did not come whole."""
    m, kept, fd = take_manager(manager), take_storages(storages), _descriptor(file)
    where, info = "" if folder is None else take_path("folder", folder), _native.kvc_checkpoint_info()
    flags = _restore_flags(requests, bytes_elsewhere, cache_only)
    memory = [storage._memory for storage in kept if storage is not None]
    # There is no second try with a pipe: as many as there can be.
    pairs, request_pairs = np.empty((1 << 16, 2), np.uint64), np.empty((1 << 16 if requests else 0, 4), np.uint64)
    _native.kvc_checkpoint_restore_stream(m, _native_storages(kept), model, weights, numerics, num_layers, num_heads, first_layer, first_head, fd,
                                          where, flags, pairs, request_pairs, info)
    del memory
    return _restored(manager, info, pairs, request_pairs)


def _descriptor(file: Any) -> int:
    fd = file if isinstance(file, int) and not isinstance(file, bool) else file.fileno() if hasattr(file, "fileno") else None
    if fd is None:
        raise TypeError(f"file is {type(file).__name__}; it must be a descriptor, or have a fileno()")
    if not 0 <= fd < 1 << 31:
        raise ValueError(f"file is {fd}; a descriptor is from 0 to 2**31 - 1")
    return int(fd)


def _restore_flags(requests: bool, bytes_elsewhere: bool, cache_only: bool) -> int:
    flags = (_native.KVC_CHECKPOINT_REQUESTS if requests else 0) | (_native.KVC_CHECKPOINT_BYTES_ELSEWHERE if bytes_elsewhere else 0)
    return int(flags | (_native.KVC_CHECKPOINT_CACHE_ONLY if cache_only else 0))


def _restored(manager: Manager, info: Any, pairs: Any, request_pairs: Any) -> Restored:
    count = min(info.num_requests, len(request_pairs))
    found = request_pairs[:count].tolist()
    return Restored({old: Namespace(manager, new) for old, new in pairs[: info.num_namespaces].tolist()},
                    {old: Request(manager, new) for old, new, _, _ in found}, {old: committed for old, _, _, committed in found},
                    CheckpointInfo.read(info))


def restore_checkpoint(manager: Manager, storages: _Storages, folder: _Path, *, model: bytes, weights: bytes, numerics: bytes = b"",
                       num_layers: int = 0, num_heads: int = 0, first_layer: int = 0, first_head: int = 0, id: int = 0, requests: bool = False,
                       bytes_elsewhere: bool = False, cache_only: bool = False) -> Restored:
    """Fills a new manager, and the storages of its groups, with a checkpoint: its hits are those of the manager that was saved. Its number of
    blocks, the layout of its storages and its policy may be others. Nobody else may use the manager meanwhile.

    storages, folder, model and so on: as for save_checkpoint(); model, weights and numerics must be those of the save. id: which checkpoint; 0 = the
    newest. requests: make the requests wait again. bytes_elsewhere: restore groups without a storage too: you bring their bytes before a request is
    admitted, or have them still; all blocks must keep their ids. cache_only: without quotas and registered prompts.

    Raises NotFoundError, CorruptError (a file does not check), InvalidArgumentError (made for something else, or quotas that do not fit), BusyError
    (the manager is not new), UnsupportedError (a group without a storage; a newer format; prefix_cache=False), LimitError, OutOfMemoryError, DeviceError. If it fails the
    manager is as it was; blocks of the storages, all of them free, may have other bytes."""
    m, kept = take_manager(manager), take_storages(storages)
    where, info = take_path("folder", folder), _native.kvc_checkpoint_info()
    flags = _restore_flags(requests, bytes_elsewhere, cache_only)
    memory = [storage._memory for storage in kept if storage is not None]
    rooms = 16, 16
    while True:
        pairs, request_pairs = np.empty((rooms[0], 2), np.uint64), np.empty((rooms[1] if requests else 0, 4), np.uint64)
        try:
            _native.kvc_checkpoint_restore(m, _native_storages(kept), model, weights, numerics, num_layers, num_heads, first_layer, first_head, where,
                                           id, flags, pairs, request_pairs, info)
            break
        except BufferTooSmallError:
            rooms = max(rooms[0], info.num_namespaces), max(rooms[1], info.num_requests)
            if len(pairs) >= rooms[0] and len(request_pairs) >= (rooms[1] if requests else 0):
                raise
    del memory
    return _restored(manager, info, pairs, request_pairs)


def list_checkpoints(folder: _Path) -> list[int]:
    """Returns the ids of the checkpoints of a folder, oldest first. Raises NotFoundError (the folder)."""
    where = take_path("folder", folder)
    found: list[int] = grown(lambda ids: _native.kvc_checkpoint_list(where, ids), np.uint64, 64).tolist()
    return found


def checkpoint_info(folder: _Path, id: int = 0) -> CheckpointInfo:
    """Returns what a checkpoint has, without reading its pages. id: 0 = the newest. Raises NotFoundError, CorruptError, UnsupportedError (a newer
    format)."""
    return CheckpointInfo.of(_native.kvc_checkpoint_read_info, take_path("folder", folder), id)


def validate_checkpoint(folder: _Path, id: int = 0) -> CheckpointInfo:
    """Reads and checks every byte of all files that a checkpoint needs. Raises CorruptError, whose text has the file and the place, and what
    checkpoint_info() raises."""
    return CheckpointInfo.of(_native.kvc_checkpoint_validate, take_path("folder", folder), id)


def remove_checkpoint(folder: _Path, id: int) -> None:
    """Removes a checkpoint, and the files that only it needs. Raises NotFoundError, BusyError."""
    _native.kvc_checkpoint_remove(take_path("folder", folder), id)


def collect_checkpoints(folder: _Path, keep_last: int = 0) -> int:
    """Removes all checkpoints but the newest keep_last (0 = removes none), and then all files that no checkpoint needs: pages, and what saves that
    were cut short have left. Returns the bytes of these files. Raises NotFoundError (the folder), BusyError, DeviceError, and CorruptError or
    UnsupportedError if a manifest cannot be read: no data file is removed while it is there. The text has its name; remove_checkpoint() removes it."""
    removed: int = _native.kvc_checkpoint_collect(take_path("folder", folder), keep_last)
    return removed


def compact_checkpoint(folder: _Path, id: int = 0, *, codec: str = "none", level: int = 0, keep_last: int = 0, sync: bool = True) -> CheckpointInfo:
    """Makes a checkpoint of the same content with all its pages in one file, then removes the one that it was made from, and others as keep_last
    says. Parameters as for save_checkpoint(). No manager is needed. If it fails, nothing is removed."""
    flags = 0 if sync else _native.KVC_CHECKPOINT_NO_SYNC
    return CheckpointInfo.of(_native.kvc_checkpoint_compact, take_path("folder", folder), id, codec, level, flags, keep_last)


Manager._save = save_checkpoint
Manager._restore = restore_checkpoint
