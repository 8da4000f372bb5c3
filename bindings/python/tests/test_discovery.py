# SPDX-License-Identifier: Apache-2.0
"""What users find by dir(), help(), repr() and from the texts of errors."""

import inspect
import pathlib
import re

import numpy as np
import pytest

import kvcache
from kvcache import _native, errors, records

ROOT = pathlib.Path(__file__).resolve().parents[3]
OF_C = re.compile(r"\b(kvc_[a-z_]+|KVC_[A-Z_0-9]+|u?int\d+_t|size_t)\b")


@pytest.fixture
def m():
    with kvcache.Manager(16, 4) as manager:
        yield manager


def test_the_module_lists_what_it_offers_and_nothing_else():
    names = dir(kvcache)
    assert {name for name in names if not name.startswith("__")} == set(kvcache.__all__) and "__version__" in names
    assert all(getattr(kvcache, name) is not None for name in names)
    with pytest.raises(AttributeError, match="no attribute 'manger'"):
        kvcache.manger
    of_errors = {name for name, value in vars(errors).items() if name[0] != "_" and isinstance(value, type) and issubclass(value, Exception)}
    assert len(of_errors) == 17 and of_errors < set(names) and all(getattr(kvcache, name) is getattr(errors, name) for name in of_errors)


def test_a_request_counts_its_tokens(m):
    with m.allocate([1, 2, 3]) as request:
        assert request.num_tokens == len(request) == 3
        request.append([4, 5])
        assert request.num_tokens == len(request) == 5
        request.commit(5)
        request.truncate(0)
        assert request.num_tokens == len(request) == 0 and request  # a request is true, however many tokens it has
    with pytest.raises(kvcache.NotFoundError):
        request.num_tokens


def test_objects_say_what_they_are_also_when_closed(m):
    request = m.allocate([1, 2, 3, 4, 5])
    request.commit(5)
    waiting = m.create([7])
    assert repr(m) == "<kvcache.Manager: 16 blocks of 4 tokens, 2 held, 0 cached, 1 requests admitted, 1 waiting>"
    assert repr(request) == f"<kvcache.Request {request.id:#x}: 5 tokens, 5 committed, 2 blocks>"
    assert repr(waiting) == f"<kvcache.Request {waiting.id:#x}: 1 tokens, waiting>"
    waiting.close()
    assert repr(waiting) == f"<kvcache.Request {waiting.id:#x}, freed>"
    pin, namespace = m.pin([1, 2, 3, 4, 5]), m.namespace(tenant=b"x")
    assert repr(pin) == f"<kvcache.Pin {pin.id:#x}: 4 tokens>" and repr(namespace) == f"<kvcache.Namespace {namespace.id:#x}>"
    pin.close()
    namespace.close()
    assert repr(pin) == f"<kvcache.Pin {pin.id:#x}, closed>" and repr(namespace) == f"<kvcache.Namespace {namespace.id:#x}, closed>"
    with kvcache.Step(m, 2, 2, 4) as step:
        step.requests[0], step.num_requests = request.id, 1
        step.use(committed=False, extend_offsets=False)
        step.run()
        assert repr(step) == "<kvcache.Step 1: 1 requests, 0 admissions, 0 frees, 0 preempts, 0 truncates>"
    assert repr(step) == "<kvcache.Step, closed>"
    with kvcache.Storage(8, 2, 3, 16, dtype="float32") as storage:
        assert repr(storage) == "<kvcache.Storage: 8 blocks of 16 tokens, 2 layers, 3 KV heads of 16, float32, LBHNC, 98304 bytes>"
        assert storage.dtype is kvcache.DType.FLOAT32 and storage.memory_kind is kvcache.MemoryKind.HOST and "block_bytes" in dir(storage)
    assert repr(storage) == "<kvcache.Storage, closed>"
    request.close()
    m.close()
    assert repr(m) == "<kvcache.Manager, closed>" and repr(request) == f"<kvcache.Request {request.id:#x}, its manager is closed>"


def test_a_closed_step_says_that_it_is_closed(m):
    step = kvcache.Step(m, 1, 1, 1)
    step.close()
    for use in (lambda: step.num_requests, lambda: step.step_id, lambda: setattr(step, "num_requests", 1), lambda: step.num_failed, step.run):
        with pytest.raises(ValueError, match="the step is closed"):
            use()


def offered():
    """The classes and functions of the package."""
    return [thing for thing in (getattr(kvcache, name) for name in kvcache.__all__) if callable(thing)]


def parameters(function):
    return {name: it.kind for name, it in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("function, struct, elsewhere", [
    (kvcache.Manager, "kvc_manager_config", {"flags", "num_groups", "pools", "num_pools"}),
    (kvcache.Manager.allocate, "kvc_request_config", set()), (kvcache.Manager.create, "kvc_request_config", set()),
    (kvcache.Storage, "kvc_storage_config", set()), (kvcache.Model, "kvc_model", set()), (kvcache.Model.estimate, "kvc_memory_query", set()),
    (kvcache.Model.memory, "kvc_memory_query", set()),
    (kvcache.Storage.attend, "kvc_attention", {"num_requests", "table_stride", "num_q_heads", "dtype", "flags", "block_mask_stride", "q_token_stride",
                                               "q_head_stride", "out_token_stride", "out_head_stride"}),
    (kvcache.Step, "kvc_step_limits", set()),
], ids=lambda it: getattr(it, "__qualname__", None))
def test_signatures_have_every_option_of_the_library(function, struct, elsewhere):
    fields = {name for name, value in vars(getattr(_native, struct)).items() if type(value).__name__ == "getset_descriptor" and not name.startswith("_")}
    assert fields - {"this", "thisown"} - elsewhere <= set(parameters(function))


def test_no_signature_takes_whatever_it_is_given():
    for thing in offered():
        for function in (thing, *vars(thing).values()):
            if inspect.isfunction(function) and function.__module__.startswith("kvcache") and not function.__name__.startswith("_") or inspect.isclass(function) and "__init__" in vars(function):
                kinds = parameters(function).values() if not issubclass(type(function), type(kvcache.Status)) else ()
                assert inspect.Parameter.VAR_KEYWORD not in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds, function
    assert list(parameters(kvcache.replay))[:3] == ["trace", "num_blocks", "block_size"] and "concurrency" in kvcache.replay.__doc__


def test_help_has_no_names_of_c():
    texts = [kvcache.__doc__]
    for thing in offered():
        texts += [inspect.getdoc(thing), *(inspect.getdoc(it) for key, it in vars(thing).items() if not key.startswith("_") and getattr(it, "__doc__", None))]
    texts += [record.__doc__ for record in vars(records).values() if hasattr(record, "_fields")]
    assert len(texts) > 200
    assert {found for text in texts for found in OF_C.findall(text or "")} <= {"KVC_BACKEND_PATH", "KVC_KERNELS", "KVC_PLUGIN_PATH"}  # variables of the environment


def test_results_describe_each_field():
    for record in (it for it in vars(records).values() if hasattr(it, "_fields")):
        described = [name for names in re.findall(r"^    ([a-z0-9_][a-z0-9_, ]*): \S", record.__doc__, re.M) for name in names.split(", ")]
        assert set(described) == set(record._fields), record


def test_texts_of_the_library_are_in_the_words_of_python():
    """All texts that a call from Python can raise."""
    literals = set()
    folders = [ROOT / "src" / name for name in ("api", "attention", "backend", "base", "checkpoint", "cpu", "manager", "models", "offload", "plugin", "quant", "request", "storage", "tier")]
    for folder in (*folders, ROOT / "gpu" / "backend"):
        for path in folder.rglob("*.cc"):
            code = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
            literals |= {text for text in re.findall(r'"((?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*)"', code) if OF_C.search(text)}
    assert len(literals) > 20
    # Structs, arrays on a device, callbacks, sizes of structs: no argument of Python leads there.
    unreachable = re.compile(r"^kvc_\w+$|KVC_(LAUNCH|ROWS|STREAM|POLICY)_|kvc_(device_allocate|step_create$|probe_info)|sizeof|parallel_for|KVC_BACKEND|KVC_TEXT|KVC_PLUGIN_PATH|plug-in .* said KVC_OK")
    left = {text for text in literals if OF_C.search(errors.in_python(text)) and not unreachable.search(text)}
    assert not left
    named = {name for text in literals for name in re.findall(r"(\w+(?:\.\w+)?)\(\)", errors.in_python(text))}
    assert "Step" in named
    for name in named:
        thing = kvcache
        for part in name.split("."):
            thing = getattr(thing, part)
    assert errors.in_python("kvc_storage_config.k_scale is -3") == "k_scale is -3"
    assert errors.in_python("KVC_LAUNCH_PLANNED without kvc_attention_launch.plan") == "Launch.planned without Launch.plan"
    assert errors.in_python("use KVC_MEMORY_HOST or KVC_STORAGE_LATENT") == "use MemoryKind.HOST or StorageFlags.LATENT"


@pytest.mark.parametrize("call, error, text", [
    (lambda m: m.allocate(None), TypeError, "tokens is None; it must be an array or a sequence of int"),
    (lambda m: m.create(None), TypeError, "tokens is None"),
    (lambda m: m.probe(None), TypeError, "tokens is None"),
    (lambda m: m.release_blocks(None), TypeError, "blocks is None"),
    (lambda m: m.allocate("words"), TypeError, r"tokens\[0\] is 'w'; it must be an int"),
    (lambda m: m.allocate(np.arange(3.0)), TypeError, r"tokens is float64; it must be int32: pass x.astype\(np.int32\)"),
    (lambda m: m.allocate(np.arange(3, dtype=np.uint8)), TypeError, r"tokens is uint8; it must be int32: pass x.astype\(np.int32\)"),
    (lambda m: m.allocate([1, 2**70]), OverflowError, r"tokens\[1\] is 1180591620717411303424; it must be from 0 to 2147483647"),
    (lambda m: m.allocate([1], keys=[3]), TypeError, r"keys\[0\] is 3; it must be an ExtraKey\("),
    (lambda m: m.allocate([1], namespace="x"), TypeError, "namespace is 'x'; it must be a kvcache.Namespace or its id"),
    (lambda m: m.allocate([1], slots=None), TypeError, "slots is None; it must be an int"),
    (lambda m: m.namespace("x"), TypeError, r"model is str; it must be bytes: pass x.encode\(\)"),
    (lambda m: kvcache.Manager("8"), TypeError, "num_blocks is '8'; it must be an int, or a sequence"),
    (lambda m: kvcache.Manager(8, block_size=-1), OverflowError, "block_size is -1; it must be from 0 to 1024"),
    (lambda m: kvcache.Manager(8, seed="x"), TypeError, "seed is 'x'; it must be an int"),
    (lambda m: kvcache.Step(None, 1, 1, 1), TypeError, "manager is NoneType; it must be a kvcache.Manager"),
    (lambda m: kvcache.Storage(8, 1, 1, 8, k_scale="x"), TypeError, "k_scale is 'x'; it must be a float"),
    (lambda m: kvcache.Storage(8, 1, 1, 8, k_scale=1e300), OverflowError, r"k_scale is 1e\+300, which is no 32-bit float"),
    (lambda m: kvcache.Storage(8, 1, 1, 8, device=3), TypeError, "device is 3; it must be a str"),
    (lambda m: kvcache.find_model(3), TypeError, "name is 3; it must be a str"),
    (lambda m: kvcache.Model(name="x" * 64), ValueError, "name is .* at most 63 bytes"),
    (lambda m: kvcache.Storage(8, 1, 1, 8).view("K"), TypeError, "plane is 'K'; it must be a kvcache.Plane, such as kvcache.Plane.K"),
])
def test_errors_name_the_argument_its_value_and_the_fix(m, call, error, text):
    before = m.digest()
    with pytest.raises(error, match=f"^{text}") as raised:
        call(m)
    assert not OF_C.search(str(raised.value)) and m.digest() == before


def test_steps_name_what_is_wrong_with_their_options(m):
    step = kvcache.Step(m, 1, 1, 1, max_admissions=1, max_prompt_tokens=4)
    step.num_admissions = 1
    with pytest.raises(TypeError, match=r"^admit_options\[0\] is int; it must be a kvcache.RequestOptions, or None$"):
        step.run([3])
