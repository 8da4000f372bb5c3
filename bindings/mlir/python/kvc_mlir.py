# SPDX-License-Identifier: Apache-2.0
"""Programs of the kvc dialect from Python, as text: Debian's packages of MLIR 19 have no Python modules.

    from kvc_mlir import Module, PagedCache, tensor

    cache = PagedCache("f16", layers=2, kv_heads=8, head_dim=128, block=16, blocks=4096)
    rows, out = tensor(None, 8, 128), tensor(None, 32, 128)
    module = Module()
    with module.function("layer", cache, rows, rows, tensor(None, element="i64"), "index", results=[rows]) as f:
        c, k, v, slots, layer = f.arguments
        f.append_kv(k, v, c, layer, slots=slots)
        found, _ = f.lookup_kv(c, layer, slots=slots, keys=k, values=v)
        f.returns(found)
    print(module.verify())     # as kvc-opt prints it; MlirError has its diagnostics
    module.opt("kvc-remove-dead-lookups")

A function has a method for each op of the dialect, with the operands' names of docs/MLIR.md; `op` makes any other op, `text` takes lines of MLIR.
This module knows names, not rules: kvc-opt verifies. kvc-opt and kvc-run are found in KVC_MLIR_BIN, else in PATH."""
import contextlib
import dataclasses
import inspect
import math
import os
import shutil
import subprocess
import tempfile

__all__ = ["MlirError", "Module", "OPS", "PagedCache", "Value", "memref", "tensor"]

# Operands ("?": may be absent; "=": a destination, whose tensor is a result), attributes, and results of each op; None is the type that the
# caller gives.
OPS = {
    "create_manager": ("", {"num_blocks": "i64", "block_size": "i64"}, ["!kvc.manager"]),
    "destroy_manager": ("manager", {}, []),
    "allocate": ("manager tokens", {}, ["!kvc.request", "index", "i32"]),
    "append": ("manager request tokens", {}, ["i32"]),
    "commit": ("manager request count", {}, ["i32"]),
    "lookup": ("manager tokens", {}, ["index", "i32"]),
    "free": ("manager request", {}, ["i32"]),
    "slots": ("manager request first slots", {}, ["i32"]),
    "block_table": ("manager request table", {}, ["i32"]),
    "step": ("manager requests committed offsets tokens tables slots statuses", {}, ["i32"]),
    "request_id": ("request", {}, ["i64"]),
    "require": ("status", {}, []),
    "create_cache": ("", {"tiled_keys": "unit"}, [None]),
    "adopt_memref": ("memory", {}, [None]),
    "export_memref": ("cache", {}, [None]),
    "cache_of": ("storage", {}, [None]),
    "destroy_cache": ("cache", {}, []),
    "append_kv": ("keys values cache layer slots? table? first?", {}, []),
    "lookup_kv": ("cache layer slots? table? first? keys= values=", {}, []),
    "paged_attention": ("queries cache layer tables lens offsets? mask? mask_offsets? mask_starts? sink_logits? alibi_slopes? out=",
                        {"scale": "f32", "soft_cap": "f32", "window": "i64", "sinks": "i64", "bidirectional": "unit"}, []),
}


class MlirError(Exception):
    """What kvc-opt or kvc-run said when it failed."""


@dataclasses.dataclass(frozen=True)
class PagedCache:
    """The type !kvc.paged_cache."""

    element: str
    layers: int
    kv_heads: int
    head_dim: int
    block: int
    blocks: int

    def __str__(self):
        return f"!kvc.paged_cache<{self.element}, {self.layers}, {self.kv_heads}, {self.head_dim}, {self.block}, {self.blocks}>"

    @property
    def memref(self):
        """The type of its memory, for adopt_memref and export_memref."""
        return memref(self.layers, self.blocks, 2, self.kv_heads, self.block, self.head_dim, element=self.element)


def _shaped(kind, sizes, element):
    return f"{kind}<{''.join(f'{size}x' if size is not None else '?x' for size in sizes)}{element}>"


def tensor(*sizes, element="f32"):
    """The type of a tensor; None is a size that is not known."""
    return _shaped("tensor", sizes, element)


def memref(*sizes, element="f32"):
    """The type of a memref; None is a size that is not known."""
    return _shaped("memref", sizes, element)


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of a program: its name with %, and its type."""

    name: str
    type: str

    def __str__(self):
        return self.name


class Function:
    """Builds a function, op by op. `arguments` are its values."""

    def __init__(self, name, types, results, private):
        self.arguments = tuple(Value(f"%a{i}", str(kind)) for i, kind in enumerate(types))
        signature = ", ".join(f"{it}: {it.type}" for it in self.arguments)
        visibility = "private " if private else ""
        self._lines = [f"func.func {visibility}@{name}({signature}) -> ({', '.join(map(str, results))}) {{"]
        self._depth, self._count, self._returned = 1, 0, False

    def text(self, text):
        """Lines of MLIR as they are; names of values may stand in them."""
        self._lines += ["  " * self._depth + line for line in text.splitlines()]

    def op(self, name, operands=(), results=(), attributes=None):
        """Any op, in MLIR's generic form. Attributes are texts. Gives None, the result, or a tuple of results."""
        values = tuple(Value(f"%{self._count + i}", str(kind)) for i, kind in enumerate(results))
        self._count += len(values)
        made = f"{', '.join(map(str, values))} = " if values else ""
        given = ", ".join(f"{key} = {value}" if value is not None else key for key, value in (attributes or {}).items())
        types = f"({', '.join(it.type for it in operands)}) -> ({', '.join(it.type for it in values)})"
        self.text(f'{made}"{name}"({", ".join(map(str, operands))}){f" {{{given}}}" if given else ""} : {types}')
        return values if len(values) > 1 else values[0] if values else None

    def constant(self, value, kind="index"):
        """A constant: a number, or for a tensor the text dense<...>."""
        return self.op("arith.constant", (), [kind], {"value": _attribute(value, kind)})

    @contextlib.contextmanager
    def loop(self, first, end):
        """A loop over first .. end - 1, values or numbers; gives its index."""
        first, end, one = (it if isinstance(it, Value) else self.constant(it) for it in (first, end, 1))
        index = Value(f"%{self._count}", "index")
        self._count += 1
        self.text(f"scf.for {index} = {first} to {end} step {one} {{")
        self._depth += 1
        yield index
        self._depth -= 1
        self.text("}")

    def returns(self, *values):
        """Ends the function."""
        self.op("func.return", values)
        self._returned = True

    def _end(self):
        if not self._returned:
            self.returns()
        self._lines.append("}")
        return "\n".join(self._lines)


# Of a kind of float: the bits of NaN, infinity and -infinity, for which MLIR has no other text.
_SPECIAL = {"bf16": ("0x7FC0", "0x7F80", "0xFF80"), "f16": ("0x7E00", "0x7C00", "0xFC00"),
            "f32": ("0x7FC00000", "0x7F800000", "0xFF800000"),
            "f64": ("0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000")}


def _attribute(value, kind):
    """The text of an attribute; None if its name says all."""
    if kind == "unit":
        return None
    if kind in _SPECIAL:
        special = _SPECIAL[kind][0 if math.isnan(value) else 1 if value > 0 else 2] if not math.isfinite(value) else None
        return f"{special or format(value, '.16e')} : {kind}"
    return str(value).lower() if isinstance(value, bool) else f"{value} : {kind}"


def _method(name, operands, attributes, results):
    """The method of an op. Attributes and optional operands are given by name."""
    names = [it.rstrip("?=") for it in operands.split()]
    optional = {it[:-1] for it in operands.split() if it.endswith("?")}
    targets = [it[:-1] for it in operands.split() if it.endswith("=")]
    kinds = inspect.Parameter
    parameters = [kinds(it, kinds.POSITIONAL_OR_KEYWORD) for it in ["self"] + [it for it in names if it not in optional and it not in targets]]
    parameters += [kinds(it, kinds.KEYWORD_ONLY, default=None if it in optional else kinds.empty) for it in names if it in optional or it in targets]
    parameters += [kinds("type", kinds.KEYWORD_ONLY)] if None in results else []
    needed = {} if name != "create_manager" else attributes
    parameters += [kinds(it, kinds.KEYWORD_ONLY, default=kinds.empty if it in needed else None) for it in attributes]
    signature = inspect.Signature(parameters)

    def method(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        values = [given.get(it) for it in names]
        made = [given["type"] if kind is None else kind for kind in results]
        made += [given[it].type for it in targets if given[it].type.startswith("tensor")]
        chosen = {it: _attribute(given[it], kind) for it, kind in attributes.items() if given.get(it) is not None and given[it] is not False}
        if optional:
            chosen["operandSegmentSizes"] = f"array<i32: {', '.join(str(int(it is not None)) for it in values)}>"
        return given["self"].op(f"kvc.{name}", [it for it in values if it is not None], made, chosen)

    method.__name__, method.__signature__ = name, signature
    method.__doc__ = f"The op kvc.{name}. Types: those of the operands{', `type` for the result' if None in results else ''}."
    return method


for _name, _row in OPS.items():
    setattr(Function, _name, _method(_name, *_row))


def _tool(name):
    folder = os.environ.get("KVC_MLIR_BIN")
    path = shutil.which(name, path=folder)
    if path is None:
        raise MlirError(f"{name} is not in {folder or 'PATH'}: run scripts/mlir, and set KVC_MLIR_BIN to build/mlir/bin")
    return path


def _run(command, text=None):
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()
        raise MlirError(said or f"{os.path.basename(command[0])} ended with {result.returncode}")
    return result.stdout


class Module:
    """A program: functions, and lines of MLIR."""

    def __init__(self):
        self._parts = []

    def __str__(self):
        return "\n\n".join(self._parts) + "\n"

    def text(self, text):
        """Adds what stands beside functions, such as a function written by hand."""
        self._parts.append(text)

    @contextlib.contextmanager
    def function(self, name, *types, results=(), private=False):
        """Adds a function with arguments of these types: with module.function(...) as f."""
        function = Function(name, types, results, private)
        yield function
        self._parts.append(function._end())

    def opt(self, *passes):
        """The module after passes of kvc-opt, in order, as text; MlirError if it is wrong."""
        pipeline = [f"--pass-pipeline=builtin.module({','.join(passes)})"] if passes else []
        return _run([_tool("kvc-opt"), *pipeline], str(self))

    def verify(self):
        """The module as kvc-opt prints it; MlirError with its diagnostics if it is wrong."""
        return self.opt()

    def run(self, entry="main", lowering="both", bound=2e-5, finite_rows=False):
        """Runs a function whose arguments are memrefs of static size. Gives a list of numbers for each; with lowering "both" kvc-run compares
        the library with the reference first, and MlirError says so if they differ. finite_rows: no row of a cache is NaN or infinite, so
        attention under a mask may be fused."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.mlir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(self))
            try:
                output = _run([_tool("kvc-run"), path, f"--entry={entry}", f"--lowering={lowering}", f"--bound={bound}", "--print"] + ["--finite-rows"] * finite_rows)
            except MlirError as error:
                raise MlirError(str(error).replace(path, "program")) from None
        numbers = [[int(it) if it.lstrip("-").isdigit() else float(it) for it in line.split(":")[1].split()] for line in output.splitlines() if line.startswith("argument ")]
        return numbers[: len(numbers) // 2] if lowering == "both" else numbers
