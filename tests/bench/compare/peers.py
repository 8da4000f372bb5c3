# SPDX-License-Identifier: Apache-2.0
"""Attention of others on the keys and values of a shape: each function gives run(layer) -> [request][head][query][element], or raises Missing."""
import dataclasses

import torch
from torch.nn import functional


class Missing(Exception):
    """Why a peer does not take part."""


@dataclasses.dataclass
class Data:
    """k, v [layer][request][KV head][token][element]; q [request][head][query][element], the last tokens of each request."""
    k: torch.Tensor
    v: torch.Tensor
    q: torch.Tensor
    storage: object  # capi.Storage with the same keys and values
    block_size: int
    time: object     # microseconds of run(layer), for those who choose between variants

    @property
    def decodes(self):
        return self.q.shape[2] == 1

    @property
    def grouped(self):
        """For one query of each request: the heads of a group as queries of their KV head, so that keys are read once."""
        requests, heads, _, dim = self.q.shape
        return self.q.view(requests, self.k.shape[2], heads // self.k.shape[2], dim)


def sdpa(backend):
    def prepare(data):
        from torch.nn.attention import SDPBackend, bias, sdpa_kernel
        if not hasattr(SDPBackend, backend):
            raise Missing(f"this PyTorch has no SDPBackend.{backend}")
        chosen = getattr(SDPBackend, backend)
        queries, context = data.q.shape[2], data.k.shape[3]
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
    """On the storage's own blocks; the fastest of several tile sizes and numbers of parts."""
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
        parts = sorted({min(128, max(1, share * processors // (requests * kv_heads))) for share in (1, 2, 4)})
        variants = [(config, part) for config in kernels.CONFIGS for part in parts]
    best, best_time = None, None
    for config, parts in variants:
        decode = kernels.Decode(data.q[:, :, 0].contiguous(), data.storage.table, data.storage.context, data.block_size, kv_heads, config, parts)

        def run(layer, decode=decode):
            return decode(*planes[layer]).view(data.q.shape)
        taken = data.time(run) if len(variants) > 1 else 0
        if best is None or taken < best_time:
            best, best_time = run, taken
    return best


PEERS = {"SDPA, flash": sdpa("FLASH_ATTENTION"), "SDPA, cuDNN": sdpa("CUDNN_ATTENTION"), "SDPA, efficient": sdpa("EFFICIENT_ATTENTION"),
         "FlexAttention": flex, "FlexAttention, paged": flex_paged, "Triton, paged": triton_paged}
