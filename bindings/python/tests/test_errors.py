# SPDX-License-Identifier: Apache-2.0
"""Errors name what is wrong, in the words of Python: the argument, its value, the limit and the fix."""

import builtins
import pathlib
import re
import sys

import numpy as np
import pytest

import kvcache
from kvcache import Manager, Status, Step, Storage, _arrays, errors

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import kvcache_headers  # noqa: E402


@pytest.fixture
def m():
    with Manager(16, 4) as manager:
        yield manager


# ---- items of a step

def test_each_failed_item_of_a_step_has_an_error():
    with Manager(4, 4) as m, Step(m, 2, 16, 8, max_frees=2, max_admissions=2, max_prompt_tokens=80) as step:
        assert step.error is None and step.errors == []
        a, b = m.allocate(range(7)), m.allocate(range(10, 17))
        step.requests[:], step.committed[:], step.extend_offsets[:] = [a.id, b.id], 7, [0, 1, 8]
        step.extend_tokens[:8] = range(8)
        step.frees[1], step.admit_offsets[:], step.admit_tokens[:32] = 12345, [0, 16, 32], range(32)
        step.num_requests, step.num_frees, step.num_admissions = 2, 2, 2
        step.run()
        items = [("frees", 0), ("frees", 1), ("requests", 1), ("admissions", 0), ("admissions", 1)]
        kinds = [kvcache.NotFoundError, kvcache.NotFoundError, kvcache.NoSpaceError, kvcache.NoSpaceError, kvcache.KvCacheError]
        found = step.errors
        assert step.num_failed == len(found) == 5
        assert [error.item for error in found] == items and [type(error) for error in found] == kinds
        assert [error.status for error in found] == [status for status in step.status[:6].tolist() if status]
        assert str(found[0]) == str(step.error) == "frees[0]: no request 0: the id is not set; ids are never 0" and step.error.item == ("frees", 0)
        assert str(found[2]) == "requests[1]: NO_SPACE: Too few blocks are free or evictable. Preempt a request, or wait until one is freed."
        assert re.match(r"admissions\[1\]: SKIPPED: An admission before it was refused", str(found[4]))
        step.num_requests = step.num_frees = step.num_admissions = 0  # the errors are of the last run
        assert [error.item for error in step.errors] == items
        with pytest.raises(kvcache.NotFoundError, match="frees"):
            raise step.error
        step.run()
        assert step.error is None and step.errors == []
        a.close()
        b.close()


def test_the_first_error_is_the_first_in_the_order_of_the_phases():
    """The commit of a request comes before the frees, and with a text: value, limit and fix."""
    with Manager(8, 4) as m, Step(m, 1, 4, 8, max_frees=1) as step, m.allocate(range(4)) as r:
        step.requests[0], step.committed[0], step.frees[0] = r.id, 99, 7
        step.num_requests = step.num_frees = 1
        step.run()
        assert step.error.item == ("requests", 0) and re.match(r"requests\[0\]: .*99.*4", str(step.error)), str(step.error)
        assert [error.item for error in step.errors] == [("frees", 0), ("requests", 0)] and str(step.errors[1]) == str(step.error)
        try:
            m.request(1)  # another failure of this thread does not change the text
        except kvcache.NotFoundError:
            pass
        assert "99" in str(step.error) and kvcache.KvCacheError.item is None


def test_options_of_admissions_have_errors_too():
    with Manager(8, 4) as m, Step(m, 1, 1, 1, max_admissions=1, max_prompt_tokens=4) as step:
        step.admit_offsets[1], step.admit_tokens[:4], step.num_admissions = 4, range(4), 1
        step.run([kvcache.RequestOptions(namespace=77)])
        assert isinstance(step.error, kvcache.NotFoundError) and str(step.error).startswith("admissions[0]: no namespace 77")


# ---- arguments

HEADS = np.zeros((3, 2, 16), np.float32)  # [tokens, heads, head_dim]


def storage():
    return Storage(8, 1, 2, 16, dtype="float32", block_size=16)


@pytest.mark.parametrize("call, error, text", [
    (lambda m: Storage(8, 1, 1, 8, layout="LBHNC"), TypeError, "layout is 'LBHNC'; it must be a kvcache.Layout, such as kvcache.Layout.LBHNC"),
    (lambda m: Storage(8, 1, 1, 8, memory_kind="host"), TypeError, "memory_kind is 'host'; it must be a kvcache.MemoryKind"),
    (lambda m: Storage(8, 1, 1, 8, flags="LATENT"), TypeError, "flags is 'LATENT'; it must be kvcache.StorageFlags"),
    (lambda m: m.allocate([1], flags="NO_READ"), TypeError, "flags is 'NO_READ'; it must be kvcache.RequestFlags"),
    (lambda m: Storage(8, 1, 1, 8, dtype="int32"), ValueError, "dtype is int32; keys and values are stored as float, fp8, int8 or int4$"),
    (lambda m: Storage(8, 1, 1, 8, dtype=np.float32), TypeError, "dtype is <class 'numpy.float32'>; it must be a kvcache.DType, or one of the names int8"),
    (lambda m: Storage(8, 1, 1, 8, dtype=99), ValueError, "dtype is 99; it must be a kvcache.DType"),
    (lambda m: kvcache.find_model("llama-3.1-8b").estimate("int32"), ValueError, "dtype is int32; "),
    (lambda m: Manager(8, groups=kvcache.Group(4)), TypeError, r"groups is Group\(window_tokens=4.*pass groups=\[kvcache.Group\(...\)\]"),
    (lambda m: Manager(8, groups=None), TypeError, "groups is None; it must be a sequence of kvcache.Group"),
    (lambda m: Manager(8, groups=[kvcache.Group(), (4, 0, 0, 0)]), TypeError, r"groups\[1\] is \(4, 0, 0, 0\); it must be a kvcache.Group"),
    (lambda m: Manager(memory=8 << 30), TypeError, r"memory is 8589934592; it must be a kvcache.Memory: pass model.memory\(budget_bytes=...\)"),
    (lambda m: Step(m, 1, 1, 1).run(kvcache.RequestOptions()), TypeError, r"admit_options is RequestOptions; it must be a list .*pass \[options\]"),
    (lambda m: Step(m, 1, 1, 1).run(3), TypeError, "admit_options is int; it must be a list"),
    (lambda m: m.request(m.create([1])), TypeError, "id is <kvcache.Request .*>; it must be an int: use the Request itself"),
    (lambda m: m.request("12"), TypeError, "request is '12'; it must be an int"),
    (lambda m: m.request(999), kvcache.NotFoundError, "no request 999"),
    (lambda m: m.allocate({1, 2}), TypeError, "tokens is set; it must be an array of int32, or a sequence of int such as a list"),
    (lambda m: m.allocate({1: 2}), TypeError, "tokens is dict; it must be"),
    (lambda m: m.allocate([1, True]), TypeError, r"tokens\[1\] is True; it must be an int"),
    (lambda m: m.allocate(np.array([True])), TypeError, r"tokens is .*; it must be int32"),
    (lambda m: m.create([1]).append(True), TypeError, "tokens is True; it must be an int"),
    (lambda m: m.release_blocks({1}), TypeError, "blocks is set; it must be an array of int32"),
    (lambda m: m.acquire_blocks(-1), ValueError, "num_blocks is -1; it must be at least 0"),
    (lambda m: m.compact(max_moves=-1), ValueError, "max_moves is -1; it must be at least 0"),
    (lambda m: m.create([1]).slots(0, -1), ValueError, "num_tokens is -1; it must be at least 0"),
    (lambda m: storage().gather([1], num_layers=-1), ValueError, "num_layers is -1; it must be at least 0"),
    (lambda m: storage().store(HEADS.swapaxes(0, 1), HEADS, [0, 1, 2]), ValueError,
     r"k is float32 \[2, 3, 16\]; it must be .*\[layers \(optional\), tokens = 3, num_heads = 2, head_dim = 16\]; tokens and num_heads are exchanged: pass k.swapaxes\(0, 1\)$"),
    (lambda m: storage().store(HEADS[None], HEADS[None].swapaxes(2, 3), [0, 1, 2]), ValueError, r"v is .*; num_heads and v_head_dim are exchanged: pass v.swapaxes\(2, 3\)$"),
    (lambda m: storage().store(HEADS, HEADS, [0, 1]), ValueError, r"k is float32 \[3, 2, 16\]; .*; slots has tokens = 2: make both equal$"),
    (lambda m: kvcache.apply_rope(HEADS.copy(), kvcache.rope_table(np.ones(8), 9), [1, 2]), ValueError, r"rows is .*\[tokens = 3\]; x has tokens = 3: make both equal$"),
    (lambda m: storage().attend(np.zeros((2, 5, 16), np.float32), [0, 2], [3], np.zeros((1, 1), np.int32)), ValueError,
     "q has 5 heads; they must be a multiple of the storage's 2 heads"),
    (lambda m: storage().attend(np.zeros((2, 4, 16), np.float32), [0, 2], [30], np.zeros((1, 1), np.int32)), ValueError,
     "request 0: 30 tokens need 2 entries of block_tables; a row has 1$"),
])
def test_the_argument_that_is_wrong_is_named(m, call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call(m)


def test_ids_come_back_as_plain_numbers(m):
    with m.allocate([1, 2, 3, 4, 5]) as r:
        r.commit(5)
        again = m.request(np.uint64(r.id))
        assert type(again.id) is int and again.id == r.id and again.num_cached == 0
    with m.allocate([1, 2, 3, 4, 5]) as r:
        assert m.request(r.id).num_cached == r.num_cached == 4


def test_a_model_with_too_many_layers_is_refused_at_once():
    """Not after a look at each of them."""
    model = kvcache.Model(name="test/deep", num_layers=2**32 - 1, num_kv_heads=1, head_dim=8, max_context=64)
    assert model.window_layers == []
    with pytest.raises(ValueError, match="num_layers is 4294967295"):
        model.register()


# ---- limits

LIMITS = [(lambda m, name, value: Manager(**{"num_blocks": 8, name: value}),
           ["num_blocks", "block_size", "max_nodes", "max_requests", "max_request_tokens", "event_capacity", "watermark_blocks", "vocab_size"]),
          (lambda m, name, value: Manager([value]), ["num_blocks"]),
          (lambda m, name, value: Storage(**{"num_blocks": 8, "num_layers": 1, "num_heads": 1, "head_dim": 8, name: value}),
           ["num_layers", "num_heads", "head_dim", "v_head_dim", "block_size", "alignment", "num_threads"]),
          (lambda m, name, value: Step(**{"manager": m, "max_requests": 1, "max_tokens": 1, "row_stride": 1, name: value}),
           ["max_requests", "max_tokens", "row_stride", "max_admissions", "max_prompt_tokens", "max_frees", "max_rows", "max_changes"]),
          (lambda m, name, value: storage().attend(np.zeros((1, 2, 16), np.float32), [0, 1], [1], np.zeros((1, 1), np.int32), **{name: value}), ["window", "sinks"])]


@pytest.mark.parametrize("call, name", [(call, name) for call, names in LIMITS for name in names])
def test_numbers_past_the_type_of_c_name_the_limit_that_counts(m, call, name):
    """It is that of the library, which refuses the next number in the words of its own."""
    limits = set()
    for value in (-1, -2**70, 2**70):
        with pytest.raises(OverflowError, match=rf"^{name} is {value}; it must be from \d+ to \d+$") as raised:
            call(m, name, value)
        limits.add(tuple(map(int, re.findall(r"from (\d+) to (\d+)", str(raised.value))[0])))
    (least, most), = limits
    with pytest.raises(kvcache.KvCacheError) as raised:
        call(m, name, most + 1)
    told = str(raised.value).replace("2^31 - 1", str(2**31 - 1)).replace("2^31", str(2**31)).replace("2^40", str(2**40))
    assert str(most) in told, told
    if least:
        with pytest.raises(kvcache.KvCacheError, match=rf"{least}"):
            call(m, name, least - 1)


@pytest.mark.parametrize("call, text", [
    (lambda m: m.evict(-1), "max_blocks is -1; it must be at least 0"), (lambda m: m.create([1]).commit(-1), "num_committed is -1; it must be at least 0"),
    (lambda m: Manager(8, seed=2**64), "seed is 18446744073709551616; it must be at most 18446744073709551615"),
    (lambda m: m.pool_info(2**32), "pool is 4294967296; it must be at most 4294967295"), (lambda m: m.block_info(2**31), "block is 2147483648; it must be from -2147483648 to 2147483647"),
])
def test_other_numbers_name_the_side_that_they_are_past(m, call, text):
    with pytest.raises(OverflowError, match=f"^{text}$"):
        call(m)


# ---- texts of the library

def test_texts_of_the_library_name_no_fields_that_python_does_not_have():
    fields = {field.name for struct in kvcache_headers.read(ROOT / "include").structs.values() for field in struct.fields if field.kind and "_" in field.name}
    package = "".join(path.read_text(encoding="utf-8") for path in pathlib.Path(kvcache.__file__).parent.glob("*.py"))
    parameters = set(re.findall(r"\b(\w+): ", package)) | {dim.strip("?*") for rule in _arrays.TABLE.values() for dim in rule.dims} - {"num_q_heads"}
    of_c = fields - parameters
    assert {"table_stride", "slot_capacity", "block_mask_stride", "change_capacity"} <= of_c
    texts = {text for name in ("api", "manager", "models", "plugin", "request", "storage", "tier") for path in (ROOT / "src" / name).rglob("*.cc")
             for text in re.findall(r'"((?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8")))}
    # Arrays on a device, and sizes of structs and elements that the package sets itself.
    unreachable = re.compile(r"max_kv_len|max_queries|struct_size|event_size|element_size|num_frequencies|copy_capacity|are needed for|num_tiers|q is NULL|first_bit|entries of block_table$")
    named = {text for text in map(errors.in_python, texts) if of_c & set(re.findall(r"\w+", text)) and not unreachable.search(text)}
    assert named == set()
    for text, wanted in (("the step extends by 4 tokens; slots has room for 2 (slot_capacity)", "the step extends by 4 tokens; slots has room for 2 (max_tokens)"),
                         ("num_q_heads is 3; it must be a multiple of the storage's 2 heads", "q has 3 heads; they must be a multiple of the storage's 2 heads"),
                         ("model.num_q_heads is 3; it must be a multiple", "model.num_q_heads is 3; it must be a multiple"),
                         ("kvc_rows.dtype is 3 (int32); it must be float32", "dtype is int32; it must be float32")):
        assert errors.in_python(text) == wanted
    assert {text for text in map(errors.in_python, texts) if re.search(r"dtype (is )?%d", text) and "give a type from" not in text} == set()


def test_statuses_have_a_meaning():
    for status in Status:
        if status != Status.OK:
            assert errors.meaning(status).endswith(".")


def test_the_text_is_that_of_the_failed_call_whatever_runs_meanwhile(monkeypatch):
    with kvcache.Manager(4) as m:
        imported, calls = builtins.__import__, []

        def calling(name, *more, **named):
            if name == "kvcache.errors" and not calls:
                calls.append(name)
                with pytest.raises(kvcache.KvCacheError, match="block 99"):
                    m.block_info(99)
            return imported(name, *more, **named)

        monkeypatch.setattr(builtins, "__import__", calling)
        with pytest.raises(kvcache.KvCacheError, match="block 77"):
            m.block_info(77)
        assert calls
