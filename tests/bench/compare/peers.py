# SPDX-License-Identifier: Apache-2.0
"""Attention of others on the keys and values of a shape. A peer is a function that gets Data and gives run(layer) -> [request][head][query][element],
or raises Missing with the reason. One more is a function more and its line in PEERS."""
import functools
import itertools

import torch
from torch.nn import functional


class Missing(Exception):
    """Why a peer does not take part."""


class Data:
    """Made when it is asked for: k, v [layer][request][KV head][token][element]; q [request][head][query][element], the last tokens of each request."""

    def __init__(self, shape, heads, kv_heads, dim, block_size, layers, dtype, device, open_storage, time):
        self.requests, self.context, self.queries = shape
        self.heads, self.kv_heads, self.dim, self.block_size, self.layers = heads, kv_heads, dim, block_size, layers
        self.dtype, self.device, self.open_storage = dtype, device, open_storage
        self.time = time  # microseconds of run(layer), for those who choose between variants

    @functools.cached_property
    def tensors(self):
        generator = torch.Generator(self.device).manual_seed(1)
        shapes = [(self.layers, self.requests, self.kv_heads, self.context, self.dim)] * 2 + [(self.requests, self.heads, self.queries, self.dim)]
        return [torch.randn(*shape, dtype=self.dtype, device=self.device, generator=generator) for shape in shapes]

    @functools.cached_property
    def storage(self):
        """A capi.Storage with the same keys and values."""
        return self.open_storage(self.k, self.v)

    def close(self):
        if "storage" in self.__dict__:
            self.storage.close()

    k, v, q = (property(lambda self, i=i: self.tensors[i]) for i in range(3))

    @property
    def decodes(self):
        return self.queries == 1

    @property
    def grouped(self):
        """For one query of each request: the heads of a group as queries of their KV head, so that keys are read once."""
        return self.q.view(self.requests, self.kv_heads, self.heads // self.kv_heads, self.dim)


def sdpa(backend):
    def prepare(data):
        from torch.nn.attention import SDPBackend, bias, sdpa_kernel
        if not hasattr(SDPBackend, backend):
            raise Missing(f"this PyTorch has no SDPBackend.{backend}")
        chosen = getattr(SDPBackend, backend)
        queries, context = data.queries, data.context
        mask = bias.causal_lower_right(queries, context) if 1 < queries < context else None

        def run(layer):
            with sdpa_kernel(chosen):
                if data.decodes:
                    return functional.scaled_dot_product_attention(data.grouped, data.k[layer], data.v[layer]).view(data.q.shape)
                return functional.scaled_dot_product_attention(data.q, data.k[layer], data.v[layer], attn_mask=mask, is_causal=mask is None,
                                                               enable_gqa=True)
        return run
    return prepare


def compiled(function, device):
    return torch.compile(function, dynamic=False) if device.type == "cuda" else function


def flex(data):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    attend = compiled(flex_attention, data.q.device)
    if data.decodes:
        return lambda layer: attend(data.q, data.k[layer], data.v[layer], enable_gqa=True)
    queries, context = data.q.shape[2], data.k.shape[3]
    mask = create_block_mask(lambda b, h, i, j: i + (context - queries) >= j, None, None, queries, context, device=str(data.q.device))
    return lambda layer: attend(data.q, data.k[layer], data.v[layer], block_mask=mask, enable_gqa=True)


def flex_paged(data):
    """With pages of 128 tokens, which its masks want."""
    if not data.decodes:
        raise Missing("compared in decode steps alone")
    from torch.nn.attention.experimental._paged_attention import PagedAttention
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention, noop_mask
    page, device = 128, data.q.device
    layers, requests, heads, context, dim = data.k.shape
    pages = requests * -(-context // page)
    if heads * pages * page * dim >= 2**31:
        raise Missing("its offsets have 32 bits, and a layer has more elements")
    paged = PagedAttention(pages, page, requests, device=str(device))
    paged.empty_pages = torch.randperm(pages).tolist()
    for r in range(requests):
        paged.reserve(torch.tensor(r, device=device), torch.tensor(context, device=device))
    positions = torch.arange(context, device=device).expand(requests, -1)
    caches = [torch.zeros(1, heads, pages * page, dim, dtype=data.k.dtype, device=device) for _ in range(2 * layers)]
    for layer in range(layers):
        paged.assign(torch.arange(requests, device=device), positions, data.k[layer], data.v[layer], caches[2 * layer], caches[2 * layer + 1])
    lens = torch.full([requests], context, device=device)
    logical = create_block_mask(noop_mask, requests, 1, 1, context, device=str(device), BLOCK_SIZE=(page, page))
    mask = paged.convert_logical_block_mask(logical, kv_len=lens)
    attend = compiled(flex_attention, device)
    return lambda layer: attend(data.q, caches[2 * layer], caches[2 * layer + 1], block_mask=mask, enable_gqa=True)


def triton_paged(data):
    """On the storage's own blocks; the fastest of at most six: tile sizes, warps and stages, and numbers of parts."""
    if not data.decodes:
        raise Missing("compared in decode steps alone")
    try:
        import triton_paged as kernels
    except ImportError as error:
        raise Missing(str(error)) from error
    layers, requests, kv_heads, _, _ = data.k.shape
    planes = [[data.storage.plane(name, layer) for name in ("KVC_PLANE_K", "KVC_PLANE_V")] for layer in range(layers)]
    variants = [(kernels.CONFIGS[1], 3)]
    if data.q.device.type == "cuda":
        processors = torch.cuda.get_device_properties(data.q.device).multi_processor_count
        parts = sorted({min(128, max(1, share * processors // (requests * kv_heads))) for share in (1, 3)})
        variants = list(itertools.product(TRITON_CONFIGS, parts))
    best, best_time = None, None
    for config, parts in variants:
        decode = kernels.Decode(data.q[:, :, 0].contiguous(), data.storage.table, data.storage.context, data.block_size, kv_heads, config, parts)

        def run(layer, decode=decode):
            return decode(*planes[layer]).view(data.q.shape)
        taken = data.time(run) if len(variants) > 1 else 0
        if best is None or taken < best_time:
            best, best_time = run, taken
    return best


def flashinfer(data):
    """On the storage's own pages, which are its planes as they are: [page][head][token][element], which it calls HND. Decode by its kernels for
    tensor cores, prefill by those that it takes by itself."""
    try:
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper, BatchPrefillWithPagedKVCacheWrapper
    except (ImportError, OSError) as error:
        raise Missing(f"cannot be imported: {error}") from error
    planes = [tuple(data.storage.plane(name, layer) for name in ("KVC_PLANE_K", "KVC_PLANE_V")) for layer in range(data.layers)]
    if any(k.stride() != v.stride() or k.stride(3) != 1 for k, v in planes):
        raise Missing("its pages need keys and values of the same strides")

    def indices(values):
        return torch.as_tensor(values, dtype=torch.int32, device=data.device)
    pages = data.storage.table.shape[1]
    table = (indices([r * pages for r in range(data.requests + 1)]), data.storage.table.flatten(),
             indices([(data.context - 1) % data.block_size + 1] * data.requests))
    workspace = torch.zeros(256 << 20, dtype=torch.uint8, device=data.device)
    shape = (data.heads, data.kv_heads, data.dim, data.block_size)
    types = {"q_data_type": data.q.dtype, "kv_data_type": data.k.dtype}
    q = data.q.transpose(1, 2).reshape(data.requests * data.queries, data.heads, data.dim).contiguous()
    if data.decodes:
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_cuda_graph=True, use_tensor_cores=True, paged_kv_indptr_buffer=table[0].clone(),
                                                     paged_kv_indices_buffer=table[1].clone(), paged_kv_last_page_len_buffer=table[2].clone())
        wrapper.plan(*table, *shape, **types)
    else:
        wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace, "HND")
        wrapper.plan(indices([r * data.queries for r in range(data.requests + 1)]), *table, *shape, causal=True, **types)
    out = torch.empty_like(q)

    def run(layer):
        wrapper.run(q, planes[layer], out=out)
        return out.view(data.requests, data.queries, data.heads, data.dim).transpose(1, 2)
    return run


TRITON_CONFIGS = [(64, 4, 2), (64, 4, 3), (128, 8, 2)]  # tile, warps, stages
# In the order in which all shapes are gone through, after the library itself.
FIRST = {"SDPA, flash": sdpa("FLASH_ATTENTION"), "SDPA, cuDNN": sdpa("CUDNN_ATTENTION"), "SDPA, efficient": sdpa("EFFICIENT_ATTENTION")}
COMPILED_MEANWHILE = "FlashInfer"  # by a process of its own, while others are measured
PEERS = {**FIRST, "FlexAttention": flex, "FlexAttention, paged": flex_paged, COMPILED_MEANWHILE: flashinfer, "Triton, paged": triton_paged}
# With the part of the time after which none of them begins any more.
PHASES = [(tuple(FIRST), 1), (("FlexAttention", "FlexAttention, paged"), 0.6), ((COMPILED_MEANWHILE,), 0.9), (("Triton, paged",), 1)]
