# SPDX-License-Identifier: Apache-2.0
"""What may be passed as an array, and that nothing else is taken."""

import array
import ast
import pathlib

import numpy as np
import pytest

import kvcache


@pytest.fixture
def m():
    with kvcache.Manager(64, block_size=4) as manager:
        yield manager


@pytest.mark.parametrize("make", [list, tuple, range, lambda n: np.array(n, np.int32), lambda n: array.array("i", n),
                                  lambda n: memoryview(array.array("i", n)), iter])
def test_tokens_come_in_any_sequence_of_int32(m, make):
    n = [5, 6, 7, 8, 9]
    tokens = range(5, 10) if make is range else make(n)
    with m.allocate(tokens) as r:
        r.commit(5)
    assert m.probe(n).num_cached == 4


@pytest.mark.parametrize("tokens, error, text", [
    (np.arange(5), TypeError, r"^tokens is int64; it must be int32: pass x.astype\(np.int32\)$"),
    (np.arange(5, dtype=np.float32), TypeError, "tokens is float32; it must be int32"),
    (np.arange(10, dtype=np.int32)[::2], (ValueError, BufferError), "contiguous"),
    (np.arange(5, dtype=">i4"), TypeError, r"tokens is int32 in another byte order; it must be int32: pass x.astype\(np.int32\)"),
    ([1, 2**31], ValueError, r"tokens\[1\] is 2147483648; it must be from 0 to 2147483647"),
    ([1, 2**70], OverflowError, r"tokens\[1\] is 1180591620717411303424; it must be from 0 to 2147483647"),
    ([1, 1.5], TypeError, r"tokens\[1\] is 1.5; it must be an int"),
    (["a"], TypeError, r"tokens\[0\] is 'a'; it must be an int"),
    (2**40, ValueError, "1099511627776"),
    (object(), TypeError, "tokens is object; it must be an array of int32, or a sequence of int"),
])
def test_other_arrays_are_refused_with_the_reason(m, tokens, error, text):
    before = m.digest()
    with pytest.raises(error, match=text):
        m.allocate(tokens)
    assert m.digest() == before


def test_outputs_must_be_writable_and_long_enough(m):
    with m.allocate(range(9)) as r:
        out = np.empty(3, np.int32)
        assert r.block_table(out=out) is out
        out.flags.writeable = False
        with pytest.raises((ValueError, BufferError), match="(?i)writ|read-only"):
            r.block_table(out=out)
        with pytest.raises(TypeError, match=r"out is int64 \[3\].*np.empty\(shape, np.int32\)"):
            r.block_table(out=np.empty(3, np.int64))
        with pytest.raises(TypeError, match="out is list; it must be int32"):
            r.block_table(out=[0, 0, 0])


def test_buffers_are_released_after_success_and_after_failure(m):
    tokens = array.array("i", range(5))
    m.allocate(tokens).free()
    with pytest.raises(ValueError):
        m.allocate(array.array("i", [-1]))
    tokens.append(5)  # BufferError while a view is held
    with pytest.raises(TypeError):
        kvcache._native.kvc_manager_allocate_request(m._m, tokens, "no keys", None)
    tokens.append(6)


def concatenations(tree):
    """Lines that add to a bytes or a str in a loop: each copies all that is there."""
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        texts = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = zip(target.elts, node.value.elts) if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) else [(target, node.value)]
                    texts |= {ast.dump(name) for name, value in pairs if isinstance(value, ast.Constant) and isinstance(value.value, (bytes, str))}
        for loop in ast.walk(function):
            if isinstance(loop, (ast.For, ast.While)):
                yield from (node.lineno for node in ast.walk(loop)
                            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and ast.dump(node.target) in texts)


def test_no_argument_is_built_by_concatenation():
    assert list(concatenations(ast.parse("def f(x):\n  a, n = b'', 0\n  for y in x:\n    a += y\n"))) == [4]
    found = {path.name: lines for path in pathlib.Path(kvcache.__file__).parent.rglob("*.py") if (lines := list(concatenations(ast.parse(path.read_text()))))}
    assert not found, "a time that grows with the square of the number of keys: append to a list, and join it"


def test_keys_are_packed_one_behind_the_other():
    keys = [kvcache.ExtraKey(64 * i, 40, i.to_bytes(32, "little")) for i in range(1000)]
    packed = kvcache.request.pack_keys(keys)
    assert packed == b"".join(n.to_bytes(8, "little") for i in range(1000) for n in (64 * i, 40, i, 0, 0, 0))
    assert kvcache.request.pack_keys([]) is None and kvcache.request.pack_keys(None) is None
