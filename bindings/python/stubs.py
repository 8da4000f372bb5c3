# SPDX-License-Identifier: Apache-2.0
"""stubs.py [--write]: kvcache/_native.pyi from kvcache.h, kvcache.i and calls.i, with the signatures that SWIG's typemaps make. Without --write it
fails if the committed file is another one."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE / "kvcache" / "_native.pyi"
INTEGERS = {"int", "long", "size_t", "int32_t", "uint32_t", "int64_t", "uint64_t"}
VIEW = "tuple[int, int, tuple[int, ...], tuple[int, ...]]"
HAND_WRITTEN = '''
def kvc_live_objects() -> int: ...
def kvc_pack_tokens(tokens: Sequence[int]) -> memoryview: ...
def kvc_storage_export_dlpack(s: kvc_storage, plane: int, layer: int, owner: object) -> object: ...
def kvc_storage_dlpack_device(s: kvc_storage, plane: int, layer: int) -> tuple[int, int]: ...
def new_kvc_pool_configs(nelements: int) -> Any: ...
def delete_kvc_pool_configs(ary: Any) -> None: ...
def kvc_pool_configs_setitem(ary: Any, index: int, value: kvc_pool_config) -> None: ...
def new_kvc_group_configs(nelements: int) -> Any: ...
def delete_kvc_group_configs(ary: Any) -> None: ...
def kvc_group_configs_setitem(ary: Any, index: int, value: kvc_group_config) -> None: ...
def new_kvc_request_configs(nelements: int) -> Any: ...
def delete_kvc_request_configs(ary: Any) -> None: ...
def kvc_request_configs_setitem(ary: Any, index: int, value: kvc_request_config) -> None: ...

class Admitted:
    id: int
    known: int
    committed: int
    num_blocks: int
    quiet: int
    unreturned: int
    def __init__(self, manager: kvc_manager, id: int, known: int, committed: int, block_size: int, num_groups: int) -> None: ...
    def ids(self, first: int = ..., last: int = ...) -> list[list[int]]: ...
    def refresh(self) -> None: ...
    def grow(self, tokens: int) -> Optional[list[list[int]]]: ...
    def commit(self, tokens: Sequence[int], count: int) -> None: ...

class SlotAllocator:
    def __init__(self, live: dict[str, Admitted], empty: Any, blocks_type: Any, max_model_len: int, publishes_at_once: bool) -> None: ...
    def allocate_slots(self, request: Any, num_new_tokens: int, num_new_computed_tokens: int = ..., new_computed_blocks: Any = ...,
                       num_lookahead_tokens: int = ..., num_external_computed_tokens: int = ..., delay_cache_blocks: bool = ...,
                       num_encoder_tokens: int = ..., full_sequence_must_fit: bool = ..., reserved_blocks: int = ...,
                       has_scheduled_reqs: bool = ..., skip_zeroing_group_ids: tuple[int, ...] = ...) -> Any: ...
'''


def read(*path):
    text = HERE.parent.joinpath(*path).read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


class Interface:
    def __init__(self):
        self.header, self.interface, self.calls = read("..", "include", "kvcache.h"), read("kvcache.i"), read("calls.i")
        text = self.interface
        self.pairs = {(m[1], m[2]): m[0] for m in re.findall(r"^KVC_(IN|OUT|IN_RECORDS|OUT_RECORDS)\(\w+, (?:[A-Z0-9]+, )?(\w+), (\w+)\)", text, re.M)}
        self.results = set(re.findall(r"^KVC_RESULT\(\w+, (\w+)\)", text, re.M))
        self.objects = re.findall(r"^KVC_OBJECT\((\w+), \w+\)", text, re.M)
        self.structs = re.findall(r"^KVC_STRUCT\((\w+)\)", text, re.M)
        self.ignored = set(re.findall(r"^%ignore ([\w:]+);", text, re.M))
        self.known = set(self.structs) | set(self.objects) | {"kvc_step"}

    def functions(self):
        for name, result, arguments in ((m[2], m[1], m[3]) for m in re.finditer(r"^KVC_API (.*?)\b(kvc_\w+)\((.*?)\);", self.header, re.M | re.S)):
            if name not in self.ignored and not name.endswith("_destroy"):
                yield name, result.strip(), arguments
        renamed = {m[1]: m[0] for m in re.findall(r"%rename\((\w+)\) (\w+);", self.calls)}
        macros = {m[1]: m[2].replace("\\\n", " ") for m in re.finditer(r"#define (KVC_ROWS|KVC_ATTENTION_ARRAYS)\b(?:\(CONST\))?((?:[^\n]*\\\n)*[^\n]*)", self.calls)}
        for m in re.finditer(r"^static (\w+) (\w+)\(([^{]*?)\) \{", self.calls, re.M):
            arguments = re.sub(r"KVC_ROWS\((const)?\)", lambda it: macros["KVC_ROWS"].replace("CONST", it[1] or ""), m[3])
            yield renamed[m[2]], m[1], arguments.replace("KVC_ATTENTION_ARRAYS", macros["KVC_ATTENTION_ARRAYS"])

    def signature(self, result, arguments):
        """(parameters, results) in Python."""
        fields = [re.match(r"(?:const )?(.*?)\s*(\**)(\w+)$", part.strip()).groups() for part in " ".join(arguments.split()).split(",") if part.strip() != "void"]
        parameters, results, at = [], [], 0
        while at < len(fields):
            kind, stars, name = fields[at]
            following = fields[at + 1][2] if at + 1 < len(fields) else ""
            at += 1
            if stars and (name, following) in self.pairs:
                parameters.append(f"{name}: Array")
                at += 1
            elif stars == "**":
                results.append(kind)
            elif kind == "kvc_view":
                results.append(VIEW)
            elif stars and name in self.results:
                results.append("int")
            elif stars:
                optional = name in ("stream", "selection", "keys", "values", "device") or kind == "kvc_request_config"
                known = "str" if kind == "char" else kind if kind in self.known else "Any"
                parameters.append(f"{name}: " + (f"Optional[{known}]" if optional else known))
            else:
                parameters.append(f"{name}: " + self.scalar(kind))
        if result not in ("kvc_status", "void"):
            results.insert(0, "str" if "char" in result else self.scalar(result))
        return ", ".join(parameters), "None" if not results else results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"

    @staticmethod
    def scalar(kind):
        return "int" if kind.split()[-1] in INTEGERS or kind == "kvc_status" else "float"

    def fields(self, struct):
        """(name, type) of what SWIG makes an attribute."""
        body = re.search(r"typedef struct " + struct + r" \{(.*?)\n\} " + struct + ";", self.header, re.S)[1]
        for declaration in body.split(";"):
            declaration = " ".join(declaration.split())
            if "(" in declaration or not declaration:
                continue
            kind, names = re.match(r"(?:const )?(\w+) (.*)", declaration).groups()
            for name in names.split(","):
                stars, name, length = re.match(r"\s*(\**)(\w+)(\[.*)?", name).groups()
                if name in self.ignored or f"{struct}::{name}" in self.ignored:
                    continue
                yield name, "str" if kind == "char" else "Any" if stars or length else self.scalar(kind)


def generate():
    interface = Interface()
    lines = ["# SPDX-License-Identifier: Apache-2.0", "# Written by stubs.py: the functions, structs and constants of kvcache.h under their names in C, internal to the package.",
             "from typing import Any, Optional, Sequence, Union", "", "Array = Union[Any, Sequence[int], None]  # a buffer, or a sequence of int that is copied", ""]
    constants = re.findall(r"\b(KVC_(?!API)[A-Z0-9_]+)(?= = -?\d)|^#define (KVC_MODEL_MAX_LAYERS|KVC_VERSION_\w+) \d", interface.header, re.M)
    lines += [f"{a or b}: int" for a, b in constants]
    for name in sorted(interface.objects):
        if name != "kvc_step":
            lines += ["", f"class {name}: ..."]
    for struct in [*interface.structs, "kvc_step"]:
        lines += ["", f"class {struct}:"]
        lines += [f"    {name}: {kind}" for name, kind in interface.fields(struct)]
        if struct == "kvc_model":
            lines += ["    def has_window(self, layer: int) -> int: ...", "    def set_window(self, layer: int) -> None: ..."]
    lines.append("")
    for name, result, arguments in interface.functions():
        parameters, results = interface.signature(result, arguments)
        lines.append(f"def {name}({parameters}) -> {results}: ...")
    return "\n".join(lines) + "\n" + HAND_WRITTEN


if __name__ == "__main__":
    if "--write" in sys.argv:
        TARGET.write_text(generate(), encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != generate():
        sys.exit(f"{TARGET} is not what kvcache.h says: run {sys.argv[0]} --write")
