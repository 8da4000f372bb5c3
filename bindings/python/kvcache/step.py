# SPDX-License-Identifier: Apache-2.0
"""One engine step for a whole batch, in NumPy arrays that the library owns and keeps from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence

from . import _native
from ._arrays import view
from ._docs import add_properties
from .constants import Status, StepFlags
from .errors import KvCacheError, from_status, meaning
from .manager import Manager
from .request import RequestOptions, namespace_id, pack_keys, request_config

if TYPE_CHECKING:
    import numpy

    from .request import ExtraKey

_ARRAYS = {name[len("KVC_STEP_"):].lower(): value for name, value in vars(_native).items()
           if name.startswith("KVC_STEP_") and name[len("KVC_STEP_"):] not in StepFlags.__members__}

_COUNTS = frozenset(("num_requests", "num_admissions", "num_frees", "num_preempts", "num_truncates", "flags", "fill_id", "retired_step", "now_ns"))
_OPTIONAL = ("committed", "commit_offsets", "extend_offsets", "extend_tokens", "admit_requests", "admit_offsets", "rows", "block_tables", "slots",
             "changes")
# The switches that must be on for an array to exist.
_SWITCHES: dict[str, tuple[str, ...]] = {name: (name,) for name in _OPTIONAL}
_SWITCHES.update(commit_tokens=("commit_offsets",), extend_tokens=("extend_offsets", "extend_tokens"), admit_tokens=("admit_offsets",))
_PRIVATE = ("_manager", "_step", "_memory", "_arrays", "_used", "_failed")
_ITEMS = ("frees", "preempts", "truncates", "requests", "admissions")  # in the order of status
_TEXTS = {
    "frees": "uint64 [max_frees]: ids of requests to free.",
    "preempts": "uint64 [max_frees]: ids of requests to preempt.",
    "truncates": "uint64 [max_frees]: ids of requests to truncate.",
    "truncate_lengths": "uint64 [max_frees]: tokens that each of `truncates` keeps, an absolute count.",
    "requests": "uint64 [max_requests]: ids of the running requests, each once.",
    "committed": "uint64 [max_requests]: tokens of each request whose KV is written, an absolute count.",
    "commit_offsets": "uint64 [max_requests + 1]: request i has commit_tokens[commit_offsets[i] : commit_offsets[i + 1]].",
    "commit_tokens": "int32 [max_tokens]: ids that became known since the last step. They are appended before the commit.",
    "extend_offsets": "uint64 [max_requests + 1]: request i grows by extend_tokens[extend_offsets[i] : extend_offsets[i + 1]].",
    "extend_tokens": "int32 [max_tokens]: ids of the tokens by which requests grow.",
    "admit_requests": "uint64 [max_admissions]: id of a waiting request, or 0 = create one from admit_tokens.",
    "admit_namespaces": "uint64 [max_admissions]: namespace id of each new request; 0 = the default one.",
    "admit_slots": "uint64 [max_admissions]: tokens after the hit that get slots, instead of the request's `slots`; 0 = those.",
    "admit_offsets": "uint64 [max_admissions + 1]: new request i has admit_tokens[admit_offsets[i] : admit_offsets[i + 1]].",
    "admit_tokens": "int32 [max_prompt_tokens]: prompts of the new requests, one after the other.",
    "rows": "int32 [max_requests + max_admissions]: row of block_tables of each item; -1 = none.",
    "status": "int32 Status of each item: of frees, preempts, truncates, requests, admissions, in this order. `errors` has texts.",
    "admitted": "uint64 [max_admissions]: id of each admitted request; 0 = it was refused.",
    "cached": "uint64 [max_admissions]: tokens of each hit.",
    "num_blocks": "uint64: valid entries of the row of each item, for all groups: entry group * (num_requests + num_admissions) + item.",
    "block_tables": "int32 [groups, max_rows, row_stride]: block ids. A step writes only the entries that changed.",
    "slots": "int64 [groups, max_tokens]: slot of each extended token, block id * block_size + offset; -1 for failed items.",
    "copies": "int32 [n, 2]: blocks to copy before the kernels of the step run, as (source, destination). The first num_copies count.",
    "changes": "int32 [n, 4]: entries that changed in block_tables, as (group, row, column, block). The first num_changes count.",
}
_NUMBERS = {
    "num_requests": "Items of `requests` in the next run().",
    "num_admissions": "Items of `admit_requests`, or of `admit_offsets`, in the next run().",
    "num_frees": "Items of `frees` in the next run().",
    "num_preempts": "Items of `preempts` in the next run().",
    "num_truncates": "Items of `truncates` in the next run().",
    "flags": "StepFlags. None at first.",
    "fill_id": "Id in block_tables where a table has no block. 0 at first; -1, or an id that is safe to read.",
    "retired_step": "Newest step_id whose kernels have finished; 0 = none, or nothing new.",
    "now_ns": "Time of a monotonic clock in nanoseconds, as Manager.set_time() takes it; 0 = unchanged.",
    "step_id": "Number of the last run(): 1, 2, ...; 0 before the first.",
    "num_slots": "Slots of the last run(): extended tokens of all requests.",
    "num_copies": "Entries of `copies` of the last run().",
    "num_changes": "Entries of `changes` of the last run().",
    "num_refused": "Admissions of the last run() with NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, FILLING, SKIPPED or BUFFER_TOO_SMALL.",
    "shortage_blocks": "Blocks that the first admission with NO_SPACE, AGAIN or OVER_QUOTA lacked.",
}


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    import difflib  # for errors alone

    close = difflib.get_close_matches(name, [each for each in names if not each.startswith("_")], 1)
    return f"; did you mean {close[0]}?" if close else ""


class _Memory:
    """The step's memory, and the manager whose allocator it is from. The step is freed first."""

    __slots__ = ("step", "manager")

    def __init__(self, step: Any, manager: Any):
        self.step, self.manager = step, manager

    def __del__(self) -> None:
        self.step = None


class Step:
    """One engine step for a whole batch: arrays and counts, in memory that is allocated once. Fill the arrays in place, set the counts, call run(),
    and read the results. One thread at a time may use a step.

    max_requests: running requests. max_tokens: extended tokens of a step. max_frees: each of frees, preempts and truncates.
    max_admissions, max_prompt_tokens: new requests of a step, and the tokens of all of them. max_rows (default: max_requests +
    max_admissions), row_stride: shape of the block tables. max_changes: entries of changes; 0 = all that a step can change.

    Inputs, uint64 unless noted: frees, preempts, truncates, truncate_lengths [max_frees]; requests, committed [max_requests];
    commit_offsets, extend_offsets [max_requests + 1]; commit_tokens, extend_tokens int32 [max_tokens]; admit_requests,
    admit_namespaces, admit_slots [max_admissions]; admit_offsets [max_admissions + 1]; admit_tokens int32 [max_prompt_tokens]; rows
    int32 [max_requests + max_admissions].
    Results: status int32 (of frees, preempts, truncates, requests, admissions in this order); admitted, cached uint64
    [max_admissions]; num_blocks uint64; block_tables int32 [groups, max_rows, row_stride], of which only changed entries are
    written; slots int64 [groups, max_tokens]; copies int32 [n, 2] (source, destination); changes int32 [n, 4] (group, row,
    column, block).

    run() refuses entries that are not set. Until you set an entry, commit_tokens, extend_tokens and admit_tokens hold -1, truncate_lengths
    and admit_offsets (from [1] on) 2**64 - 1, rows -2**31. run() consumes the ids, lengths and admit_offsets that it reads: they are unset
    afterwards, so keep your own copy of what you need later. All other inputs keep their values from step to step.

    `use` switches optional arrays off and on. At first commit_offsets, commit_tokens (commits bring no ids) and rows (item i has row i)
    are off. Reading or writing an array that is off raises AttributeError. If you have kept such an array in a variable, it is read-only
    while it is off."""

    __slots__ = {**dict.fromkeys((*_PRIVATE, "__weakref__")), **_TEXTS}  # help() shows the texts

    frees: numpy.ndarray
    preempts: numpy.ndarray
    truncates: numpy.ndarray
    truncate_lengths: numpy.ndarray
    requests: numpy.ndarray
    committed: numpy.ndarray
    commit_offsets: numpy.ndarray
    commit_tokens: numpy.ndarray
    extend_offsets: numpy.ndarray
    extend_tokens: numpy.ndarray
    admit_requests: numpy.ndarray
    admit_namespaces: numpy.ndarray
    admit_slots: numpy.ndarray
    admit_offsets: numpy.ndarray
    admit_tokens: numpy.ndarray
    rows: numpy.ndarray
    status: numpy.ndarray
    admitted: numpy.ndarray
    cached: numpy.ndarray
    num_blocks: numpy.ndarray
    block_tables: numpy.ndarray
    slots: numpy.ndarray
    copies: numpy.ndarray
    changes: numpy.ndarray
    if TYPE_CHECKING:  # properties, made below
        num_requests: int
        num_admissions: int
        num_frees: int
        num_preempts: int
        num_truncates: int
        flags: StepFlags | int
        fill_id: int
        retired_step: int
        now_ns: int
        step_id: int
        num_slots: int
        num_copies: int
        num_changes: int
        num_refused: int
        shortage_blocks: int

    def __init__(self, manager: Manager, max_requests: int, max_tokens: int, row_stride: int, *, max_admissions: int = 0,
                 max_prompt_tokens: int = 0, max_frees: int = 0, max_rows: int = 0, max_changes: int = 0):
        if not isinstance(manager, Manager):
            raise TypeError(f"manager is {type(manager).__name__}; it must be a kvcache.Manager")
        limits = _native.kvc_step_limits()
        limits.max_requests, limits.max_tokens, limits.row_stride = max_requests, max_tokens, row_stride
        limits.max_admissions, limits.max_prompt_tokens, limits.max_frees = max_admissions, max_prompt_tokens, max_frees
        limits.max_rows, limits.max_changes = max_rows or max_requests + max_admissions, max_changes
        self._manager = manager
        self._used = dict.fromkeys(_OPTIONAL, True)
        self._failed: Optional[tuple[str, int, int, int, int, int]] = None
        memory = _Memory(_native.kvc_step_create(manager._m, limits), manager._m)
        self._step: Any = memory.step
        self._memory: Optional[_Memory] = memory
        self._arrays = {name: view(_native.kvc_step_view(self._step, array), memory)[...] for name, array in _ARRAYS.items()}
        for name, array in self._arrays.items():
            object.__setattr__(self, name, array)
        self.use(commit_offsets=False, rows=False)

    def close(self) -> None:
        """Ends use; the memory goes with the last array over it."""
        self._step = self._memory = None

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if getattr(self, "_step", None) is None:
            return "<kvcache.Step, closed>"
        return (f"<kvcache.Step {self.step_id}: {self.num_requests} requests, {self.num_admissions} admissions, {self.num_frees} frees, "
                f"{self.num_preempts} preempts, {self.num_truncates} truncates>")

    def use(self, *, committed: Optional[bool] = None, commit_offsets: Optional[bool] = None, extend_offsets: Optional[bool] = None,
            extend_tokens: Optional[bool] = None, admit_requests: Optional[bool] = None, admit_offsets: Optional[bool] = None,
            rows: Optional[bool] = None, block_tables: Optional[bool] = None, slots: Optional[bool] = None, changes: Optional[bool] = None) -> None:
        """Switches optional arrays off (False) or on (True), until the next use(). None leaves an array as it is.

        What each means when it is off:
        committed         nothing is committed
        commit_offsets    commits bring no ids; commit_tokens is off with it (both are off at first)
        extend_offsets    nothing is extended; extend_tokens is off with it
        extend_tokens     slots only: capacity grows by extend_offsets; the ids come later, by commit_tokens or request.append()
        admit_requests    all admissions create requests
        admit_offsets     no admission creates one; admit_tokens is off with it
        rows              item i has row i (off at first)
        block_tables, slots, changes    not written

            step.use(extend_tokens=False)            # slots only
            step.extend_offsets[:2] = [0, 4]
            step.num_requests = 1
            step.run()
            step.slots[0, :4]                        # slots of the next four tokens, whose ids come later
        """
        arrays = zip(_OPTIONAL, (committed, commit_offsets, extend_offsets, extend_tokens, admit_requests, admit_offsets, rows, block_tables, slots,
                                 changes))
        changed = {name: used for name, used in arrays if used is not None and self._used[name] != used}
        if not changed:
            return
        for name, used in changed.items():
            _native.kvc_step_use(self._step, _ARRAYS[name], used)
            self._used[name] = bool(used)
        for name, switches in _SWITCHES.items():
            array, on = self._arrays[name], all(self._used[switch] for switch in switches)
            array.flags.writeable = on  # also for a caller who has kept it
            if on:
                object.__setattr__(self, name, array)
            elif hasattr(self, name):
                object.__delattr__(self, name)

    if not TYPE_CHECKING:  # type checkers know the attributes from above

        def __getattr__(self, name):
            """Called for an array that is off, for names that a step does not have, and for all of them when it is closed."""
            if name not in _PRIVATE and self._step is None and hasattr(type(self), name):
                raise ValueError("the step is closed")
            if name in _SWITCHES:
                switch = next((switch for switch in _SWITCHES[name] if not self._used[switch]), name)
                raise AttributeError(f"{name} is off in this step; step.use({switch}=True) switches it on")
            raise AttributeError(f"a Step has no attribute {name!r}{_did_you_mean(name, dir(type(self)))}")

        def __setattr__(self, name, value):
            if name in _COUNTS:
                if self._step is None:
                    raise ValueError("the step is closed")
                setattr(self._step, name, value)
            elif name in _PRIVATE:
                object.__setattr__(self, name, value)
            elif name in _ARRAYS:
                if getattr(self, name) is not value:  # the same array is set by step.committed += 1
                    raise AttributeError(f"{name} is memory of the library; fill it in place: step.{name}[:n] = ...")
            elif hasattr(type(self), name):
                raise AttributeError(f"{name} of a Step cannot be set")
            else:
                raise AttributeError(f"a Step has no attribute {name!r}{_did_you_mean(name, [*_ARRAYS, *_COUNTS])}")

    def run(self, admit_options: Sequence[Optional[RequestOptions]] = ()) -> int:
        """Runs the step: retire, commit, frees, preempts, truncates, extend, admit. Returns step_id. Raises only if the
        step fails as a whole; then nothing has changed. Each item has its own status: look at num_failed, then at status and errors.

        admit_options: [num_admissions] options of each new request; None = defaults. Empty = defaults for all, with the namespaces of
        admit_namespaces; otherwise the namespaces of the options count. Waiting requests keep the options that they were created with."""
        if admit_options:
            failed = self._run_with(admit_options)
        else:
            failed = _native.kvc_manager_step(self._manager._m, self._step, None, None, None, None)
        if failed is not self._failed:
            self._failed = failed
        return self.step_id

    def _run_with(self, admit_options: Sequence[Optional[RequestOptions]]) -> Optional[tuple[str, int, int, int, int, int]]:
        if isinstance(admit_options, RequestOptions) or not hasattr(admit_options, "__iter__"):
            raise TypeError(f"admit_options is {type(admit_options).__name__}; it must be a list with a kvcache.RequestOptions, or None, for each "
                            "admission: pass [options]")
        count, admit_options = self._step.num_admissions, tuple(admit_options)
        if len(admit_options) != count:
            raise ValueError(f"admit_options has {len(admit_options)} entries for {count} admissions")
        configs = _native.new_kvc_request_configs(count)
        try:
            all_keys: list[ExtraKey] = []
            key_offsets, namespaces = [0], []
            for i, options in enumerate(admit_options):
                if options is None:
                    options = RequestOptions()
                elif not isinstance(options, RequestOptions):
                    raise TypeError(f"admit_options[{i}] is {type(options).__name__}; it must be a kvcache.RequestOptions, or None")
                fields = options._asdict()
                namespaces.append(namespace_id(fields.pop("namespace")))
                all_keys += fields.pop("keys")
                key_offsets.append(len(all_keys))
                _native.kvc_request_configs_setitem(configs, i, request_config(**fields) or _native.kvc_request_config())
            return _native.kvc_manager_step(self._manager._m, self._step, namespaces, configs, pack_keys(all_keys), key_offsets)
        finally:
            _native.delete_kvc_request_configs(configs)

    @property
    def num_failed(self) -> int:
        """Number of items of the last run whose status is not OK. Read it before you change counts (num_requests, ...). If it is 0, all
        entries of `status` are OK."""
        return _native.kvc_step_num_failed(self._step)


    @property
    def error(self) -> Optional[KvCacheError]:
        """The error of the first item of the last run that failed, in the order of the phases of run(); None if none did. Its text has the item,
        what was wrong, the value, the limit and the fix: "requests[3]: ...", "admissions[0]: ...". Its `item` is ("requests", 3)."""
        if self._failed is None:
            return None
        text, *counts = self._failed
        array, index = text[: text.index("]")].split("[")
        return self._error(array, int(index), sum(counts[: _ITEMS.index(array)]), text)

    @property
    def errors(self) -> list[KvCacheError]:
        """The errors of all items of the last run that failed, in the order of `status`; [] if none did. Each is of the class of its status, with
        its `item`: (name of the array, index). The text of the first that failed is that of `error`; the others say what their status means."""
        if self._failed is None:
            return []
        text, *counts = self._failed
        begin, found = 0, []
        for array, count in zip(_ITEMS, counts):
            for index in self.status[begin : begin + count].nonzero()[0].tolist():
                found.append(self._error(array, index, begin, text if text.startswith(f"{array}[{index}]: ") else None))
            begin += count
        return found

    def _error(self, array: str, index: int, begin: int, text: Optional[str]) -> KvCacheError:
        status = Status(int(self.status[begin + index]))
        error = from_status(status, text or f"{array}[{index}]: {status.name}: {meaning(status)}")
        error.item = array, index
        return error


add_properties(Step, "_step", _NUMBERS, {"flags": StepFlags})
