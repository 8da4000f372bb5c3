# SPDX-License-Identifier: Apache-2.0
"""An attention module for PyTorch over a kvcache.Storage: prefill and decode, without copies of keys, values or queries.

    storage = Storage(num_blocks, num_layers, num_heads, head_dim, dtype="bfloat16")
    attention = PagedAttention(storage, layer)                   # one for each layer
    batch = batch_of(manager, [request], len(prompt))            # what the step computes, the same for all layers
    with torch.inference_mode():
        out = attention(q, k, v, batch)                          # writes k and v to their slots, then attends

A call is one custom operator, kvcache::paged_attention, so that torch.compile(fullgraph=True) traces a model with it. Tensors are on the device of
the storage: the CPU, or a GPU, where the work is enqueued on PyTorch's current stream. The tensors of a Batch are on the CPU. There is no backward:
call it under torch.no_grad() or torch.inference_mode().
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import torch

from .._docs import described
from ..manager import Manager
from ..request import Request
from ..storage import Storage
from ..streams import Stream

__all__ = ["Batch", "PagedAttention", "batch_of"]

_FLOATS = {torch.float32: "<f4", torch.float16: "<f2", torch.bfloat16: "<u2"}  # NumPy has no bfloat16: its bits
_SCHEMA = ("(Tensor q, Tensor? k, Tensor? v, Tensor? slots, Tensor block_tables, Tensor kv_lens, Tensor? q_offsets, Tensor? sink_logits, "
           "Tensor? alibi_slopes, Tensor(a!) order, int storage, int layer, int v_head_dim, bool causal, float scale, float soft_cap, int window, "
           "int sinks) -> Tensor")
_CPU = torch.device("cpu")
_storages: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()  # an operator takes numbers, not objects
_streams: dict[tuple[str, int], Stream] = {}
_lock = threading.Lock()
_ids = itertools.count(1)


@described
class Batch(NamedTuple):
    """What one step computes: tensors on the CPU that all layers share.

    slots: int64 [tokens], where the keys and values of the new tokens go: block id * block_size + offset; -1 skips a token. None = they are stored.
    block_tables: int32 [requests, entries], block ids in the storage. Entries that no query can see are ignored.
    kv_lens: int64 [requests], tokens of each request in the cache, the new ones included.
    q_offsets: int64 [requests + 1], request r has queries q_offsets[r] .. q_offsets[r + 1] - 1, its last tokens. None = one query for each request.
    """

    slots: Optional[torch.Tensor]
    block_tables: torch.Tensor
    kv_lens: torch.Tensor
    q_offsets: Optional[torch.Tensor] = None


def batch_of(manager: Manager, requests: Sequence[Request], num_new: int | Sequence[int] = 1, *, group: int = 0, pool: int = 0) -> Batch:
    """Returns the Batch of a step that computes the last num_new tokens of each request: after an admission all but the cached ones, len(request) -
    request.num_cached; in decode the one that was appended. With 1 for all it has no q_offsets.

    group: whose tables and slots. pool: the pool of the group, whose blocks the storage holds."""
    lens = [len(request) for request in requests]
    counts = [num_new] * len(lens) if isinstance(num_new, int) else list(num_new)
    if len(counts) != len(lens):
        raise ValueError(f"num_new has {len(counts)} entries for {len(lens)} requests")
    for i, (length, count) in enumerate(zip(lens, counts)):
        if not 0 <= count <= length:
            raise ValueError(f"num_new[{i}] is {count}; it must be from 0 to the {length} tokens of the request")
    block_size, first = manager.properties.block_size, manager.pool_info(pool).first_block
    longest = max((-(-request.info.capacity // block_size) for request in requests), default=0)
    ids = np.array([request.id for request in requests], np.uint64)
    tables = manager.block_tables(ids, np.empty((len(lens), longest), np.int32), group, first)
    slots = [request.slots(length - count, count, group) for request, length, count in zip(requests, lens, counts)]
    at = np.concatenate(slots) if slots else np.empty(0, np.int64)
    at[at >= 0] -= first * block_size
    offsets = None if all(count == 1 for count in counts) else torch.from_numpy(np.cumsum([0, *counts], dtype=np.int64))
    return Batch(torch.from_numpy(at), torch.from_numpy(tables - np.int32(first)), torch.tensor(lens, dtype=torch.int64), offsets)


class PagedAttention(torch.nn.Module):
    """Attention of one layer over a storage. It has no parameters; `storage` and `layer` are where its keys and values are.

    causal: a query sees no later positions. scale: factor of q . k; 0 = 1 / sqrt(head_dim). soft_cap: c in c * tanh(logit / c); 0 = none. window: last
    tokens that a query reads, itself included; 0 = all. sinks: first tokens that a window keeps. sink_logits: float32 [q_heads], a learned logit
    for each head (gpt-oss). alibi_slopes: float32 [q_heads]. Query head h reads KV head h / (q_heads / num_heads).

    Calls take q [tokens, q_heads, head_dim], k [tokens, num_heads, head_dim] and v [tokens, num_heads, v_head_dim], float32, bfloat16 or float16,
    and return [tokens, q_heads, v_head_dim] in the type of q. They may be parts of larger tensors, such as of a fused projection, if their last
    dimension is contiguous and their other strides are positive. Keys and values are converted to the stored type. Without k and v nothing is stored;
    v alone is None for latent attention. Any thread may call it; the caller orders calls that touch the same blocks.

    Raises ValueError for a wrong device or shape, tensors that require grad and strides that do not fit, TypeError for a wrong type: the text has
    the name of the argument and the fix. Nothing is computed then, but k and v may be stored already. A compiled model raises when it runs."""

    def __init__(self, storage: Storage, layer: int, *, causal: bool = True, scale: float = 0.0, soft_cap: float = 0.0, window: int = 0, sinks: int = 0,
                 sink_logits: Optional[torch.Tensor] = None, alibi_slopes: Optional[torch.Tensor] = None):
        super().__init__()
        if not isinstance(storage, Storage):
            raise TypeError(f"storage is {type(storage).__name__}; it must be a kvcache.Storage")
        if not 0 <= layer < storage.num_layers:
            raise ValueError(f"layer is {layer}; the storage has {storage.num_layers} layers, from 0 on")
        self.storage, self.layer, self.causal = storage, layer, causal
        self.scale, self.soft_cap, self.window, self.sinks = float(scale), float(soft_cap), window, sinks
        self._id, self._v_head_dim = next(_ids), storage.v_head_dim
        _storages[self._id] = storage
        with torch.inference_mode(False):
            self.sink_logits, self.alibi_slopes = _of_heads("sink_logits", sink_logits), _of_heads("alibi_slopes", alibi_slopes)
            # The operator says that it writes here, and does not: so compilers keep the calls of a layer, and their order.
            self._order = torch.zeros(1)

    def forward(self, q: torch.Tensor, k: Optional[torch.Tensor], v: Optional[torch.Tensor], batch: Batch) -> torch.Tensor:
        """Stores k and v of the new tokens and computes the attention of their queries: a decode if the batch has no q_offsets, else a prefill."""
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
                raise ValueError(f"{name} requires grad; this attention has no backward: call it under torch.no_grad() or torch.inference_mode()")
        return _attention(q, k, v, None if k is None else batch.slots, batch.block_tables, batch.kv_lens, batch.q_offsets, self.sink_logits,
                          self.alibi_slopes, self._order, self._id, self.layer, self._v_head_dim, self.causal, self.scale, self.soft_cap, self.window,
                          self.sinks)

    def prefill(self, q: torch.Tensor, k: Optional[torch.Tensor], v: Optional[torch.Tensor], batch: Batch) -> torch.Tensor:
        """forward() for any number of queries of each request: prompts, chunks of them, drafts, decodes among them."""
        if batch.q_offsets is None:
            raise ValueError("batch has no q_offsets; a prefill needs them, also for one query of each request: pass torch.arange(requests + 1)")
        return self.forward(q, k, v, batch)

    def decode(self, q: torch.Tensor, k: Optional[torch.Tensor], v: Optional[torch.Tensor], batch: Batch) -> torch.Tensor:
        """forward() for one query of each request."""
        if batch.q_offsets is not None:
            raise ValueError("batch has q_offsets; a decode has one query of each request and no q_offsets: call prefill(), or pass q_offsets=None")
        return self.forward(q, k, v, batch)

    def extra_repr(self) -> str:
        """What repr() shows of the module."""
        return f"layer {self.layer} of {self.storage!r}, window {self.window}, sinks {self.sinks}"


def _of_heads(name: str, values: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    if values is None:
        return None
    if values.dim() != 1:
        raise ValueError(f"{name} is {list(values.shape)}; it must be [q_heads]")
    return values.detach().to(_CPU, torch.float32).clone()  # the library reads it on the CPU, also for a GPU


def torch_device(storage: Storage) -> torch.device:
    """Returns the device of a storage in PyTorch's words."""
    kind, _, index = storage.device.partition(":")
    return _CPU if kind == "cpu" else torch.device("cuda" if kind == "hip" else kind, int(index or 0))


class _Memory:
    """A tensor with NumPy's array interface, by its address: the memory may be a GPU's, which NumPy never reads."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: torch.Tensor, kind: str):
        unit = tensor.element_size()
        self.tensor = tensor
        self.__array_interface__ = {"version": 3, "data": (tensor.data_ptr(), False), "typestr": kind, "shape": tuple(tensor.shape),
                                    "strides": tuple(stride * unit for stride in tensor.stride())}


def _rows(name: str, tensor: torch.Tensor, device: torch.device, wanted: tuple[Optional[int], ...], names: str) -> Any:
    """Returns rows of floats as an array in place. wanted: the sizes that are known."""
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}; the storage is on {device}: pass {name}.to('{device}')")
    if tensor.dtype not in _FLOATS:
        raise TypeError(f"{name} is {tensor.dtype}; it must be torch.float32, torch.bfloat16 or torch.float16: pass {name}.to(torch.float32)")
    shape = tuple(tensor.shape)
    if len(shape) != len(wanted) or any(size not in (None, given) for size, given in zip(wanted, shape)):
        known = ", ".join(dim if size is None else f"{dim} = {size}" for dim, size in zip(names.split(), wanted))
        raise ValueError(f"{name} is {list(shape)}; it must be [{known}]")
    strides = tensor.stride()
    if tensor.numel() and ((shape[-1] > 1 and strides[-1] != 1) or any(size > 1 and stride <= 0 for size, stride in zip(shape, strides))):
        raise ValueError(f"{name} has strides {strides}; the last must be 1 and the others positive: pass {name}.contiguous()")
    return np.asarray(_Memory(tensor, _FLOATS[tensor.dtype])) if tensor.numel() else np.empty(shape, _FLOATS[tensor.dtype])


def _numbers(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> Any:
    """Returns a tensor of a Batch as an array in place."""
    if tensor.device != _CPU:
        raise ValueError(f"batch.{name} is on {tensor.device}; it must be on the CPU: pass it with .cpu(), once for all layers")
    if tensor.dtype != dtype:
        raise TypeError(f"batch.{name} is {tensor.dtype}; it must be {dtype}: pass it with .to({dtype})")
    return tensor.contiguous().numpy()


def _stream_of(storage: Storage, device: torch.device) -> Optional[Stream]:
    """Returns PyTorch's current stream of a GPU, as the library knows it."""
    if device == _CPU:
        return None
    key = storage.device, torch.cuda.current_stream(device).cuda_stream
    with _lock:
        if key not in _streams:
            _streams[key] = Stream(storage.device, handle=key[1])
        return _streams[key]


def _run(q: torch.Tensor, k: Optional[torch.Tensor], v: Optional[torch.Tensor], slots: Optional[torch.Tensor], block_tables: torch.Tensor,
         kv_lens: torch.Tensor, q_offsets: Optional[torch.Tensor], sink_logits: Optional[torch.Tensor], alibi_slopes: Optional[torch.Tensor],
         order: torch.Tensor, storage: int, layer: int, v_head_dim: int, causal: bool, scale: float, soft_cap: float, window: int,
         sinks: int) -> torch.Tensor:
    """The operator. `order` stands for the keys and values of the layer, which are no tensors of PyTorch."""
    memory = _storages.get(storage)
    if memory is None:
        raise ValueError("the storage of this operator does not exist any more: keep the module, or compile again")
    device = torch_device(memory)
    queries = _rows("q", q, device, (None, None, memory.head_dim), "tokens q_heads head_dim")
    lens, tables = _numbers("kv_lens", kv_lens, torch.int64), _numbers("block_tables", block_tables, torch.int32)
    offsets = np.arange(len(lens) + 1) if q_offsets is None else _numbers("q_offsets", q_offsets, torch.int64)
    tokens = q.shape[0]
    if q_offsets is None and len(lens) != tokens:
        raise ValueError(f"q has {tokens} queries for {len(lens)} requests, and batch no q_offsets: it must have one query of each request")
    out = q.new_empty((tokens, q.shape[1], v_head_dim))
    stream = _stream_of(memory, device)
    if k is not None:
        if slots is None:
            raise ValueError("batch.slots is None; k needs the slots of its tokens")
        keys = _rows("k", k, device, (tokens, memory.num_heads, memory.head_dim), "tokens num_heads head_dim")
        values = None if v is None else _rows("v", v, device, (tokens, memory.num_heads, v_head_dim), "tokens num_heads v_head_dim")
        memory.store(keys, values, _numbers("slots", slots, torch.int64), layer, stream=stream)
    elif v is not None:
        raise ValueError("v is given without k; pass both, or neither if they are stored")
    if tokens:
        heads = [None if each is None else each.numpy() for each in (sink_logits, alibi_slopes)]
        memory.attend(queries, offsets, lens, tables, layer, out=np.asarray(_Memory(out, _FLOATS[q.dtype])), stream=stream, causal=causal, scale=scale,
                      soft_cap=soft_cap, window=window, sinks=sinks, sink_logits=heads[0], alibi_slopes=heads[1])
    return out


def _shape(q: torch.Tensor, *others: Any) -> torch.Tensor:
    """What compilers know of the result: its shape, type and device."""
    v_head_dim = others[11]
    return q.new_empty((q.shape[0], q.shape[1], v_head_dim))


_attention = torch.library.custom_op("kvcache::paged_attention", _run, mutates_args=("order",), schema=_SCHEMA)
_attention.register_fake(_shape)
