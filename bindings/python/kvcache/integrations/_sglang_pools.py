# SPDX-License-Identifier: Apache-2.0
"""Pages of SGLang's host pools: where their bytes are, and what makes them what they are.

A page of a pool whose layout keeps it in few pieces ("page_first": keys and values) is one page of the tier for each piece, read and written in
place. Other pages ("layer_first") go through a flat copy, as SGLang does it itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Sequence

from .._arrays import np
from ._tier_pages import digest_of, keys_of

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray

MOST_PIECES = 8  # of a page that is used in place
_POOL = ("page_size", "layer_num", "start_layer", "end_layer", "head_num", "head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim",
         "kv_cache_dim", "layout", "dtype", "store_dtype", "quant_block_size", "storage_format_tag")
_RANKS = ("pp_rank", "pp_size", "attn_cp_rank", "attn_cp_size", "dcp_rank", "dcp_size", "logical_page_size")


class Pool:
    """A host pool (HostKVCache) with the keys of its pages."""

    def __init__(self, name: str, host_pool: Any, config: Any, weights: str, in_place: bool):
        self.host_pool, self.tokens = host_pool, int(getattr(host_pool, "page_size", 1) or 1)
        sizes = self._sizes() if in_place else []
        self.in_place = 0 < len(sizes) <= MOST_PIECES
        self.sizes = np.array(sizes if self.in_place else [self.flat_page().nbytes], np.uint64)  # bytes of each piece of a page
        # Replicated pages (MLA) are the same on all tensor parallel ranks. States (Mamba) are split in any case.
        replicated = bool(getattr(config, "is_mla_model", False)) and name != "mamba"
        ranks = {field: getattr(config, field, None) for field in _RANKS + (() if replicated else ("tp_rank", "tp_size"))}
        pool = {field: _text(getattr(host_pool, field, None)) for field in _POOL}
        fields = {"model": getattr(config, "model_name", None), "weights": weights, "pool": name, **ranks, **pool, "sizes": self.sizes.tolist()}
        self._prefixes = [digest_of("SGLang", {**fields, "piece": piece}) for piece in range(len(self.sizes))]

    def flat_page(self) -> Any:
        """An empty page as one tensor of the CPU."""
        return self.host_pool.get_dummy_flat_data_page()

    def keys(self, hashes: Sequence[str]) -> Array:
        """Keys [pages * pieces, 32], the pieces of a page one behind the other."""
        names = [text.encode() for text in hashes]
        pieces = [keys_of(prefix, names) for prefix in self._prefixes]
        return pieces[0] if len(pieces) == 1 else np.stack(pieces, 1).reshape(-1, 32)

    def whole(self, done: Array) -> list[bool]:
        """Of which pages all pieces are done."""
        pages: Array = np.logical_and.reduce(done.reshape(-1, len(self.sizes)), axis=1)
        return [bool(page) for page in pages]

    def places(self, indices: Any, pages: int) -> tuple[Array, Array]:
        """Addresses and sizes of the pieces of pages in place."""
        addresses, sizes = self.host_pool.get_page_buffer_meta(indices)
        if len(addresses) != pages * len(self.sizes) or list(sizes[:len(self.sizes)]) != self.sizes.tolist():
            raise ValueError(f"the host pool has {len(addresses)} pieces of {sorted(set(sizes))} bytes for {pages} pages, and had pieces of {self.sizes.tolist()} "
                             "bytes for one when it was registered")
        return np.array(addresses, np.uint64), np.array(sizes, np.uint64)

    def starts(self, indices: Any) -> Iterator[int]:
        """First index of each page."""
        return iter(indices[::self.tokens].tolist())

    def _sizes(self) -> list[int]:
        import torch

        try:
            meta = self.host_pool.get_page_buffer_meta(torch.zeros(self.tokens, dtype=torch.int64))
        except (AttributeError, NotImplementedError, ValueError):
            return []
        return [int(size) for size in meta[1]] if meta else []


def _text(value: Any) -> Any:
    return value if isinstance(value, (int, str, type(None))) else str(value)
