# SPDX-License-Identifier: Apache-2.0
"""stubs.py [--write]: writes three files from the C headers, kvcache.i and calls.i: kvcache/_native.pyi, the signatures that SWIG's typemaps make,
kvcache/records.py, the structs that the library fills, and kvcache/enumerations.py, with the comments of their fields and members. Without --write
it fails if a committed file differs."""

import keyword
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import interface  # noqa: E402
from interface import is_truth  # noqa: E402

PACKAGE = HERE / "kvcache"
INTEGERS = {"int", "long", "size_t", "int32_t", "uint32_t", "int64_t", "uint64_t"}
VIEW = "tuple[int, int, tuple[int, ...], tuple[int, ...]]"
HAND_WRITTEN = '''
def kvc_live_objects() -> int: ...
def kvc_pack_tokens(tokens: Sequence[int]) -> memoryview: ...
def kvc_storage_export_dlpack(s: kvc_storage, plane: int, layer: int, owner: object) -> object: ...
def kvc_storage_dlpack_device(s: kvc_storage, plane: int, layer: int) -> tuple[int, int]: ...
class kvc_kept:
    def end(self) -> None: ...
    def lend(self, config: kvc_scheduler_config) -> None: ...
    def num_changes(self) -> int: ...
    def high(self) -> int: ...
    def usage(self) -> float: ...

@final
class Admitted:
    id: int
    known: int
    committed: int
    computed: int
    num_blocks: int
    quiet: int
    watched: int
    ahead: int
    unreturned: int
    def __init__(self, manager: kvc_manager, id: int, known: int, committed: int, block_size: int, num_groups: int,
                 order: bytes = ..., num_cross: int = ..., ahead: int = ...) -> None: ...
    def ids(self, first: int = ..., last: int = ...) -> list[list[int]]: ...
    def refresh(self) -> None: ...
    def grow(self, tokens: int) -> Optional[list[list[int]]]: ...
    def commit(self, tokens: Sequence[int], count: int, computed: int = ...) -> None: ...
    def stop_at(self, tokens: int) -> bool: ...

class SlotAllocator:
    def __init__(self, live: dict[str, Admitted], empty: Any, blocks_type: Any, max_model_len: int, edges: Sequence[tuple[int, int]],
                 caching: bool, simple: bool, states: bytes = ...) -> None: ...
    _fresh: set[int]
    def allocate_slots(self, request: Any, num_new_tokens: int, num_new_computed_tokens: int = ..., new_computed_blocks: Any = ...,
                       num_lookahead_tokens: int = ..., num_external_computed_tokens: int = ..., delay_cache_blocks: bool = ...,
                       num_encoder_tokens: int = ..., full_sequence_must_fit: bool = ..., reserved_blocks: int = ...,
                       has_scheduled_reqs: bool = ..., skip_zeroing_group_ids: tuple[int, ...] = ...) -> Any: ...
    def cache_blocks(self, request: Any, num_computed_tokens: int) -> None: ...
    def _commit(self, live: Admitted, request: Any, num_tokens: int, computed: int) -> None: ...

class TierCalls:
    _found: dict[bytes, Any]
    _asked_by: dict[str, list[bytes]]
    _left: list[list[bytes]]
    _to_ask: list[bytes]
    _ended: list[Any]
    _asked: int
    _jobs: int
    def _open(self, tier: kvc_tier, memory: memoryview, row_bytes: int, lease_ns: int, answers: tuple[Any, Any, Any], result_type: Callable[..., Any],
              tells_bytes: bool, key_of: Callable[[bytes], bytes]) -> None: ...
    def _close(self, close: Callable[[], Any]) -> Any: ...
    def lookup(self, key: bytes, req_context: Any, /) -> Any: ...
    def on_schedule_end(self, context: Any = ..., /) -> None: ...
    def on_request_finished(self, req_context: Any, /) -> None: ...
    def submit_store(self, job_metadata: Any, /) -> None: ...
    def submit_load(self, job_metadata: Any, /) -> None: ...
    def get_finished_jobs(self) -> list[Any]: ...
    def _note_stored(self, keys: list[bytes], /) -> None: ...

def runs_of_events(events: _Array, tokens: _Array, int_hashes: bool, stored: Callable[..., Any], removed: Callable[[list[Any], int], Any],
                   cleared: Callable[[], Any], middle: tuple[Any, ...], ends: tuple[tuple[Any, ...], ...],
                   keys: Optional[Callable[[int, int], Any]]) -> list[Any]: ...
'''
RECORDS = {
    "Stats": ("kvc_stats", "Counters since creation and gauges"),
    "ProbeInfo": ("kvc_probe_info", "What would hit, and whether the prompt fits"),
    "PoolInfo": ("kvc_pool_info", "Blocks of a pool by state; the states sum to num_blocks"),
    "LostReuse": ("kvc_lost_reuse", "The lost reuse of a group: sums over first admissions"),
    "QuotaInfo": ("kvc_quota_info", "The share of a namespace in one pool"),
    "LogInfo": ("kvc_log_info", "The log of a manager"),
    "LogReplay": ("kvc_replay_info", "What replay_log() found"),
    "BlockInfo": ("kvc_block_info", "State of one block"),
    "Properties": ("kvc_properties", "Configuration of a manager, with defaults filled in"),
    "RequestInfo": ("kvc_request_info", "State of a request"),
    "QuantMetrics": ("kvc_quant_metrics", "Measured cost and error of stored rows"),
    "AttentionInfo": ("kvc_attention_info", "How attention would be computed"),
    "DeviceInfo": ("kvc_device_info", "Properties of a device"),
    "BackendInfo": ("kvc_backend_info", "Properties of a backend"),
    "MemoryEstimate": ("kvc_memory_estimate", "Memory in bytes and blocks"),
    "CurveInfo": ("kvc_curve_info", "What a miss-ratio curve has seen"),
    "WorkloadInfo": ("kvc_workload_info", "What a workload shows; all 0 before the first observation"),
    "TierStats": ("kvc_tier_stats", "State of a Tier, and counters since it was opened"),
    "TierCounts": ("kvc_tier_counts", "What the jobs of one kind came to"),
    "CheckpointInfo": ("kvc_checkpoint_info", "A checkpoint"),
    "CheckpointNeeds": ("kvc_checkpoint_needs", "What a save would write"),
    "PageFileInfo": ("kvc_page_file_info", "What a file of a Tier has"),
    "OffloadInfo": ("kvc_offload_info", "How far the lookup of a request is"),
    "OffloadStats": ("kvc_offload_stats", "State of an Offload, and counters since it was created"),
    "OffloadTierStats": ("kvc_offload_tier_stats", "Counters of one tier of an Offload"),
    "LatencyInfo": ("kvc_latency", "A distribution of durations since enable_latencies()"),
    "MemoryProfile": ("kvc_memory_profile", "Memory by kind, in bytes"),
    "PublisherStats": ("kvc_publisher_stats", "Counters of a Publisher since its creation"),
    "ScheduledInfo": ("kvc_scheduled_info", "State of a request of a Scheduler"),
    "SchedulerStats": ("kvc_scheduler_stats", "Counters of a Scheduler since its creation, and gauges"),
    "IndexApplied": ("kvc_index_applied", "What Index.apply() has done"),
    "IndexStats": ("kvc_index_stats", "Counters of an Index"),
    "SizingDecision": ("kvc_sizing_decision", "One decision of a Sizer, with all numbers that it stands on"),
}
# Classes by the first constant of their enumeration.
CLASSES = {
    "Status": "KVC_OK", "BlockState": "KVC_BLOCK_FREE", "LostReason": "KVC_LOST_BLOCK", "EventKind": "KVC_EVENT_STORED", "Layout": "KVC_LAYOUT_LBHNC",
    "DeviceFlags": "KVC_DEVICE_READS_HOST", "MemoryKind": "KVC_MEMORY_DEFAULT", "Plane": "KVC_PLANE_K", "RopeScaling": "KVC_ROPE_NONE",
    "RequestFlags": "KVC_REQUEST_NO_READ", "StepFlags": "KVC_STEP_WHOLE_ROWS", "StorageFlags": "KVC_STORAGE_LATENT", "SizingMode": "KVC_SIZING_REACTIVE", "SizingAction":
    "KVC_SIZING_KEEP", "SizingBasis": "KVC_SIZING_BY_LAST", "SizingReason": "KVC_SIZING_NEED", "PageResult": "KVC_PAGE_WAITING", "TierKind":
    "KVC_TIER_EXISTS", "TierPriority": "KVC_TIER_LOAD", "PageFileKind": "KVC_PAGE_FILE_SLAB", "Latency": "KVC_LATENCY_ADMIT", "OffloadPolicy":
    "KVC_OFFLOAD_WRITE_THROUGH", "OffloadState": "KVC_OFFLOAD_NONE", "OffloadReason": "KVC_OFFLOAD_NOTHING", "SchedulePolicy": "KVC_SCHEDULE_FCFS",
    "Admission": "KVC_ADMIT_CHUNK", "EndReason": "KVC_ENDED_STOPPED", "ScheduledState": "KVC_SCHEDULED_NOT_READY", "WaitReason": "KVC_WAIT_NONE",
}
RAISED = " Each but OK and SKIPPED is raised as an exception of its own: NO_SPACE as kvcache.NoSpaceError."
FLAGS = {"DeviceFlags", "RequestFlags", "StepFlags", "StorageFlags", "OffloadPolicy"}  # members that are or'ed
# What the comments of these structs and enumerations name, in Python.
WORDS = {
    "kvc_manager_allocate_request": "Manager.allocate()", "kvc_manager_admit_request": "Request.admit()", "kvc_manager_reset_all": "Manager.reset()",
    "kvcache/fills.h": "Manager(fills=True)", "kvc_manager_config.max_nodes": "Manager(max_nodes=...)", "kvc_plan_result.stopped": "Scheduler.finish(stopped=...)",
    "kvc_device_allocate only: memory": "Memory", " Needs KVC_DEVICE_MANAGED and at least KVC_MANAGED_LEAST_BYTES.": "", "kvc_device_allocate supports KVC_MEMORY_": "There is MemoryKind.",
    "KVC_TIER_EXISTS": "exists", "kvc_tier_submit": "its submission", "[manager]": "[Manager]", "[scheduler]": "[Scheduler]", "[storage]": "[Storage]", "[offload]": "[Offload]",
    "[tier]": "[Tier]", "(KVC_ADMIT_PEAK, WORST)": "(Admission.PEAK, WORST)",
    "kvc_manager_config.memory": "Manager(memory=...)", "kvc_manager_acquire_blocks": "Manager.acquire_blocks()", "kvc_manager_acquire_prefix": "Manager.acquire_prefix()",
    "kvc_manager_evict_blocks": "Manager.evict()", "kvc_manager_pin_prefix": "Manager.pin()", "kvc_manager_preempt_request": "Request.preempt()",
    "kvc_manager_truncate_request": "Request.truncate()", "kvc_storage_runs": "Storage.runs()", "kvc_storage_select_blocks": "Storage.select_blocks()",
    "kvc_storage_swap_in": "Storage.swap_in()", "kvc_storage_swap_out": "Storage.swap_out()", "with this kvc_attention": "with these arguments",
    "kvc_attention_launch.plan_bytes": "bytes of Launch.plan", "kvc_attention_launch.workspace_bytes": "bytes of Launch.workspace",
    "kvc_attention_launch": "Launch", "kvc_attention.": "", "kvc_step": "Step", "in kvc_manager_config": "configured", "KVC_BLOCK_*": "BlockState", "KVC_LOST_*": "LostReason", "KVC_LOST_": "LostReason.",
    "KVC_DEVICE_*": "DeviceFlags", "KVC_DEVICE_": "DeviceFlags.", "KVC_MEMORY_*": "MemoryKind", "KVC_REQUEST_*": "RequestFlags",
    "KVC_ERROR_": "", "kvc_stats": "Stats", "kvc_storage_trim": "Storage.trim()", "KVC_PAGE_OK": "PageResult.OK",
    "KVC_OFFLOAD_NONE, ...": "OffloadState", "KVC_OFFLOAD_NOTHING, ...; else 0": "OffloadReason; else NONE", "KVC_PAGE_FILE_*": "PageFileKind", "KVC_SCHEDULED_*": "ScheduledState", "KVC_WAIT_*": "WaitReason",
    "kvc_manager_content_digest": "Manager.content_digest()", "With `validate`": "With validate=True",
    "(kvc_index_read_stats)": "", "(kvc_index_apply)": "",
    "KVC_REQUEST_": "RequestFlags.", "UINT64_MAX": "2**64 - 1", "KVC_SIZING_KEEP, GROW or SHRINK": "SizingAction", "KVC_SIZING_BY_LAST, ...": "SizingBasis",
    "KVC_SIZING_NEED, ...": "SizingReason", "KVC_SIZING_REACTIVE, ...": "SizingMode", "this library": "the library",
}
PLAIN = {"num_requests": "Requests that it has.", "block_size, num_groups": "As of the manager."}  # fields that have no comment in C
# Fields of records that are members of an enumeration.
ENUMERATIONS = {("kvc_block_info", "state"): "BlockState", ("kvc_page_file_info", "kind"): "PageFileKind",
                ("kvc_offload_info", "state"): "OffloadState", ("kvc_offload_info", "reason"): "OffloadReason",
                ("kvc_scheduled_info", "state"): "ScheduledState", ("kvc_scheduled_info", "wait_reason"): "WaitReason", ("kvc_scheduler_stats", "policy"): "SchedulePolicy",
                ("kvc_sizing_decision", "action"): "SizingAction", ("kvc_sizing_decision", "reason"): "SizingReason",
                ("kvc_sizing_decision", "basis"): "SizingBasis", ("kvc_sizing_decision", "mode"): "SizingMode"}
# A step returns the text of the first failed item and the counts of items; see typemaps.i.
RESULTS = {"kvc_manager_step": "Optional[tuple[str, int, int, int, int, int]]"}


class Interface(interface.Interface):
    def __init__(self):
        super().__init__()
        text = self.by_hand + (HERE.parent / "roles.i").read_text(encoding="utf-8")
        self.pairs = {(m[1], m[2]): m[0] for m in re.findall(r"^KVC_(IN|OUT|IN_RECORDS|OUT_RECORDS)\(\w+, (?:[A-Z0-9]+, )?(\w+), (\w+)\)", text, re.M)}
        self.alone = {(name, direction == "IN") for direction, name in re.findall(r"^KVC_(IN|OUT)_ARRAY\(\w+, [A-Z0-9]+, (\w+)\)", text, re.M)}
        self.results = set(re.findall(r"^KVC_RESULT\(\w+, (\w+)\)", text, re.M))
        self.objects = re.findall(r"^KVC_OBJECT\((\w+), \w+\)", text, re.M)
        self.structs = re.findall(r"^KVC_STRUCT\((\w+)\)", text, re.M)
        self.ignored |= set(re.findall(r"^%ignore ([\w:]+);", text, re.M))
        self.arrays = re.findall(r"^%array_functions\((\w+), (\w+)\)", interface.read(HERE.parent / "structs.i"), re.M)

    def signature(self, result, arguments):
        """(parameters, results) in Python."""
        parameters, results, at = [], [], 0
        while at < len(arguments):
            const, kind, stars, name = (getattr(arguments[at], part) for part in ("const", "kind", "stars", "name"))
            following = arguments[at + 1].name if at + 1 < len(arguments) else ""
            at += 1
            if stars == 2 and following == f"num_{name}":  # objects
                parameters.append(f"{name}: tuple[Optional[{kind}], ...]")
                at += 1
            elif stars and (name, following) in self.pairs:
                parameters.append(f"{name}: _Array")
                at += 1
            elif stars == 1 and (name, const) in self.alone:
                parameters.append(f"{name}_: _Array" if keyword.iskeyword(name) else f"{name}: _Array")
            elif (kind, name) == ("void", "handle"):  # an address
                results.append("int") if stars == 2 else parameters.append(f"{name}: Optional[int]")
            elif stars == 2:
                results.append(kind)
            elif kind == "kvc_view":
                results.append(VIEW)
            elif stars and name in self.results:
                results.append("int")
            elif stars:
                optional = name in ("stream", "selection", "keys", "values", "device", "launch", "path", "optional_offload") or kind == "kvc_request_config"
                known = "str" if kind == "char" else kind
                parameters.append(f"{name}: " + (f"Optional[{known}]" if optional else known))
            else:
                parameters.append(f"{name}: " + self.scalar(kind))
        if result not in ("kvc_status", "void"):
            results.insert(0, "str" if "char" in result else self.scalar(result))
        return ", ".join(parameters), "None" if not results else results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"

    @staticmethod
    def scalar(kind):
        return "int" if kind in INTEGERS or kind == "kvc_status" else "float"

    def fields(self, struct):
        """(name, type) of what SWIG makes an attribute."""
        for field in self.headers.structs[struct].fields:
            kind, name = field.kind, field.name
            if kind and (f"{struct}::{name}" in self.kept or not {name, f"{struct}::{name}"} & self.ignored):
                yield name, "bytes" if kind == "uint8_t" and field.length else "str" if kind == "char" else f"Optional[{kind}]" if field.stars else self.scalar(kind)


def stubs(interface):
    lines = ["# SPDX-License-Identifier: Apache-2.0", "# Written by stubs.py: the functions, structs and constants of the C headers under their C names, internal to the package.",
             "from typing import Any, Callable, Optional, Sequence, Union, final", "", "import numpy", "from typing_extensions import Buffer", "",
             "_Array = Union[Buffer, numpy.ndarray, Sequence[int], int, None]  # a buffer, or a sequence of int or a single one that is copied", ""]
    lines += [f"{name}: int" for name, value in interface.headers.constants.items() if value.isdigit()]
    for name in sorted(interface.objects):
        if name != "kvc_step":
            lines += ["", f"class {name}: ..."]
    for struct in [*interface.structs, "kvc_selection", "kvc_step", "kvc_view"]:
        lines += ["", f"class {struct}:"]
        lines += [f"    {name}: {kind}" for name, kind in interface.fields(struct)]
        if struct == "kvc_model":
            lines += ["    def has_window(self, layer: int) -> int: ...", "    def set_window(self, layer: int) -> None: ...",
                      "    def has_state(self, layer: int) -> int: ...", "    def set_state(self, layer: int) -> None: ..."]
        if struct == "kvc_manager_config":
            lines.append("    def set_memory(self, model: kvc_model, query: kvc_memory_query) -> None: ...")
        if struct == "kvc_request_config":
            lines.append("    def set_cross_digest(self, first: int, second: int, third: int, fourth: int) -> None: ...")
    lines.append("")
    for name, result, arguments in interface.functions():
        parameters, results = interface.signature(result, arguments)
        lines.append(f"def {name}({parameters}) -> {RESULTS.get(name, results)}: ...")
    lines.append("")
    for struct, name in interface.arrays:
        lines += [f"def new_{name}(nelements: int) -> {struct}: ...", f"def delete_{name}(ary: {struct}) -> None: ...",
                  f"def {name}_getitem(ary: {struct}, index: int) -> {struct}: ...", f"def {name}_setitem(ary: {struct}, index: int, value: {struct}) -> None: ..."]
    return "\n".join(lines) + "\n" + HAND_WRITTEN


def in_python(comment):
    """A comment of C in Python's words."""
    text = re.sub(r" The library owns [^.]*\.", "", " ".join(comment.split()))
    for name, (of_c, _) in RECORDS.items():
        text = re.sub(rf"\b{of_c}\b", name, text)
    for of_c, word in WORDS.items():
        text = text.replace(of_c, word)
    text = re.sub(r"\bkvc_(manager|storage|scheduler|offload)_(?!config|info)(\w+)", lambda it: f"{it[1].title()}.{it[2]}()", text)
    return re.sub(r"\bkvc_\w+\.(?=\w)", "", text)


def documented(headers, struct):
    """The fields of a struct with their comments, in Python's words."""
    for comment, fields in headers.structs[struct].declarations:
        names = ", ".join(field.name for field in fields)
        if names not in ("struct_size", "reserved"):
            yield names, in_python(comment) or PLAIN[names]


def described(names, text):
    return textwrap.wrap(f"{names}: {text}", 146, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)


def enumerations(headers):
    lines = ["# SPDX-License-Identifier: Apache-2.0", '"""The enumerations of the C headers, with the values of C. Written by stubs.py."""', "",
             "from enum import IntEnum, IntFlag", "", "from . import _native"]
    for name, first in CLASSES.items():
        members, comments = interface.members(headers, first)
        lines += ["", "", f"class {name}({'IntFlag' if name in FLAGS else 'IntEnum'}):", f'    """{interface.MEANINGS[first]}.{RAISED if name == "Status" else ""}', ""]
        lines += [line for it, member in members.items() for line in described(member, in_python(comments[it]))]
        lines += ['    """', "", *["    NONE = 0"] * (name == "OffloadReason"), *(f"    {member} = _native.{it}" for it, member in members.items())]
    return "\n".join(lines) + "\n"


def records(interface):
    lines = ["# SPDX-License-Identifier: Apache-2.0", '"""Structs that the library fills, as named tuples with the fields of C. Written by stubs.py."""', "",
             "from __future__ import annotations", "", "from typing import Any, Callable, NamedTuple", "", "from . import _native", "from ._docs import described",
             "from .enumerations import (BlockState, OffloadReason, OffloadState, PageFileKind, ScheduledState, SchedulePolicy, SizingAction, SizingBasis,",
             "                           SizingMode, SizingReason, WaitReason)"]
    for name, (struct, text) in RECORDS.items():
        truths = {it.name for comment, them in interface.headers.structs[struct].declarations if is_truth(comment) for it in them}
        classes = {field: "bool" if field in truths else ENUMERATIONS.get((struct, field)) for field, _ in interface.fields(struct)}
        fields = [(field, classes[field] or kind) for field, kind in interface.fields(struct)]
        lines += ["", "", "@described", f"class {name}(NamedTuple):", f'    """{text}.', ""]
        for names, comment in documented(interface.headers, struct):
            if names in truths:
                comment = comment.replace("1 = ", "True = ").replace("0 = ", "False = ")
            lines += described(names, comment)
        lines += ['    """', ""]
        lines += [f"    {field}: {kind}" + ("  # type: ignore[assignment] # a method of tuples" if field == "count" else "") for field, kind in fields]
        values = [f"{kind}(filled.{field})" if classes[field] else f"filled.{field}" for field, kind in fields]
        lines += ["", "    @classmethod", f"    def read(cls, filled: _native.{struct}) -> {name}:",
                  '        """Reads the struct of the native layer."""']
        lines += textwrap.wrap(f"return cls({', '.join(values)})", 120, initial_indent=" " * 8, subsequent_indent=" " * 19)
        lines += ["", "    @classmethod", f"    def of(cls, call: Callable[..., None], *arguments: Any) -> {name}:",
                  '        """Reads the struct that a call of the native layer fills."""', f"        filled = _native.{struct}()", "        call(*arguments, filled)",
                  "        return cls.read(filled)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name, text in (("_native.pyi", stubs(Interface())), ("records.py", records(Interface())), ("enumerations.py", enumerations(Interface().headers))):
        target = PACKAGE / name
        if "--write" in sys.argv:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            sys.exit(f"{target} differs from the C headers: run {sys.argv[0]} --write")
