# SPDX-License-Identifier: Apache-2.0
"""Memory for keys and values, and paged attention over it, with NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _native
from ._arrays import as_bytes, at_least_0, float_type, grown, np, row_strides, same_type, take, view
from ._docs import add_properties, described
from .constants import DType, Layout, MemoryKind, Plane, StorageFlags
from .errors import KvCacheError
from .records import AttentionInfo, QuantMetrics
from .rope import take_table
from .tiers import PageInfo

if TYPE_CHECKING:
    import numpy

    from ._arrays import Sizes
    from .streams import Stream

    Array = numpy.ndarray
    Maybe = Optional[Array]
    _Arrays = tuple[Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe, Maybe,
                    Optional[_native.kvc_attention_launch], Maybe, Maybe]  # of an attention, in the order of C


@described
class Launch(NamedTuple):
    """How a GPU runs attention. The CPU ignores it. Both arrays are uint8 in memory of the device.

    plan: [explain().plan_bytes]. The first of several layers with the same lengths writes its plan, the partition of the work, into it.
    planned: True = the plan is that of another layer with the same lengths; reuse it.
    workspace: [explain().workspace_bytes] (for select_blocks: selection_bytes), for intermediate results; None = memory of the library.
    """

    plan: Maybe = None
    planned: bool = False
    workspace: Maybe = None


class Storage:
    """Memory for the keys and values of a manager's blocks. Any thread may use it; the caller orders calls that touch the same bytes.

    num_blocks: blocks of the manager's pool. dtype: stored type, a DType or its name ("bfloat16", "float32", "float16", "float8_e4m3",
    "float8_e5m2", "int8", "int4"). layout, flags: Layout, StorageFlags. v_head_dim: elements of a value; 0 = head_dim. block_size: tokens per
    block; 0 = 16. num_threads: threads of one call, the caller included; 0 = 1. alignment: of each block, in bytes; 0 = 64.

    scale_group: elements of a row that share a scale; 0 = integer types: the whole row, float8: no scales in the blocks. k_scale, v_scale: one
    scale for all keys, one for all values; 0 = see scale_group. channel_tokens, residual_blocks: with StorageFlags.CHANNEL_KEYS, tokens that
    share the scale of a channel (0 = block_size), and blocks of each layer that are not yet quantized (0 = 64).

    device: "cuda:0" and so on; None = the CPU. memory_kind: MemoryKind. memory_fraction: with num_blocks 0, the part of the device's free memory to
    use. memory: a writable array, or another object with a buffer, to use in place; it has
    at least storage_size() bytes, is aligned to `alignment`, and stays alive as long as it is used. close() frees the memory when the last
    array over it is gone.

    A call with a stream (Stream) enqueues its work there and returns. Without a stream the work is done on return."""

    def __init__(self, num_blocks: int, num_layers: int, num_heads: int, head_dim: int, *, dtype: DType | str = DType.BFLOAT16,
                 layout: Layout = Layout.LBHNC, flags: StorageFlags = StorageFlags(0), v_head_dim: int = 0, block_size: int = 0, num_threads: int = 0,
                 alignment: int = 0, scale_group: int = 0, k_scale: float = 0.0, v_scale: float = 0.0, channel_tokens: int = 0,
                 residual_blocks: int = 0, device: Optional[str] = None, memory_kind: MemoryKind = MemoryKind.DEFAULT,
                 memory_fraction: float = 0.0, memory: Any = None):
        config = _config(num_blocks, num_layers, num_heads, head_dim, dtype, layout, flags, v_head_dim, block_size, num_threads, alignment,
                         scale_group, k_scale, v_scale, channel_tokens, residual_blocks, device, memory_kind, memory_fraction)
        self._device = device or "cpu"
        self._memory = None if memory is None else take("memory", memory, written=True)
        self._s: Any = _native.kvc_storage_create(config) if memory is None else _native.kvc_storage_adopt(config, as_bytes(self._memory))
        self._info = _native.kvc_storage_info()
        _native.kvc_storage_properties(self._s, self._info)
        self._shape: Sizes = {name: getattr(self._info, name) for name in ("num_blocks", "num_heads", "head_dim", "v_head_dim")}

    def close(self) -> None:
        """Closes the storage. Later calls raise ValueError."""
        self._s = self._memory = None

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    @property
    def device(self) -> str:
        """Device of the memory and the work: "cpu", "cuda:0" and so on, as given."""
        return self._device

    if TYPE_CHECKING:  # properties, made below: the configuration with defaults filled in, and sizes in bytes
        num_blocks: int
        num_layers: int
        num_heads: int
        head_dim: int
        v_head_dim: int
        block_size: int
        dtype: DType
        layout: Layout
        flags: StorageFlags
        scale_group: int
        alignment: int
        memory_kind: MemoryKind
        k_scale: float
        v_scale: float
        channel_tokens: int
        residual_blocks: int
        slab_bytes: int
        block_bytes: int
        token_bytes: int
        residual_bytes: int

    def __repr__(self) -> str:
        if getattr(self, "_s", None) is None:
            return "<kvcache.Storage, closed>"
        return (f"<kvcache.Storage: {self.num_blocks} blocks of {self.block_size} tokens, {self.num_layers} layers, {self.num_heads} KV heads of "
                f"{self.head_dim}, {self.dtype.name.lower()}, {self.layout.name}, {self.slab_bytes} bytes>")

    def view(self, plane: Plane, layer: int = 0) -> Array:
        """Returns a plane of one layer as an array in place: [num_blocks, num_heads, block_size, elements]. bfloat16 comes as uint16 bits,
        float8 and int4 as uint8. Raises UnsupportedError for tiled keys, NotFoundError if there is no such plane."""
        return view(_native.kvc_storage_view(self._s, plane, layer), (self._s, self._memory))

    def dlpack(self, plane: Plane, layer: int = 0) -> DLPack:
        """Returns a plane of one layer for torch.from_dlpack() and others, in its own element type. It keeps the memory past close()."""
        return DLPack(self._s, plane, layer, self._memory)

    def runs(self, block: int) -> Array:
        """Lists the bytes of a block in the slab as runs: uint64 [n, 2] of (offset, bytes), ascending."""
        return grown(lambda out: _native.kvc_storage_runs(self._s, block, None, out), np.uint64, 64, 2)

    def store(self, k: Array, v: Optional[Array], slots: Array, first_layer: int = 0, *, rope_table: Optional[Array] = None,
              rope_rows: Optional[Array] = None, rope_first_element: int = 0, rope_interleaved: bool = False,
              stream: Optional[Stream] = None) -> None:
        """Writes keys [layers, tokens, num_heads, head_dim] and values [layers, tokens, num_heads, v_head_dim] to their slots, int64 [tokens];
        -1 skips a token. Without the first dimension it is one layer. v is None for latent attention. k and v are float32, float16, or
        bfloat16 as uint16 bits, and are converted to the stored type. They may be parts of larger arrays, as in attend(). Writes all
        tokens or none.

        rope_table: float32 [rows, 2, pairs] from kvcache.rope_table(). The keys are stored as kvcache.apply_rope() would rotate them; k does
        not change. rope_rows: int64 [tokens], row of the table for each token; None = row t for token t. rope_first_element (latent keys:
        head_dim - 2 * pairs) and rope_interleaved are those of apply_rope(). Raises InvalidArgumentError for a row outside the table, also
        of a skipped token, and if more elements would rotate than a key has."""
        sizes = dict(self._shape)
        slots = take("slots", slots, sizes)
        rows, *arrays = self._rows(k, v, first_layer, sizes)
        if rope_table is not None:
            rope_table, rope_rows = take_table("rope_table", rope_table, "rope_rows", rope_rows, sizes)
            rows.rope_dim, rows.rope_first_element = 2 * rope_table.shape[2], rope_first_element
            rows.flags = _native.KVC_ROWS_ROPE_INTERLEAVED if rope_interleaved else 0
        elif rope_rows is not None:
            raise ValueError("rope_rows without rope_table")
        self._do(stream, (k, v, rope_table), _native.kvc_storage_store, rows, *arrays, slots, None, as_bytes(rope_table), rope_rows)

    def gather(self, slots: Array, num_layers: int = 0, first_layer: int = 0, dtype: Any = "float32",
               out: Optional[tuple[Array, Maybe]] = None, *, stream: Optional[Stream] = None) -> tuple[Array, Maybe]:
        """Reads tokens from their slots. Returns keys [layers, tokens, num_heads, head_dim] and values (None for latent attention) in `dtype`.
        num_layers 0 = all from first_layer on. With `out`, two arrays (k, v), writes into them and returns them; they may be parts of larger
        arrays. The rows of tokens with slot -1 stay unchanged (zeros in new arrays)."""
        info, sizes = self._info, dict(self._shape)
        slots = take("slots", slots, sizes)
        if out is None:
            layers = num_layers or info.num_layers - first_layer
            at_least_0("num_layers", layers)
            k = np.zeros((layers, len(slots), info.num_heads, info.head_dim), dtype)
            latent = info.flags & StorageFlags.LATENT
            out = k, None if latent else np.zeros((layers, len(slots), info.num_heads, info.v_head_dim), dtype)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(f"out is {type(out).__name__}; it must be two arrays, (k, v)")
        k, v = out
        self._do(stream, (k, v), _native.kvc_storage_gather, *self._rows(k, v, first_layer, sizes, written=True), slots, None)
        return k, v

    def measure(self, k: Array, v: Optional[Array], slots: Array, first_layer: int = 0) -> tuple[QuantMetrics, Optional[QuantMetrics]]:
        """Measures the error of quantization: compares keys and values, as store() takes them, with the stored ones. Returns QuantMetrics
        of the keys and of the values (None for latent attention)."""
        keys, values = _native.kvc_quant_metrics(), None if v is None else _native.kvc_quant_metrics()
        sizes = dict(self._shape)
        slots = take("slots", slots, sizes)
        _native.kvc_storage_measure(self._s, *self._rows(k, v, first_layer, sizes), slots, None, keys, values)
        return QuantMetrics.read(keys), None if values is None else QuantMetrics.read(values)

    def quantize_blocks(self, blocks: Array, *, stream: Optional[Stream] = None) -> None:
        """With StorageFlags.CHANNEL_KEYS: quantizes the residual blocks among these (int32 ids). Call it before their bytes leave the slab."""
        self._do(stream, None, _native.kvc_storage_quantize_blocks, take("blocks", blocks))

    def trim(self) -> tuple[int, int]:
        """Gives back memory that calls have left for later calls: scratch memory on the CPU; on a GPU the idle pieces of workspace, and of pinned
        memory for copies of index arrays. Returns the bytes of device memory and of host memory. Blocks stay as they are, and so does what
        captured graphs use. If there is device memory to free, it waits for all work on the device."""
        device_bytes, host_bytes = _native.kvc_storage_trim(self._s)
        return device_bytes, host_bytes

    def discard_blocks(self, first_block: int, num_blocks: int) -> int:
        """Gives the memory of blocks that nobody uses back to the system, such as those that left a pool (Manager.resize). Returns its bytes. What
        the blocks hold is undefined afterwards. Only for memory that the storage took from the system itself, on the CPU: else UnsupportedError."""
        return _native.kvc_storage_discard_blocks(self._s, first_block, num_blocks)

    def _rows(self, k: Any, v: Any, first_layer: int, sizes: Sizes, *, written: bool = False) -> tuple[_native.kvc_rows, int, Maybe, Maybe]:
        """Returns the struct for the tokens in `sizes`, and the arguments that follow it in native calls."""
        rows = _native.kvc_rows()
        k = take("k", k, sizes, written=written)
        if sizes["layers"] == 0:  # which means 1 in the struct
            raise ValueError(f"k is of shape {list(k.shape)}; it must have at least 1 layer")
        if v is not None:
            v = take("v", v, sizes, written=written)
            same_type("v", v, "k", k)
        rows.dtype, rows.first_layer, rows.num_layers = float_type(k), first_layer, k.shape[0] if k.ndim == 4 else 1
        tokens = k.shape[-3]
        k, strides = row_strides(k)
        rows.k_layer_stride, rows.k_token_stride, rows.k_head_stride = [0, *strides][-3:]
        if v is not None:
            v, strides = row_strides(v)
            rows.v_layer_stride, rows.v_token_stride, rows.v_head_stride = [0, *strides][-3:]
        return rows, tokens, as_bytes(k), as_bytes(v)

    def copy_blocks(self, copies: Array, *, stream: Optional[Stream] = None) -> None:
        """Copies blocks in all layers, in array order. copies: int32 [n, 2] of (source, destination), as Step.copies."""
        self._do(stream, None, _native.kvc_storage_copy_blocks, as_bytes(take("copies", copies)))

    def copy_tokens(self, source: Storage, copies: Array) -> None:
        """Copies tokens from another storage of the same layers, heads, types and scales, whose block_size may differ, bit by bit, in host
        memory. copies: int32 [n, 6], as Rebuilt.copies. Raises UnsupportedError for memory of a device, tiled and channel keys."""
        _native.kvc_storage_copy_tokens(source._s, self._s, as_bytes(take("copy_tokens.copies", copies)))

    def move_tokens(self, moves: Array) -> None:
        """Moves tokens inside the storage, in order, bit by bit, in host memory: accepted drafts (speculation.verdict_moves). moves: int32 [n, 6].
        Raises UnsupportedError for memory of a device, tiled and channel keys: gather and store the tokens there."""
        _native.kvc_storage_move_tokens(self._s, as_bytes(take("copy_tokens.copies", moves)))

    def swap_out(self, copies: Array, pages: Array, page_bytes: int = 0, *, stream: Optional[Stream] = None) -> None:
        """Copies blocks to pages of host memory. A page holds all layers of a block. copies: int32 [n, 2] of (block, page). Page p begins at
        byte p * page_bytes (0 = block_bytes) of `pages`, a C-contiguous array aligned to 16; for a storage on a GPU it is in pinned memory."""
        pages = take("pages", pages, written=True)
        self._do(stream, pages, _native.kvc_storage_swap_out, as_bytes(take("copies", copies)), as_bytes(pages), page_bytes)

    def swap_in(self, copies: Array, pages: Array, page_bytes: int = 0, *, stream: Optional[Stream] = None) -> None:
        """Copies pages of swap_out() to any blocks of a storage of the same configuration. copies: int32 [n, 2] of (page, block)."""
        pages = take("pages", pages)
        self._do(stream, pages, _native.kvc_storage_swap_in, as_bytes(take("copies", copies)), as_bytes(pages), page_bytes)

    def page_info(self, model: bytes, weights: bytes, numerics: bytes = b"", *, num_layers: int = 0, num_heads: int = 0, first_layer: int = 0,
                  first_head: int = 0) -> PageInfo:
        """Tells fingerprint and size of the pages of this storage. A page is a block in an order that depends on no layout, device or number of
        ranks; processes share pages of equal fingerprints.

        model: name of the model. weights: version or digest of its weights. numerics: what else changes values, such as kernels. num_layers,
        num_heads: layers and KV heads of a whole page, over all ranks; 0 = those of the storage. first_layer, first_head: where the storage's
        layers and heads begin in the page. Raises InvalidArgumentError, and UnsupportedError for channel keys."""
        fingerprint = np.zeros(32, np.uint8)
        sizes = _native.kvc_storage_page_properties(self._s, model, weights, numerics, num_layers, num_heads, first_layer, first_head, fingerprint)
        return PageInfo(fingerprint.tobytes(), *sizes)

    def page_runs(self, model: bytes, weights: bytes, numerics: bytes = b"", *, num_layers: int = 0, num_heads: int = 0, first_layer: int = 0,
                  first_head: int = 0) -> Array:
        """Lists the storage's part of a page as runs, uint64 [n, 2] of (offset, bytes), ascending: runs of Tier.get(). Parameters as for
        page_info()."""
        return grown(lambda out: _native.kvc_storage_page_runs(self._s, model, weights, numerics, num_layers, num_heads, first_layer, first_head, out),
                     np.uint64, 64, 2)

    def pack_pages(self, blocks: Array, pages: Array, stride: int = 0) -> None:
        """Copies blocks (int32 ids) of a storage in host memory to pages: of each the storage's part. pages: a C-contiguous array [n, part_bytes],
        or other memory in which part i begins at byte i * stride (0 = part_bytes, or the bytes of a row)."""
        pages = take("pages", pages, written=True)
        _native.kvc_storage_pack_pages(self._s, take("blocks", blocks).copy(), as_bytes(pages), stride or _row_bytes(pages))

    def unpack_pages(self, blocks: Array, pages: Array, stride: int = 0) -> None:
        """Copies pages to blocks: reverses pack_pages()."""
        pages = take("pages", pages)
        _native.kvc_storage_unpack_pages(self._s, take("blocks", blocks).copy(), as_bytes(pages), stride or _row_bytes(pages))

    def zero_blocks(self, blocks: Array, *, stream: Optional[Stream] = None) -> None:
        """Clears blocks (int32 ids) in all layers, scales included."""
        self._do(stream, None, _native.kvc_storage_zero_blocks, take("blocks", blocks))

    def _do(self, stream: Optional[Stream], arrays: Any, function: Any, *arguments: Any) -> None:
        """Runs a call, or enqueues it on a stream. The stream keeps all arrays of the call, their copies and the memory of the storage alive
        until the work is done."""
        if stream is None:
            function(self._s, *arguments, None)
            return
        handle = stream._open()
        kept: Any = (arrays, arguments, self._memory)
        try:
            function(self._s, *arguments, handle)
        except (KvCacheError, TypeError, ValueError, OverflowError):  # nothing was enqueued
            kept = None
            raise
        finally:  # an interrupt may come right after the call
            if kept is not None:
                stream._keep(kept)

    def attend(self, q: Array, q_offsets: Array, kv_lens: Array, block_tables: Array, layer: int = 0, *, out: Maybe = None,
               lse: Maybe = None, stream: Optional[Stream] = None, q_starts: Maybe = None, causal: bool = True, scale: float = 0.0,
               soft_cap: float = 0.0, window: int = 0, sinks: int = 0, alibi_slopes: Maybe = None, sink_logits: Maybe = None,
               mask: Maybe = None, mask_offsets: Maybe = None, mask_starts: Maybe = None, block_mask: Maybe = None, shared_tokens: int = 0,
               allow_bf16: bool = False, launch: Optional[Launch] = None) -> Array:
        """Computes paged attention: prefill and decode, any mix of requests. Returns `out` [queries, q heads, v_head_dim].

        q: [queries, q heads, head_dim], float32, float16, or bfloat16 as uint16 bits. q_offsets: uint64 [requests + 1]; request r has queries
        q_offsets[r] .. q_offsets[r + 1] - 1. kv_lens: uint64 [requests], tokens of each request in the cache. The queries are the last of them,
        or begin at position q_starts[r]. block_tables: int32 [requests, entries]. lse: float32 [queries, q heads], receives the natural log of
        the sum of exp(logit).

        q and out may be parts of larger arrays if their last dimension is contiguous and their other strides are positive. They are used in
        place: q may be the queries of a fused QKV projection, qkv[:, :q_heads * head_dim].reshape(-1, q_heads, head_dim). Rows of out must not
        overlap; gaps between them are not written.

        scale: factor of q . k; 0 = 1 / sqrt(head_dim). soft_cap: c in c * tanh(logit / c); 0 = none. window: last tokens that a query reads, itself
        included; 0 = all. sinks: first tokens that a window keeps. q_starts, mask_offsets, mask_starts: uint64 [requests]. alibi_slopes: float32
        [q heads]. sink_logits: float32 [q heads], a learned logit per head (gpt-oss), -inf = none. mask: uint8 bits, lowest first, from bit
        mask_offsets[r] for positions from mask_starts[r]. block_mask: uint8 [requests, num_heads, bytes], from select_blocks(). shared_tokens:
        number of first tokens that lie in the same blocks for all requests. allow_bf16: float32 and float16 queries may be computed like bfloat16
        ones, which is faster on some CPUs. launch: how a GPU runs it, a Launch."""
        if out is None:
            q = take("q", q, dict(self._shape))
            out = np.empty((*q.shape[:2], self._info.v_head_dim), q.dtype)
        attention, arrays = self._attention(q, q_offsets, kv_lens, block_tables, layer, out, lse, q_starts, causal, scale, soft_cap, window,
                                            sinks, alibi_slopes, sink_logits, mask, mask_offsets, mask_starts, block_mask, shared_tokens, allow_bf16,
                                            launch)
        self._do(stream, (q, out, lse), _native.kvc_storage_attend, attention, *arrays)
        return out

    def explain(self, q: Array, q_offsets: Array, kv_lens: Array, block_tables: Array, layer: int = 0, *, q_starts: Maybe = None,
                causal: bool = True, scale: float = 0.0, soft_cap: float = 0.0, window: int = 0, sinks: int = 0, alibi_slopes: Maybe = None,
                sink_logits: Maybe = None, mask: Maybe = None, mask_offsets: Maybe = None, mask_starts: Maybe = None,
                block_mask: Maybe = None, shared_tokens: int = 0, allow_bf16: bool = False, launch: Optional[Launch] = None) -> AttentionInfo:
        """Describes how attend() would run this call, and runs nothing. Parameters as for attend()."""
        info = _native.kvc_attention_info()
        attention, arrays = self._attention(q, q_offsets, kv_lens, block_tables, layer, None, None, q_starts, causal, scale, soft_cap, window,
                                            sinks, alibi_slopes, sink_logits, mask, mask_offsets, mask_starts, block_mask, shared_tokens, allow_bf16,
                                            launch)
        _native.kvc_storage_explain(self._s, attention, *arrays, info)
        return AttentionInfo.read(info)

    def key_bounds(self, blocks: Array, layer: int = 0, out: Optional[Array] = None, *, stream: Optional[Stream] = None) -> Array:
        """Computes the largest and smallest value of each element over the keys of full blocks (int32 ids). Returns float16 [num_blocks,
        num_heads, 2, head_dim], of which only the entries of `blocks` are written."""
        info = self._info
        if out is None:
            out = np.zeros((info.num_blocks, info.num_heads, 2, info.head_dim), np.float16)
        written = as_bytes(take("key_bounds.out", out, dict(self._shape), written=True))
        self._do(stream, out, _native.kvc_storage_key_bounds, layer, take("blocks", blocks), written)
        return out

    def select_blocks(self, q: Array, q_offsets: Array, kv_lens: Array, block_tables: Array, bounds: Array, top_k: int = 0, layer: int = 0, *,
                      ratio: float = 0.0, threshold: float = 0.0, sink_blocks: int = 0, recent_blocks: int = 0, stream: Optional[Stream] = None,
                      q_starts: Maybe = None, causal: bool = True,
                      scale: float = 0.0, soft_cap: float = 0.0, window: int = 0, sinks: int = 0, alibi_slopes: Maybe = None,
                      sink_logits: Maybe = None, mask: Maybe = None, mask_offsets: Maybe = None, mask_starts: Maybe = None,
                      block_mask: Maybe = None, shared_tokens: int = 0, allow_bf16: bool = False, launch: Optional[Launch] = None) -> Array:
        """Picks blocks of each request and KV head by their bounds (from key_bounds()), and always the first sink_blocks and the last
        recent_blocks. Give one of: top_k blocks; the ratio (0 to 1) of the blocks that a query can see; all whose bound is at most threshold
        below the largest one of some query, in logits (natural logarithms of weights). Returns a block_mask for attend(). Other parameters as
        for attend()."""
        choice, sizes = _native.kvc_block_choice(), dict(self._shape)
        bounds = take("bounds", bounds, sizes)
        kv_lens, block_tables = take("kv_lens", kv_lens, sizes), take("block_tables", block_tables, sizes)
        picked = np.zeros((len(kv_lens), self._info.num_heads, -(-block_tables.shape[1] // 8)), np.uint8)
        choice.top_k, choice.ratio, choice.threshold, choice.block_mask_stride = top_k, ratio, threshold, picked.shape[2]
        choice.sink_blocks, choice.recent_blocks = sink_blocks, recent_blocks
        attention, arrays = self._attention(q, q_offsets, kv_lens, block_tables, layer, None, None, q_starts, causal, scale, soft_cap, window,
                                            sinks, alibi_slopes, sink_logits, mask, mask_offsets, mask_starts, block_mask, shared_tokens, allow_bf16,
                                            launch)
        self._do(stream, (q, bounds), _native.kvc_storage_select_blocks, attention, *arrays, choice, as_bytes(bounds), as_bytes(picked))
        return picked

    def _attention(self, q: Any, q_offsets: Any, kv_lens: Any, block_tables: Any, layer: int, out: Any, lse: Any, q_starts: Any, causal: bool,
                   scale: float, soft_cap: float, window: int, sinks: int, alibi_slopes: Any, sink_logits: Any, mask: Any, mask_offsets: Any,
                   mask_starts: Any, block_mask: Any, shared_tokens: int, allow_bf16: bool,
                   launch: Optional[Launch]) -> tuple[_native.kvc_attention, _Arrays]:
        """Returns the struct and its arrays, which have the shapes that the struct says."""
        attention, sizes = _native.kvc_attention(), dict(self._shape)

        def optional(name: str, array: Any, written: bool = False) -> Maybe:
            return None if array is None else take(name, array, sizes, written=written)

        kv_lens = take("kv_lens", kv_lens, sizes)
        sizes["requests + 1"] = len(kv_lens) + 1
        q, q_offsets, block_tables = take("q", q, sizes), take("q_offsets", q_offsets, sizes), take("block_tables", block_tables, sizes)
        out, lse = optional("attend.out", out, True), optional("lse", lse, True)
        q_starts, alibi_slopes, sink_logits = optional("q_starts", q_starts), optional("alibi_slopes", alibi_slopes), optional("sink_logits", sink_logits)
        how, plan, workspace = None, None, None
        if launch is not None:
            if not isinstance(launch, Launch):
                raise TypeError(f"launch is {type(launch).__name__}; it must be a kvcache.Launch")
            how = _native.kvc_attention_launch()
            how.flags = _native.KVC_LAUNCH_PLANNED if launch.planned else 0
            plan, workspace = optional("plan", launch.plan, True), optional("workspace", launch.workspace, True)
        mask_offsets, mask_starts = optional("mask_offsets", mask_offsets), optional("mask_starts", mask_starts)
        mask, block_mask = optional("mask", mask), optional("block_mask", block_mask)
        if out is not None:
            same_type("out", out, "q", q)
        if q_offsets[-1] != len(q):
            raise ValueError(f"q_offsets ends with {q_offsets[-1]}; q has {len(q)} queries")
        if mask is not None:
            _check_mask(mask.nbytes * 8, q_offsets, kv_lens, mask_offsets, mask_starts)
        attention.num_requests, attention.table_stride = len(kv_lens), block_tables.shape[1]
        attention.layer, attention.num_q_heads, attention.dtype = layer, q.shape[1], float_type(q)
        attention.flags = (0 if causal else _native.KVC_ATTENTION_NOT_CAUSAL) | (_native.KVC_ATTENTION_ALLOW_BF16 if allow_bf16 else 0)
        attention.scale, attention.soft_cap, attention.window, attention.sinks = scale, soft_cap, window, sinks
        attention.shared_tokens, attention.block_mask_stride = shared_tokens, 0 if block_mask is None else block_mask.shape[2]
        q, (attention.q_token_stride, attention.q_head_stride) = row_strides(q)
        if out is not None:
            out, (attention.out_token_stride, attention.out_head_stride) = row_strides(out)
        return attention, (as_bytes(q), as_bytes(out), as_bytes(lse), q_offsets, q_starts, kv_lens, block_tables.reshape(-1), as_bytes(alibi_slopes),
                           as_bytes(sink_logits), as_bytes(mask), mask_offsets, mask_starts, as_bytes(block_mask), how, plan, workspace)


class DLPack:
    """A plane of a storage, with the methods that from_dlpack() functions call."""

    def __init__(self, storage: Any, plane: Plane, layer: int, owner: Any):
        self._arguments = storage, plane, layer, owner

    def __dlpack__(self, **unused: Any) -> Any:
        return _native.kvc_storage_export_dlpack(*self._arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        storage, plane, layer, _ = self._arguments
        return _native.kvc_storage_dlpack_device(storage, plane, layer)


def _row_bytes(pages: Array) -> int:
    """Returns the bytes of a row; 0 if there are no rows."""
    return pages.nbytes // len(pages) if pages.ndim > 1 and len(pages) else 0


def _counts(array: Array) -> list[int]:
    """Returns the numbers as the library reads them: negative ones are near 2^64."""
    counts: list[int] = array.view(np.uint64).tolist()
    return counts


def _check_mask(bits: int, q_offsets: Array, kv_lens: Array, mask_offsets: Maybe, mask_starts: Maybe) -> None:
    """Checks the length of the mask, which the library does not know, in Python integers, which do not overflow."""
    if mask_offsets is None:
        raise ValueError("mask needs mask_offsets, the first bit of each request")
    offsets, lens, first_bits = _counts(q_offsets), _counts(kv_lens), _counts(mask_offsets)
    for r, start in enumerate([0] * len(lens) if mask_starts is None else _counts(mask_starts)):
        end = first_bits[r] + max(0, offsets[r + 1] - offsets[r]) * max(0, lens[r] - start)
        if end > bits:
            raise ValueError(f"mask has {bits} bits; request {r} has its bits from mask_offsets[{r}] = {first_bits[r]} to {end}")


def merge_attention(outs: Array, lses: Array) -> tuple[Array, Array]:
    """Merges partial results of the same queries over disjoint sets of keys, and returns (out, lse) over all keys.

    outs: [partials, rows..., v_dim]. lses: float32 [partials, rows...]."""
    sizes: Sizes = {}
    outs, lses = take("outs", outs, sizes), take("lses", lses, sizes)
    out, lse = np.empty(outs.shape[1:], outs.dtype), np.empty(lses.shape[1:], np.float32)
    _native.kvc_attention_merge(as_bytes(outs), as_bytes(lses), len(outs), lse.size, outs.shape[-1], float_type(outs), as_bytes(out), as_bytes(lse))
    return out, lse


def tree_mask(parents: Array) -> tuple[Array, Array]:
    """Returns (mask, depths) for a tree of draft tokens: the bits for attend(mask=...), with mask_starts at the tree's first position, and the
    depth of each node. parents: int32 [n], each less than its node; -1 = the last token before the tree."""
    parents = take("parents", parents)
    mask, depths = np.zeros(-(-len(parents) ** 2 // 8), np.uint8), np.empty(len(parents), np.int32)
    _native.kvc_tree_mask(parents, mask, 0, depths)
    return mask, depths


def _config(num_blocks: int, num_layers: int, num_heads: int, head_dim: int, dtype: DType | str, layout: int, flags: int,
            v_head_dim: int, block_size: int, num_threads: int, alignment: int, scale_group: int, k_scale: float, v_scale: float, channel_tokens: int,
            residual_blocks: int, device: Optional[str], memory_kind: int, memory_fraction: float) -> _native.kvc_storage_config:
    config = _native.kvc_storage_config()
    config.num_blocks, config.num_layers, config.num_heads, config.head_dim = num_blocks, num_layers, num_heads, head_dim
    config.dtype, config.layout, config.flags = DType.parse(dtype), layout, flags
    config.v_head_dim, config.block_size, config.num_threads, config.alignment = v_head_dim, block_size, num_threads, alignment
    config.scale_group, config.k_scale, config.v_scale = scale_group, k_scale, v_scale
    config.channel_tokens, config.residual_blocks = channel_tokens, residual_blocks
    if device is not None:
        config.device = device
    config.memory_kind, config.memory_fraction = memory_kind, memory_fraction
    return config


def storage_size(num_blocks: int, num_layers: int, num_heads: int, head_dim: int, *, dtype: DType | str = DType.BFLOAT16,
                 layout: Layout = Layout.LBHNC, flags: StorageFlags = StorageFlags(0), v_head_dim: int = 0, block_size: int = 0, num_threads: int = 0,
                 alignment: int = 0, scale_group: int = 0, k_scale: float = 0.0, v_scale: float = 0.0, channel_tokens: int = 0,
                 residual_blocks: int = 0, device: Optional[str] = None, memory_kind: MemoryKind = MemoryKind.DEFAULT) -> tuple[int, int]:
    """Returns the bytes of one block, and of all blocks, of a Storage with these options."""
    return _native.kvc_storage_size(_config(num_blocks, num_layers, num_heads, head_dim, dtype, layout, flags, v_head_dim, block_size, num_threads,
                                            alignment, scale_group, k_scale, v_scale, channel_tokens, residual_blocks, device, memory_kind, 0.0))


add_properties(Storage, "_info", {
    "num_blocks": "Blocks of the storage.",
    "num_layers": "Layers of the model, each with its keys and values.",
    "num_heads": "KV heads of a layer.",
    "head_dim": "Elements of a key.",
    "v_head_dim": "Elements of a value.",
    "block_size": "Tokens of a block.",
    "dtype": "Stored type, a DType.",
    "layout": "Order of the dimensions, a Layout.",
    "flags": "StorageFlags.",
    "scale_group": "Elements of a row that share a scale; 0 = the whole row, or no scales.",
    "alignment": "Bytes that the address of each block is a multiple of.",
    "memory_kind": "Kind of the memory, a MemoryKind; never DEFAULT.",
    "k_scale": "Scale of all keys; 0 = the scales are in the blocks, or there are none.",
    "v_scale": "Scale of all values; 0 = the scales are in the blocks, or there are none.",
    "channel_tokens": "With StorageFlags.CHANNEL_KEYS: tokens that share the scale of a channel.",
    "residual_blocks": "With StorageFlags.CHANNEL_KEYS: blocks of each layer that are not yet quantized.",
    "slab_bytes": "Bytes of all blocks.",
    "block_bytes": "Bytes of one block in all layers, with scales and padding.",
    "token_bytes": "Bytes of one token in all layers, with scales, without padding.",
    "residual_bytes": "Bytes beside the slab for the keys of residual blocks.",
}, {"dtype": DType, "layout": Layout, "flags": StorageFlags, "memory_kind": MemoryKind})
