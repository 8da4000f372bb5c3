# SPDX-License-Identifier: Apache-2.0
"""interface.py: what SWIG sees: the functions of the headers and of calls.i, under the names of C, and the role of each parameter.

The types tell nearly all roles: a pointer and the size behind it are an array, a pointer to a number is a result, a const one alone an array.
kvcache.i says the others by hand, and what no language reaches; roles.i is written from this module by scripts/generate."""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts"))
import kvcache_headers  # noqa: E402

ELEMENTS = {"int32_t": "INT32", "int64_t": "INT64", "uint64_t": "UINT64"}
NUMBERS = {*ELEMENTS, "uint32_t", "size_t"}
# What enumerations mean, by their first constant.
MEANINGS = {
    "KVC_OK": "Result of a call, or of one item of a step",
    "KVC_BLOCK_FREE": "State of a block: the last of these that applies",
    "KVC_LOST_BLOCK": "Why a group could not reuse what another one had cached",
    "KVC_EVENT_STORED": "Kind of an event",
    "KVC_LAYOUT_LBHNC": "Order of the dimensions of a storage, outermost first: L layer, B block, H head, N token, C content of a row",
    "KVC_DEVICE_READS_HOST": "What a device can do, and what is known about it",
    "KVC_MEMORY_DEFAULT": "Kind of memory of a storage",
    "KVC_PLANE_K": "A plane of a storage: the rows of one kind",
    "KVC_ROPE_NONE": "How a model extends its rotary embedding past its trained context, as rope_type of a config.json",
    "KVC_REQUEST_NO_READ": "Flags of a request",
    "KVC_STEP_WHOLE_ROWS": "Flags of a step",
    "KVC_STORAGE_LATENT": "Flags of a storage",
    "KVC_SIZING_REACTIVE": "Which number a Sizer stands on",
    "KVC_SIZING_KEEP": "What a decision does with the size",
    "KVC_SIZING_BY_LAST": "The number that a decision took: the last need, the forecast, or the level",
    "KVC_SIZING_NEED": "Why a decision is what it is",
    "KVC_PAGE_WAITING": "Result of one page of a Tier's job",
    "KVC_TIER_EXISTS": "Kinds of a Tier's jobs",
    "KVC_TIER_LOAD": "What the threads of a Tier take first",
    "KVC_PAGE_FILE_SLAB": "Kinds of files of a Tier",
    "KVC_LATENCY_ADMIT": "What a latency measures; the object that it belongs to is in brackets",
    "KVC_OFFLOAD_WRITE_THROUGH": "Which blocks an Offload stores, several together",
    "KVC_OFFLOAD_NONE": "How far the lookup of a request is",
    "KVC_OFFLOAD_NOTHING": "Why a lookup is ready. NONE: it is not",
    "KVC_SCHEDULE_FCFS": "The order in which a Scheduler admits waiting requests. Equal ones are ordered by arrival",
    "KVC_ADMIT_CHUNK": "What must fit, besides the first chunk, when a Scheduler admits a request",
    "KVC_ENDED_STOPPED": "Why a request of a Scheduler has ended",
    "KVC_SCHEDULED_NOT_READY": "State of a request of a Scheduler",
    "KVC_WAIT_NONE": "Why the last plan of a Scheduler has not admitted a request",
    "KVC_POLICY_LRU": "Which cached block is evicted first",
    "KVC_HEADROOM_NONE": "How much room an admission takes for the tokens that its request will probably get",
    "KVC_PUBLISHER_DIGEST": "What blocks are called",
}
BY_TYPEMAPS = {"kvc_view", "kvc_selection", "kvc_step"}  # structs that each language has a class or a call of its own for
DIRECTIVE = re.compile(r"^KVC_(?:(?:IN|OUT)(?:_RECORDS|_ARRAY)?|RESULT|OBJECTS?|STRUCT)\([\w, ]+\)", re.M)


def read(path):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S)


def is_truth(comment):
    """Whether a field with this comment is a truth value: `1 = ...`, also behind words such as `Gauge:`."""
    return re.search(r"(^|: )1 = ", " ".join(comment.split())) is not None


def members(headers, first):
    """{constant: its name without what all of its enumeration begin with} and {constant: comment} of an enumeration; {}, {} if there is none."""
    comments = next((it for it in headers.enumerations if first in it), {})
    common = os.path.commonprefix([*comments]).rpartition("_")[0] + "_"
    return {it: it.removeprefix(common).removeprefix("ERROR_") for it in comments}, comments


def outcome(text):
    """(what succeeds too, the errors, what else it says) of `return KVC_OK, also if ...; ERRORS. More.`"""
    said, _, more = re.sub(r"^return (?:KVC_OK[,;.]? ?)?", "", text).partition(". ")
    parts = [part.strip(" .") for part in said.split(";")]
    also, errors = "; ".join(it for it in parts if it.startswith("also ")), "; ".join(it for it in parts if not it.startswith("also "))
    if not re.match(r"[A-Z_]{2,}\b", errors):
        errors, more = "", f"{errors}. {more}"
    return f"Succeeds {also}." if also else "", errors, f"{more.strip(' .')}." if more.strip(" .") else ""


class Interface:
    """As Python has it, which has most."""

    def __init__(self, headers=None):
        self.headers = headers or kvcache_headers.read()
        self.calls = re.sub(r"^#ifdef SWIGJAVA\n.*?^#endif\n", "", read(HERE / "calls.i"), flags=re.M | re.S)
        self.by_hand = re.sub(r"^#if(?:ndef SWIGPYTHON|def SWIGGO)\n.*?^#endif\n", "", read(HERE / "kvcache.i"), flags=re.M | re.S)
        self.instead = {name: f"kvc_{name}" for name in re.findall(r"^static \w+ (\w+)\(", self.calls, re.M)}  # also names that C does not have
        self.ignored = set(re.findall(r"^%ignore ([\w:]+);", self.by_hand, re.M)) | set(self.instead.values())
        self.flat = {kind: macro for macro, kind in re.findall(r"#define KVC_THE_(\w+) &\((\w+)\)\{", self.calls)}
        self.macros = {m[1]: m[2].replace("\\\n", " ") for m in re.finditer(r"#define (KVC_[A-Z]+)\b(?:\(CONST\))?((?:[^\n]*\\\n)*[^\n]*)", self.calls)}
        self.kept = set(re.findall(r'^%rename\("%s"\) ([\w:]+);', self.by_hand, re.M))

    def functions(self):
        """(name, result, parameters)"""
        for name, function in self.headers.functions.items():
            if name not in self.ignored and not name.endswith("_destroy"):
                yield name, function.result, [one for it in function.parameters for one in self.flattened(it)]
        for m in re.finditer(r"^static (\w+) (\w+)\(([^{]*?)\) \{", self.calls, re.M):
            arguments = re.sub(r"(KVC_[A-Z]+)\b(?:\((const)?\))?", lambda it: self.macros[it[1]].replace("CONST", it[2] or ""), m[3])
            yield self.instead[m[2]], m[1], kvcache_headers.parameters(arguments)

    def flattened(self, parameter):
        """Those of a struct that has a macro, or the parameter itself."""
        return kvcache_headers.parameters(self.macros[f"KVC_{self.flat[parameter.kind]}"]) if parameter.kind in self.flat else [parameter]

    def flat_calls(self):
        """The functions of flat_calls.i: (name, parameters, arguments)"""
        for name, function in self.headers.functions.items():
            if name not in self.ignored and any(it.kind in self.flat for it in function.parameters):
                names = [one.name for it in function.parameters for one in self.flattened(it)]
                if twice := [one for one in names if names.count(one) > 1]:
                    raise ValueError(f"{name} would have two parameters {twice[0]}: write it in bindings/calls.i")
                yield (name, ", ".join(f"KVC_{self.flat[it.kind]}" if it.kind in self.flat else str(it) for it in function.parameters),
                       ", ".join(f"KVC_THE_{self.flat[it.kind]}" if it.kind in self.flat else it.name for it in function.parameters))

    def name(self, function):
        """The name of the function that SWIG wraps."""
        names = {call: name for name, call in self.instead.items()} | {call[0]: call[0].removeprefix("kvc_") for call in self.flat_calls()}
        return names.get(function, function)

    def role(self, it, size):
        """The directive of a pointer, of which the size is that parameter or None; "" = the typemaps know its type."""
        direction, element, structs = "IN" if it.const else "OUT", ELEMENTS.get(it.kind), self.headers.structs
        if it.stars == 2:
            return f"OBJECTS({it.kind}, {it.name}, {size.name})" if size else f"OBJECT({it.kind}, {it.name})"
        if size:
            return f"{direction}({it.kind}, {element}, {it.name}, {size.name})" if element else f"{direction}_RECORDS({it.kind}, {it.name}, {size.name})"
        if it.kind in BY_TYPEMAPS or it.kind == "char" or (it.kind.startswith("kvc_") and it.kind not in structs):
            return ""
        if it.kind in structs:
            return f"STRUCT({it.kind})"
        if it.const or it.kind not in NUMBERS:
            return f"{direction}_ARRAY({it.kind}, {element or 'BYTES'}, {it.name})"
        return f"RESULT({it.kind}, {it.name})"

    def roles(self):
        """The directives of roles.i."""
        said = set(DIRECTIVE.findall(self.by_hand))
        alone = {(direction == "IN", name) for direction, name in re.findall(r"^KVC_(IN|OUT)_ARRAY\(\w+, \w+, (\w+)\)", self.by_hand, re.M)}
        growing = {name for name, struct in self.headers.structs.items() if struct.fields[0].name == "struct_size"}
        found, inputs, results = set(), {}, {}
        for function, _, parameters in self.functions():
            for it, size in zip(parameters, [*parameters[1:], None]):
                if not it.stars or (it.const, it.name) in alone or (it.kind, it.name) == ("void", "handle"):
                    continue
                sized = size is not None and size.kind == "size_t" and not size.stars and it.kind not in growing
                role = self.role(it, size if sized else None)
                if role:
                    found.add(f"KVC_{role}")
                if it.const or role.startswith("RESULT"):
                    (inputs if it.const else results)[it.kind, it.name] = function
        for it in inputs.keys() & results.keys():  # SWIG takes a type map of T * for const T *, too
            raise ValueError(f"{it[1]} is a result of {results[it]} and an array of {inputs[it]}: give one of them another name, by a call in bindings/calls.i")
        return sorted(found - said)

    def unreachable(self):
        """The structs that no function has, and the pointers of others."""
        structs = set(re.findall(r"KVC_STRUCT\((\w+)\)", "\n".join([self.by_hand, *self.roles()]))) | BY_TYPEMAPS
        for name, struct in self.headers.structs.items():
            if name not in structs:
                yield name
                continue
            for field in struct.fields:
                where = f"{name}::{field.name}"
                if (field.stars and field.kind != "char" or self.headers.aliases.get(field.kind) == "") and not {where} & (self.ignored | self.kept):
                    yield where
