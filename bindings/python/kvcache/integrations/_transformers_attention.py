# SPDX-License-Identifier: Apache-2.0
"""The attention "kvcache" of Transformers: it reads the keys and values of a PagedCache in their blocks.

    model.set_attn_implementation("kvcache")                     # after an import of kvcache.integrations.transformers

A PagedCache then gives the attention of each layer a `Paged` in the place of its keys and values. What paged attention does not
compute (padding, other masks, a bias of positions, dropout) is computed from gathered keys and values, as "sdpa" or "eager" do it. So is
everything of another cache. A tensor of a Paged has no data: a model that computes attention elsewhere fails instead of reading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

if TYPE_CHECKING:
    from .transformers import PagedLayer

NAME = "kvcache"


def paged(layer: PagedLayer, states: torch.Tensor) -> torch.Tensor:
    """Returns what stands for the keys, and for the values, of a layer in calls of attend()."""
    stand_in = torch.empty((*states.shape[:2], layer.length, states.shape[3]), dtype=states.dtype, device="meta")
    stand_in.paged_layer = layer
    return stand_in


def attend(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
           dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None, softcap: Optional[float] = None,
           s_aux: Optional[torch.Tensor] = None, position_bias: Optional[torch.Tensor] = None, **options: Any) -> tuple[torch.Tensor, None]:
    """Computes the attention of queries [batch, heads, tokens, head_dim]. Returns [batch, tokens, heads, head_dim]."""
    layer: Optional[PagedLayer] = getattr(key, "paged_layer", None)
    if layer is not None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        if _is_causal_mask(attention_mask) and (causal or query.shape[2] == 1) and position_bias is None and not dropout:
            return layer.attend(query, scaling or 0.0, softcap or 0.0, s_aux), None
        key, value = layer.gather(query)
    if softcap is None and s_aux is None:
        out: torch.Tensor = sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal,
                                                   position_bias=position_bias, **options)[0]
        return out, None
    if position_bias is not None or dropout:
        raise NotImplementedError(f"position_bias and dropout beside softcap or s_aux are not supported by \"{NAME}\"; use attn_implementation=\"eager\"")
    return _eager(query, key, value, attention_mask, query.shape[3] ** -0.5 if scaling is None else scaling, softcap, s_aux), None


def _eager(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Optional[torch.Tensor], scaling: float, softcap: Optional[float],
           s_aux: Optional[torch.Tensor]) -> torch.Tensor:
    heads, tokens = query.shape[1], query.shape[2]
    key, value = repeat_kv(key, heads // key.shape[1]), repeat_kv(value, heads // value.shape[1])
    logits = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    if mask is None and tokens > 1:
        mask = torch.ones(tokens, key.shape[2], dtype=torch.bool).tril()
    if mask is not None:
        logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
    if s_aux is not None:
        logits = torch.cat([logits, s_aux.to(logits.dtype).reshape(1, -1, 1, 1).expand(*logits.shape[:3], 1)], -1)
    weights = torch.softmax(logits, -1, dtype=torch.float32).to(value.dtype)[..., : key.shape[2]]
    return (weights @ value).transpose(1, 2).contiguous()


def _mask(*sizes: Any, attention_mask: Optional[torch.Tensor] = None, allow_is_causal_skip: bool = True, **options: Any) -> Optional[torch.Tensor]:
    """The masks of "sdpa". One that hides nothing but later tokens, and those behind a window, says so."""
    mask: Optional[torch.Tensor] = sdpa_mask(*sizes, attention_mask=attention_mask, allow_is_causal_skip=allow_is_causal_skip, **options)
    if mask is not None and allow_is_causal_skip and (attention_mask is None or bool(attention_mask.all())):
        mask.only_causal = True
    return mask


def _is_causal_mask(mask: Optional[torch.Tensor]) -> bool:
    return mask is None or getattr(mask, "only_causal", False)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _mask)
