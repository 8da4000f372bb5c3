# SPDX-License-Identifier: Apache-2.0
"""The attention module for PyTorch beside torch's own scaled_dot_product_attention, eager and compiled. Skipped without torch."""

import os
import pathlib
import re
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import kvcache  # noqa: E402
from kvcache import Manager, Storage  # noqa: E402
from kvcache.integrations import torch_attention  # noqa: E402
from kvcache.integrations.torch_attention import Batch, PagedAttention, batch_of  # noqa: E402

torch.set_num_threads(1)
ROOT = pathlib.Path(__file__).resolve().parents[3]
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler"))]
Q_HEADS, HEADS, DIM, BLOCK = 6, 2, 32, 8
TYPES = {torch.float32: ("float32", 5e-5), torch.float16: ("float16", 2e-3), torch.bfloat16: ("bfloat16", 2e-2)}


def storage(dtype="float32", num_layers=1, **options):
    return Storage(64, num_layers, HEADS, DIM, dtype=dtype, block_size=BLOCK, **options)


def rows(tokens, heads, dtype=torch.float32, seed=0):
    return torch.randn(tokens, heads, DIM, generator=torch.Generator().manual_seed(seed)).to(dtype)


def visible(queries, length, window, sinks):
    """[queries, length]: what the last queries of `length` tokens see."""
    at, key = torch.arange(length - queries, length)[:, None], torch.arange(length)[None]
    return (key <= at) & ((key > at - window) | (key < sinks) if window else torch.ones(1, dtype=torch.bool))


def sdpa(q, k, v, window=0, sinks=0, **options):
    """torch's attention of the last tokens of one sequence: [tokens, heads, dim]."""
    spread = [each.repeat_interleave(len(q[0]) // len(each[0]), 1) for each in (k, v)]
    q, k, v = (each.transpose(0, 1)[None].float() for each in (q, *spread))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible(q.shape[2], k.shape[2], window, sinks), **options)
    return out[0].transpose(0, 1)


class Sequences:
    """Requests of a manager, and their queries, keys and values, which are the same each time."""

    def __init__(self, lengths, dtype=torch.float32):
        self.manager = Manager(64, BLOCK)
        self.requests = [self.manager.allocate(np.arange(length, dtype=np.int32) + 1000 * i) for i, length in enumerate(lengths)]
        self.dtype = dtype

    def of(self, i, first, last):
        return [rows(100, heads, self.dtype, 10 * i + part)[first:last] for part, heads in enumerate((Q_HEADS, HEADS, HEADS))]

    def step(self, attention, counts, call="forward"):
        """Computes the last tokens of each request; returns the results for each."""
        batch = batch_of(self.manager, self.requests, counts)
        ends = [len(request) for request in self.requests]
        parts = [self.of(i, end - count, end) for i, (end, count) in enumerate(zip(ends, counts))]
        out = getattr(attention, call)(*(torch.cat(each) for each in zip(*parts)), batch)
        return out.split(counts)

    def expected(self, i, count, **options):
        end = len(self.requests[i])
        q, k, v = self.of(i, 0, end)
        return sdpa(q[end - count:], k, v, **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("window, sinks", [(0, 0), (7, 0), (9, 3)])
def test_prefill_and_decode_are_those_of_sdpa(dtype, window, sinks):
    name, most = TYPES[dtype]
    attention = PagedAttention(storage(name), 0, window=window, sinks=sinks)
    it = Sequences([19, 8, 1], dtype)
    for i, out in enumerate(it.step(attention, [19, 8, 1], "prefill")):
        assert out.dtype == dtype and (out.float() - it.expected(i, len(out), window=window, sinks=sinks)).abs().max() < most
    for _ in range(10):
        for request in it.requests:
            request.append(5)
        for i, out in enumerate(it.step(attention, [1, 1, 1], "decode")):
            assert (out.float() - it.expected(i, 1, window=window, sinks=sinks)).abs().max() < most
    for request in it.requests[:2]:
        request.append([1, 2, 3])
    it.requests[2].append([4])
    for i, out in enumerate(it.step(attention, [3, 3, 1])):  # chunks and a decode in one step
        assert (out.float() - it.expected(i, len(out), window=window, sinks=sinks)).abs().max() < most


def test_options_are_those_of_the_library():
    """Scale, soft cap, sink logits and slopes: as Storage.attend, which has tests of its own, has them."""
    memory, it = storage(), Sequences([20])
    options = {"scale": 0.3, "soft_cap": 2.0, "causal": False}
    logits, slopes = torch.linspace(-1, 1, Q_HEADS), torch.linspace(0, 0.5, Q_HEADS, dtype=torch.float64)
    attention = PagedAttention(memory, 0, sink_logits=logits, alibi_slopes=slopes, **options)
    out, = it.step(attention, [20])
    wanted = memory.attend(it.of(0, 0, 20)[0].numpy(), [0, 20], [20], it.requests[0].block_table()[None], sink_logits=logits.numpy(),
                           alibi_slopes=slopes.float().numpy(), **options)
    assert np.array_equal(out.numpy(), wanted)
    assert not np.array_equal(wanted, it.step(PagedAttention(memory, 0), [20])[0].numpy())


def test_tensors_are_used_in_place(monkeypatch):
    """Parts of a fused projection, and the address of the queries and keys."""
    memory, it = storage(), Sequences([12])
    fused = torch.randn(12, (Q_HEADS + 2 * HEADS) * DIM, generator=torch.Generator().manual_seed(3))
    q, k, v = (part.unflatten(1, (-1, DIM)) for part in fused.split([Q_HEADS * DIM, HEADS * DIM, HEADS * DIM], 1))
    assert not q.is_contiguous()
    seen = []
    monkeypatch.setattr(Storage, "store", lambda self, *arguments, _was=Storage.store, **more: (seen.extend(arguments[:2]), _was(self, *arguments, **more))[1])
    monkeypatch.setattr(Storage, "attend", lambda self, *arguments, _was=Storage.attend, **more: (seen.append(arguments[0]), _was(self, *arguments, **more))[1])
    out = PagedAttention(memory, 0)(q, k, v, batch_of(it.manager, it.requests, 12))
    assert [array.ctypes.data for array in seen] == [each.data_ptr() for each in (k, v, q)]
    assert (out - sdpa(q, k, v)).abs().max() < 5e-5


def test_stored_keys_are_attended_without_new_ones():
    attention, it = PagedAttention(storage(), 0), Sequences([12])
    out, = it.step(attention, [12])
    batch = batch_of(it.manager, it.requests, 12)
    assert torch.equal(attention(it.of(0, 0, 12)[0], None, None, batch._replace(slots=None)), out)
    nothing = attention(*(each[:0] for each in it.of(0, 0, 12)), batch_of(it.manager, it.requests, 0))
    assert nothing.shape == (0, Q_HEADS, DIM)


def test_two_pools_have_a_storage_each():
    """Block ids of the second pool do not begin with 0."""
    manager = Manager([16, 16], BLOCK, groups=[kvcache.Group(), kvcache.Group(window_tokens=9, pool=1)])
    with manager.allocate(range(30)) as request:
        q, k, v = (rows(30, heads, seed=seed) for seed, heads in enumerate((Q_HEADS, HEADS, HEADS)))
        for group, window in ((0, 0), (1, 9)):
            memory = Storage(16, 1, HEADS, DIM, dtype="float32", block_size=BLOCK)
            batch = batch_of(manager, [request], 30, group=group, pool=group)
            assert (batch.block_tables < 16).all() and (batch.slots < 16 * BLOCK).all()
            assert (PagedAttention(memory, 0, window=window)(q, k, v, batch) - sdpa(q, k, v, window)).abs().max() < 5e-5


def test_latent_rows_have_no_values():
    memory = Storage(8, 1, 1, 48, v_head_dim=32, dtype="float32", block_size=BLOCK, flags=kvcache.StorageFlags.LATENT)
    q, k = torch.randn(10, 4, 48), torch.randn(10, 1, 48)
    with Manager(8, BLOCK) as manager, manager.allocate(range(10)) as request:
        out = PagedAttention(memory, 0)(q, k, None, batch_of(manager, [request], 10))
        logits = (torch.einsum("qhd,kd->hqk", q, k[:, 0]) / 48**0.5).masked_fill(~visible(10, 10, 0, 0), -torch.inf)
        assert (out - torch.einsum("hqk,kd->qhd", logits.softmax(-1), k[:, 0, :32])).abs().max() < 5e-5


# ---- errors

def arguments(**changes):
    it = Sequences([12])
    q, k, v = it.of(0, 0, 12)
    named = {"q": q, "k": k, "v": v, "batch": batch_of(it.manager, it.requests, 12)}
    named.update({name: change(named[name]) for name, change in changes.items()})
    return list(named.values())


@pytest.mark.parametrize("changes, error, text", [
    ({"q": lambda q: q.requires_grad_()}, ValueError, r"q requires grad; this attention has no backward: call it under torch.no_grad\(\) or"),
    ({"v": lambda v: v.clone().requires_grad_()}, ValueError, "v requires grad"),
    ({"q": lambda q: q.double()}, TypeError, r"q is torch.float64; it must be torch.float32, torch.bfloat16 or torch.float16: pass q.to\(torch.float32\)"),
    ({"q": lambda q: q[None]}, ValueError, r"q is \[1, 12, 6, 32\]; it must be \[tokens, q_heads, head_dim = 32\]"),
    ({"q": lambda q: q[:, :5]}, ValueError, "q has 5 heads; they must be a multiple of the storage's 2 heads"),
    ({"q": lambda q: q[:, :0]}, ValueError, "q has 0 heads; they must be a multiple of the storage's 2 heads"),
    ({"q": lambda q: q[0, 0]}, ValueError, r"q is \[32\]; it must be"),
    ({"k": lambda k: k.transpose(0, 1)}, ValueError, r"k is \[2, 12, 32\]; it must be \[tokens = 12, num_heads = 2, head_dim = 32\]"),
    ({"k": lambda k: k[:, :1].expand(12, 2, 32)}, ValueError, r"k has strides \(64, 0, 1\); the last must be 1 and the others positive: pass k.contiguous\(\)"),
    ({"v": lambda v: v.transpose(1, 2).contiguous().transpose(1, 2)}, ValueError, r"v has strides .*: pass v.contiguous\(\)"),
    ({"v": lambda v: v.half()}, TypeError, "v is float16 and k float32; they must be of one type"),
    ({"k": lambda k: None}, ValueError, "v is given without k"),
    ({"batch": lambda b: b._replace(slots=None)}, ValueError, "batch.slots is None; k needs the slots of its tokens"),
    ({"batch": lambda b: b._replace(slots=b.slots.int())}, TypeError, "batch.slots is torch.int32; it must be torch.int64"),
    ({"batch": lambda b: b._replace(slots=b.slots[:5])}, ValueError, "k is .*slots has tokens = 5: make both equal"),
    ({"batch": lambda b: b._replace(block_tables=b.block_tables.long())}, TypeError, "batch.block_tables is torch.int64; it must be torch.int32"),
    ({"batch": lambda b: b._replace(block_tables=b.block_tables[:, :1])}, ValueError, "request 0: 12 tokens need 2 entries of block_tables; a row has 1"),
    ({"batch": lambda b: b._replace(block_tables=b.block_tables + 64)}, ValueError, "request 0, table entry 0: no block 64; the storage has 64"),
    ({"batch": lambda b: b._replace(q_offsets=None)}, ValueError, "q has 12 queries for 1 requests, and batch no q_offsets"),
])
def test_what_is_wrong_is_named(changes, error, text):
    memory = storage()
    before = memory.view(kvcache.Plane.K).copy()
    with pytest.raises(error, match=f"^{text}"):
        PagedAttention(memory, 0)(*arguments(**changes))
    if "q requires" in text:
        assert np.array_equal(memory.view(kvcache.Plane.K), before)


def test_modes_say_what_they_take():
    it = Sequences([1])
    attention, parts = PagedAttention(storage(), 0), it.of(0, 0, 1)
    batch = batch_of(it.manager, it.requests)
    with pytest.raises(ValueError, match="^batch has no q_offsets; a prefill needs them"):
        attention.prefill(*parts, batch)
    with pytest.raises(ValueError, match="^batch has q_offsets; a decode has one query of each request"):
        attention.decode(*parts, batch._replace(q_offsets=torch.arange(2)))
    with pytest.raises(TypeError, match="^storage is Manager; it must be a kvcache.Storage"):
        PagedAttention(it.manager, 0)
    with pytest.raises(ValueError, match="^layer is 1; the storage has 1 layers, from 0 on"):
        PagedAttention(storage(), 1)
    with pytest.raises(ValueError, match=r"^sink_logits is \[1, 6\]; it must be \[q_heads\]"):
        PagedAttention(storage(), 0, sink_logits=torch.zeros(1, 6))
    with pytest.raises(ValueError, match=r"^num_new\[0\] is 2; it must be from 0 to the 1 tokens"):
        batch_of(it.manager, it.requests, 2)
    with pytest.raises(ValueError, match="^num_new has 2 entries for 1 requests"):
        batch_of(it.manager, it.requests, [1, 1])
    assert repr(attention).startswith("PagedAttention(layer 0 of <kvcache.Storage: 64 blocks")


def test_a_tensor_on_another_device_is_refused_by_name():
    """No operator of PyTorch runs on a device that is not there; this is the function that compares."""
    tensor = torch.empty(2, 2, DIM, device="meta")
    with pytest.raises(ValueError, match=r"^q is on meta; the storage is on cpu: pass q.to\('cpu'\)$"):
        torch_attention._rows("q", tensor, torch.device("cpu"), (None, None, DIM), "tokens q_heads head_dim")
    with pytest.raises(ValueError, match="^batch.slots is on meta; it must be on the CPU"):
        torch_attention._numbers("slots", tensor, torch.int64)


def test_gpus_have_the_names_of_pytorch():
    class On:
        def __init__(self, device):
            self.device = device

    for device, wanted in (("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("hip:2", "cuda:2")):
        assert torch_attention.torch_device(On(device)) == torch.device(wanted)


EMULATED = pathlib.Path(os.environ.get("KVC_COMMAND", "")).parent.parent / "backends/libkvcache_emulated.so"


@pytest.mark.skipif(not EMULATED.exists(), reason="the emulated backend is not built")
def test_calls_of_a_device_go_to_its_stream(monkeypatch):
    """As with a GPU: by address, in the order of the stream."""
    kvcache.open_backend("emulated", str(EMULATED))
    monkeypatch.setattr(torch_attention, "torch_device", lambda memory: torch.device("cpu"))
    with kvcache.Stream("emulated:0") as stream:
        monkeypatch.setattr(torch_attention, "_stream_of", lambda memory, device: stream)
        attention, it = PagedAttention(storage(device="emulated:0"), 0, window=9, sinks=3), Sequences([19, 8])
        outs = it.step(attention, [19, 8])
        stream.synchronize()
        for i, out in enumerate(outs):
            assert (out - it.expected(i, len(out), window=9, sinks=3)).abs().max() < 5e-5


# ---- a model

VOCAB, WIDTH, LAYERS = 97, Q_HEADS * DIM, 2


class Model(torch.nn.Module):
    """Two layers with random weights. attend(layer, q, k, v) is its attention."""

    def __init__(self):
        super().__init__()
        self.embed, self.places = torch.nn.Embedding(VOCAB, WIDTH), torch.nn.Embedding(256, WIDTH)
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(WIDTH, (Q_HEADS + 2 * HEADS) * DIM) for _ in range(LAYERS))
        self.back = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(LAYERS + 1))
        self.head = torch.nn.Linear(WIDTH, VOCAB)

    def run(self, tokens, positions, attend):
        x = self.embed(tokens) + self.places(positions)
        for layer in range(LAYERS):
            fused = self.qkv[layer](self.norms[layer](x))
            q, k, v = (part.unflatten(1, (-1, DIM)) for part in fused.split([Q_HEADS * DIM, HEADS * DIM, HEADS * DIM], 1))
            x = x + self.back[layer](attend(layer, q, k, v).flatten(1))
            x = x + torch.nn.functional.silu(x)
        return self.head(self.norms[-1](x))


class Paged(torch.nn.Module):
    def __init__(self, model, memory):
        super().__init__()
        self.model = model
        self.attention = torch.nn.ModuleList(PagedAttention(memory, layer) for layer in range(LAYERS))

    def forward(self, tokens, positions, batch):
        return self.model.run(tokens, positions, lambda layer, q, k, v: self.attention[layer](q, k, v, batch))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(11)
    return Model().eval()


def plain_loop(model, prompt, count):
    """Greedy tokens, all of the sequence computed again for each, with torch's attention."""
    tokens = list(prompt)
    for _ in range(count):
        with torch.inference_mode():
            logits = model.run(torch.tensor(tokens), torch.arange(len(tokens)), lambda layer, q, k, v: sdpa(q, k, v))
        tokens.append(int(logits[-1].argmax()))
    return tokens[len(prompt):]


def paged_loop(step, manager, prompts, count):
    """Greedy tokens of all prompts together; only what is not cached is computed."""
    requests = [manager.allocate(prompt) for prompt in prompts]
    cached = [request.num_cached for request in requests]
    made = [[] for _ in prompts]
    counts = [len(prompt) - hit for prompt, hit in zip(prompts, cached)]
    for _ in range(count):
        ends = [len(request) for request in requests]
        tokens = [([*prompt, *new])[end - n: end] for prompt, new, end, n in zip(prompts, made, ends, counts)]
        positions = torch.cat([torch.arange(end - n, end) for end, n in zip(ends, counts)])
        with torch.inference_mode():
            logits = step(torch.tensor(sum(tokens, [])), positions, batch_of(manager, requests, counts))
        for request, new, end, best in zip(requests, made, ends, logits[np.cumsum(counts) - 1].argmax(-1).tolist()):
            request.commit(end)
            request.append(best)
            new.append(best)
        counts = [1] * len(prompts)
    for request in requests:
        request.close()
    return made, cached


PROMPTS = [list(range(3, 40)), list(range(3, 30)) + [1, 2], [5]]


def test_a_model_generates_the_tokens_of_a_loop_over_sdpa(model):
    with Manager(64, BLOCK) as manager:
        step = Paged(model, storage(num_layers=LAYERS))
        wanted = [plain_loop(model, prompt, 30) for prompt in PROMPTS]
        assert len(set(map(tuple, wanted))) == 3 and all(len(set(tokens)) > 4 for tokens in wanted)  # or it would say little
        made, cached = paged_loop(step, manager, PROMPTS, 30)
        assert made == wanted and cached == [0, 0, 0]
        again, cached = paged_loop(step, manager, PROMPTS, 30)
        assert again == wanted and cached == [32, 24, 0]  # blocks of 8 that are computed already
        manager.check()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_step_generates_the_same(model, backend):
    torch._dynamo.reset()
    with Manager(64, BLOCK) as manager:
        step = torch.compile(Paged(model, storage(num_layers=LAYERS)), fullgraph=True, backend=backend, dynamic=True)
        wanted = [plain_loop(model, prompt, 8) for prompt in PROMPTS]
        assert paged_loop(step, manager, PROMPTS, 8)[0] == wanted
        assert paged_loop(step, manager, PROMPTS, 8)[0] == wanted


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiler_keeps_calls_whose_results_nobody_reads(backend):
    """A call stores keys and values: it is neither left out nor merged with an equal one, and stays in order."""
    torch._dynamo.reset()
    it, memory = Sequences([12]), storage()
    attention = PagedAttention(memory, 0)
    q, k, v = it.of(0, 0, 12)
    batch = batch_of(it.manager, it.requests, 12)

    def twice(q, k, v, batch):
        attention(q, k, v, batch)
        first = attention(q, None, None, batch)
        attention(q, k + 1, v + 1, batch)
        return first, attention(q, None, None, batch)

    with torch.inference_mode():
        for function in (twice, torch.compile(twice, fullgraph=True, backend=backend)):
            memory.zero_blocks([*range(8)])
            first, second = function(q, k, v, batch)
            assert (first - sdpa(q, k, v)).abs().max() < 5e-5 and (second - sdpa(q, k + 1, v + 1)).abs().max() < 5e-5


def test_errors_of_a_compiled_call_are_the_same():
    torch._dynamo.reset()
    it, attention = Sequences([12]), PagedAttention(storage(), 0)
    q, k, v = it.of(0, 0, 12)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    with torch.inference_mode(), pytest.raises(Exception, match="a row has 1"):
        batch = batch_of(it.manager, it.requests, 12)
        compiled(q, k, v, batch._replace(block_tables=batch.block_tables[:, :1]))


def test_the_operator_keeps_the_rules_of_pytorch():
    it, attention = Sequences([12]), PagedAttention(storage(), 0)
    q, k, v = it.of(0, 0, 12)
    batch = batch_of(it.manager, it.requests, 12)
    given = (q, k, v, batch.slots, batch.block_tables, batch.kv_lens, batch.q_offsets, None, None, attention._order, attention._id, 0, DIM, True, 0.0, 0.0, 0, 0)
    torch.library.opcheck(torch_attention._attention, given)


def test_a_storage_lives_as_long_as_its_module():
    attention = PagedAttention(storage(), 0)
    it = Sequences([3])
    it.step(attention, [3])
    number, batch = attention._id, batch_of(it.manager, it.requests, 3)
    q, k, v = it.of(0, 0, 3)
    del attention
    with pytest.raises(ValueError, match="the storage of this operator does not exist any more"):
        torch_attention._attention(q, k, v, batch.slots, batch.block_tables, batch.kv_lens, batch.q_offsets, None, None, torch.zeros(1), number, 0, DIM,
                                   True, 0.0, 0.0, 0, 0)


def test_the_example_of_the_documentation_runs():
    section = (ROOT / "docs" / "INTEGRATIONS.md").read_text(encoding="utf-8").split("\n## PyTorch\n")[1].split("\n## ")[0]
    example, = re.findall(r"```python\n(.*?)```", section, re.S)
    exec(compile(example, "docs/INTEGRATIONS.md", "exec"), {"__name__": "example"})
