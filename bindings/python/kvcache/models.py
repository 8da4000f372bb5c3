# SPDX-License-Identifier: Apache-2.0
"""Models: the shape of their KV cache, and its memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Iterator, Optional

from . import _native
from ._docs import add_properties
from .constants import DType, RopeScaling
from .errors import InvalidArgumentError
from .records import MemoryEstimate
from .rope import rope_frequencies

if TYPE_CHECKING:
    import numpy


class Model:
    """What the KV cache of a model depends on. The parameters are attributes of the same names.

    Get one from find_model() or from_config(), or give its fields: Model(num_layers=32, num_kv_heads=8, head_dim=128, max_context=8192).
    window_layers are the layers with the window; none means all, if window_tokens is given. v_head_dim, rope_dim: 0 = head_dim. latent_dim: elements
    stored per layer and token with latent attention; 0 = keys and values are stored. window_kind: what window_tokens is: 0 or 1 = a sliding window,
    2 = a chunk of chunked local attention. state_layers: layers with a recurrent state of conv_elements + recurrent_elements each in place of keys
    and values. num_cross_layers: layers that also read cross_tokens tokens of an encoder. rope_scaling: RopeScaling, of which the other rope_* are the
    parameters; 0 = its default."""

    if TYPE_CHECKING:  # properties, made below
        name: str
        num_layers: int
        num_q_heads: int
        num_kv_heads: int
        head_dim: int
        v_head_dim: int
        latent_dim: int
        rope_dim: int
        vocab_size: int
        max_context: int
        window_tokens: int
        rope_theta: float
        rope_local_theta: float
        rope_factor: float
        rope_original_context: int
        rope_scaling: RopeScaling
        rope_flags: int
        rope_low_rotations: float
        rope_high_rotations: float
        rope_attention_factor: float
        window_kind: int
        num_cross_layers: int
        conv_elements: int
        recurrent_elements: int
        cross_tokens: int
        cross_kv_heads: int
        cross_head_dim: int

    def __init__(self, window_layers: tuple[int, ...] = (), *, name: str = "", num_layers: int = 0, num_q_heads: int = 0,
                 num_kv_heads: int = 0, head_dim: int = 0, v_head_dim: int = 0, latent_dim: int = 0, rope_dim: int = 0, vocab_size: int = 0,
                 max_context: int = 0, window_tokens: int = 0, rope_theta: float = 0.0, rope_local_theta: float = 0.0, rope_factor: float = 0.0,
                 rope_original_context: int = 0, rope_scaling: RopeScaling = RopeScaling.NONE, rope_flags: int = 0,
                 rope_low_rotations: float = 0.0, rope_high_rotations: float = 0.0, rope_attention_factor: float = 0.0,
                 window_kind: int = 0, state_layers: tuple[int, ...] = (), num_cross_layers: int = 0, conv_elements: int = 0,
                 recurrent_elements: int = 0, cross_tokens: int = 0, cross_kv_heads: int = 0, cross_head_dim: int = 0):
        self._model = _native.kvc_model()
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r:.80}; it must be a str")
        if len(name.encode()) > 63:
            raise ValueError(f"name is {name!r:.80}; it must have at most 63 bytes")
        for field, value in zip(_FIELDS, (name, num_layers, num_q_heads, num_kv_heads, head_dim, v_head_dim, latent_dim, rope_dim, vocab_size,
                                          max_context, window_tokens, rope_theta, rope_local_theta, rope_factor, rope_original_context,
                                          rope_scaling, rope_flags, rope_low_rotations, rope_high_rotations, rope_attention_factor,
                                          window_kind, num_cross_layers, conv_elements, recurrent_elements, cross_tokens, cross_kv_heads,
                                          cross_head_dim)):
            setattr(self._model, field, value)
        for layer in window_layers:
            self._model.set_window(layer)
        for layer in state_layers:
            self._model.set_state(layer)

    @classmethod
    def from_config(cls, path: str | os.PathLike[str]) -> Model:
        """Reads a Hugging Face config.json, given its path or its folder. InvalidArgumentError names the file, the field, its value and the fix."""
        source = os.path.join(path, "config.json") if os.path.isdir(path) else os.fspath(path)
        with open(source, "rb") as file:
            text = file.read()
        model = cls()
        try:
            _native.kvc_model_from_config(text, model._model)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{source}: {error}") from None
        return model

    def register(self, name: Optional[str] = None) -> Model:
        """Registers a copy of the model under this name (None = its own), and returns it: find_model() and models() know it from now on, in the
        whole process. It replaces the registered model of that name. InvalidArgumentError for the name of a preset, a name that is not 1 to 63
        printable ASCII characters without spaces, and fields out of range; LimitError if 256 others are registered."""
        fields = {field: getattr(self, field) for field in _FIELDS}
        copy = Model(tuple(self.window_layers), state_layers=tuple(self.state_layers), **{**fields, **({} if name is None else {"name": name})})
        _native.kvc_model_register(copy._model)
        return copy

    @property
    def window_layers(self) -> list[int]:
        """The layers with the window."""
        return [layer for layer in range(min(self._model.num_layers, _native.KVC_MODEL_MAX_LAYERS)) if self._model.has_window(layer)]

    @property
    def state_layers(self) -> list[int]:
        """The layers with a recurrent state in place of keys and values."""
        return [layer for layer in range(min(self._model.num_layers, _native.KVC_MODEL_MAX_LAYERS)) if self._model.has_state(layer)]

    def estimate(self, dtype: DType | str = DType.FLOAT16, *, tokens: int = 0, num_sequences: int = 0, budget_bytes: int = 0,
                 block_size: int = 0, chunk_tokens: int = 0, scale_group: int = 0, asymmetric: bool = False, tensor_scales: bool = False,
                 channel_keys: bool = False, channel_tokens: int = 0, memory_fraction: float = 0.0, device: Optional[str] = None,
                 checkpoint_tokens: int = 0, conv_dtype: DType | str | int = 0, recurrent_dtype: DType | str | int = 0,
                 retention_tokens: Optional[int] = 0) -> MemoryEstimate:
        """Computes the memory of num_sequences (0 = 1) sequences of `tokens` (0 = max_context) tokens that share nothing. With a budget, which is
        budget_bytes or memory_fraction of the free memory of `device` (None = the CPU), it also computes what fits: max_tokens, max_sequences, and
        the blocks of a manager's pools. chunk_tokens: most tokens of a sequence that one step writes; 0 = 1. tensor_scales: int8 and int4 with
        k_scale and v_scale. channel_keys: int8 and int4 with StorageFlags.CHANNEL_KEYS. scale_group, channel_tokens: as in a Storage. Layers
        with a state: checkpoint_tokens are the tokens between copies of it, 0 = no copies; conv_dtype and recurrent_dtype its types, 0 = dtype, or
        bfloat16 for a quantized one. Layers with a window or chunks: retention_tokens of their Group, but 0 = block_size: a hit may end at every block
        whose window is still cached; None = only at the ends of prompts and requests (a Group's 0). The default dtype takes as much as that of a Storage, bfloat16: most models store 16 bits."""
        return self.memory(dtype, tokens=tokens, num_sequences=num_sequences, budget_bytes=budget_bytes, block_size=block_size,
                           chunk_tokens=chunk_tokens, scale_group=scale_group, asymmetric=asymmetric, tensor_scales=tensor_scales,
                           channel_keys=channel_keys, channel_tokens=channel_tokens, memory_fraction=memory_fraction, device=device,
                           checkpoint_tokens=checkpoint_tokens, conv_dtype=conv_dtype, recurrent_dtype=recurrent_dtype,
                           retention_tokens=retention_tokens).estimate()

    def memory(self, dtype: DType | str = DType.FLOAT16, *, tokens: int = 0, num_sequences: int = 0, budget_bytes: int = 0,
               block_size: int = 0, chunk_tokens: int = 0, scale_group: int = 0, asymmetric: bool = False, tensor_scales: bool = False,
               channel_keys: bool = False, channel_tokens: int = 0, memory_fraction: float = 0.0, device: Optional[str] = None,
               checkpoint_tokens: int = 0, conv_dtype: DType | str | int = 0, recurrent_dtype: DType | str | int = 0,
               retention_tokens: Optional[int] = 0) -> Memory:
        """Returns the memory of a manager: as many blocks of this model as the budget pays for. Parameters as in estimate().

        Manager(memory=find_model("llama-3.1-8b").memory("bf16", budget_bytes=8 << 30))"""
        query = _native.kvc_memory_query()
        query.dtype = DType.parse(dtype)
        query.tokens, query.num_sequences, query.budget_bytes = tokens, num_sequences, budget_bytes
        query.block_size, query.chunk_tokens, query.scale_group, query.asymmetric = block_size, chunk_tokens, scale_group, int(asymmetric)
        query.tensor_scales, query.channel_keys, query.channel_tokens = int(tensor_scales), int(channel_keys), channel_tokens
        query.memory_fraction, query.checkpoint_tokens = memory_fraction, checkpoint_tokens
        query.retention_tokens = 2 ** 64 - 1 if retention_tokens is None else retention_tokens
        query.conv_dtype, query.recurrent_dtype = (0 if given == 0 else DType.parse(given) for given in (conv_dtype, recurrent_dtype))
        if device is not None:
            query.device = device
        return Memory(self, query)

    def rope(self, layer: int = 0, length: int = 0, factors: Optional[numpy.ndarray] = None) -> tuple[numpy.ndarray, float]:
        """Returns (frequencies, attention factor) of a layer's rotary embedding: see kvcache.rope_frequencies."""
        return rope_frequencies(self, layer, length, factors)

    def __repr__(self) -> str:
        return f"<kvcache.Model {self.name or 'by hand'}: {self.num_layers} layers, {self.num_kv_heads} KV heads of {self.head_dim}>"


class Memory:
    """A model and a budget, from Model.memory(): for Manager(memory=...), which then has the blocks and groups of that model."""

    def __init__(self, model: Model, query: _native.kvc_memory_query):
        self._model, self._query = model, query

    def estimate(self) -> MemoryEstimate:
        """What it holds: as Model.estimate()."""
        return MemoryEstimate.of(_native.kvc_estimate_memory, self._model._model, self._query)


_FIELDS = {
    "name": "Name of a preset, or of your choice: at most 63 bytes.",
    "num_layers": "Layers with a KV cache or a state, 1 to 512.",
    "num_q_heads": "Query heads, a multiple of num_kv_heads; 0 = unknown.",
    "num_kv_heads": "KV heads of a layer.",
    "head_dim": "Elements of a key.",
    "v_head_dim": "Elements of a value; 0 = head_dim.",
    "latent_dim": "Latent attention: elements stored per layer and token; 0 = keys and values are stored.",
    "rope_dim": "Elements of a key that rotate; 0 = head_dim.",
    "vocab_size": "Upper bound of token ids.",
    "max_context": "Tokens of the longest sequence that the configuration of the model allows.",
    "window_tokens": "Tokens that a query of a layer with a window reads; 0 = no layer has one.",
    "rope_theta": "Base of the rotary embedding.",
    "rope_local_theta": "Base in the layers with a window; 0 = rope_theta.",
    "rope_factor": "Factor of rope_scaling; 0 without one.",
    "rope_original_context": "Tokens of the trained context before its extension, if rope_scaling uses them; otherwise 0.",
    "rope_scaling": "How the model extends its context, a RopeScaling.",
    "rope_flags": "Bits of the rotary embedding, from the configuration of the model; 0 = none.",
    "rope_low_rotations": "LLAMA3, YARN: pairs with fewer rotations within rope_original_context are divided by rope_factor; 0 = 1.",
    "rope_high_rotations": "LLAMA3, YARN: pairs with more rotations are unchanged; 0 = 4 for LLAMA3, 32 for YARN.",
    "rope_attention_factor": "Factor of cosines and sines; 0 = that of rope_scaling.",
    "window_kind": "What window_tokens is: 0 or 1 = tokens of a sliding window, 2 = tokens of a chunk of chunked local attention.",
    "num_cross_layers": "Layers of cross-attention, which come on top of num_layers; 0 = none.",
    "conv_elements": "Elements of a layer's state that its convolution keeps: its channels times (kernel - 1).",
    "recurrent_elements": "Elements of a layer's state that its recurrence keeps.",
    "cross_tokens": "Encoder tokens of a sequence, with num_cross_layers.",
    "cross_kv_heads": "KV heads of a layer of cross-attention.",
    "cross_head_dim": "Elements of its keys, and of its values.",
}
add_properties(Model, "_model", _FIELDS, {"rope_scaling": RopeScaling})


def find_model(name: str) -> Model:
    """Returns the preset with this name, alias or repository, or the registered model of this name. NotFoundError has the nearest names."""
    model = Model()
    _native.kvc_model_find(name, model._model)
    return model


def models() -> Iterator[Model]:
    """Yields all presets, and then the registered models."""
    for index in range(_native.kvc_model_count()):
        model = Model()
        _native.kvc_model_get(index, model._model)
        yield model
