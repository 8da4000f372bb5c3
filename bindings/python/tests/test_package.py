# SPDX-License-Identifier: Apache-2.0
"""What the package exports, and what importing it costs."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

import kvcache
from kvcache import _native, constants, records

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import kvcache_headers  # noqa: E402


def test_the_native_layer_has_every_function_and_constant_of_the_headers():
    headers = kvcache_headers.read()
    functions, constants_ = set(headers.functions), {name for name, value in headers.constants.items() if value.isdigit()}
    assert len(functions) > 50 and len(constants_) > 80
    by_owner = {name for name in functions if name.endswith("_destroy")}
    of_gpus = {f"kvc_device_{name}" for name in ("allocate", "release", "reserve_addresses", "map", "register", "unregister",
                                                         "export_memory", "import_memory")}
    of_gpus |= {"kvc_storage_set_attention", "kvc_stream_update_tables"}
    assert {name for name in functions | constants_ if not hasattr(_native, name)} == by_owner | of_gpus


def test_stubs_name_what_the_native_layer_has_with_as_many_parameters():
    stub = ast.parse((pathlib.Path(kvcache.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))
    functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    assert len(functions) > 80
    for node in stub.body:
        if isinstance(node, ast.AnnAssign):
            assert node.target.id == "Array" or isinstance(getattr(_native, node.target.id), int)
        elif isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    assert hasattr(getattr(_native, node.name), field.target.id), (node.name, field.target.id)
    for node in functions:
        function, count = getattr(_native, node.name), len(node.args.args)
        with pytest.raises(TypeError) as wrong:
            function(*[object()] * (count + 1))
        assert re.search(rf"expected (at most )?{count} argument|takes no arguments|takes exactly (one|{count} arguments)", str(wrong.value)), (node.name, str(wrong.value))


def test_enumerations_have_the_values_of_c():
    assert constants.Status.SKIPPED == _native.KVC_ERROR_SKIPPED == 13
    assert constants.DType.parse("bf16") == _native.KVC_BFLOAT16 == constants.DType.parse(8)
    assert constants.BlockState.FENCED == 6 and constants.Layout.BHLNC == 4


def test_records_have_the_fields_of_c():
    named = {name: record for name, record in vars(records).items() if hasattr(record, "_fields")}
    assert len(named) > 10
    for name, record in named.items():
        struct = getattr(_native, record.read.__annotations__["filled"].removeprefix("_native."))
        fields = {field for field, kind in vars(struct).items() if type(kind).__name__ == "getset_descriptor" and not field.startswith("_")}
        assert set(record._fields) == fields - {"this", "thisown"}, name
        zeros = struct()
        if name == "PageFileInfo":  # its kind is never 0
            zeros.kind = constants.PageFileKind.SLAB
        if name == "ScheduledInfo":  # nor is its state
            zeros.state = constants.ScheduledState.WAITING
        filled = record.read(zeros)
        assert all(getattr(filled, field) == getattr(zeros, field) for field in record._fields)


def test_each_module_can_be_imported_first():
    package = pathlib.Path(kvcache.__file__).parent
    modules = sorted(path.stem for path in package.glob("*.py") if not path.stem.startswith("__"))
    assert len(modules) > 12
    code = """
import importlib, pathlib, sys, types
package = types.ModuleType("kvcache")  # without __init__.py, which imports the modules in an order that works
package.__path__, sys.modules["kvcache"] = [sys.argv[1]], package
for name in sys.argv[2:]:
    importlib.import_module("kvcache." + name)
"""
    for first in modules:
        subprocess.run([sys.executable, "-c", code, str(package), first, *reversed(modules)], check=True)


def test_no_module_imports_one_that_imports_it():
    """Also not inside functions, or for type checkers only."""
    package = pathlib.Path(kvcache.__file__).parent
    imports = {}
    for path in package.glob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom) and node.level == 1]
        imports[path.stem] = {name for node in nodes for name in ([node.module] if node.module else [alias.name for alias in node.names])} - {"_native"}

    reached = {name: set(others) for name, others in imports.items()}
    for _ in imports:
        reached = {name: others.union(*(reached.get(other, ()) for other in others)) for name, others in reached.items()}
    assert {name for name, others in reached.items() if name in others} == set()


def test_importing_loads_neither_numpy_nor_torch():
    code = "import sys, kvcache; print(sorted(name for name in ('numpy', 'torch') if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_the_version_is_that_of_the_library():
    assert kvcache.__version__ in kvcache.build_info()
