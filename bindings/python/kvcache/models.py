# SPDX-License-Identifier: Apache-2.0
"""Models: the shape of their KV cache, and its memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Optional

from . import _native
from .constants import DType
from .errors import InvalidArgumentError
from .records import MemoryEstimate
from .rope import rope_frequencies

if TYPE_CHECKING:
    import numpy


class Model:
    """A kvc_model, with its fields as attributes: name, num_layers, num_q_heads, num_kv_heads, head_dim, v_head_dim, latent_dim, rope_dim,
    vocab_size, max_context, window_tokens, rope_theta and so on.

    Get one from find_model() or from_config(), or give its fields: Model(num_layers=32, num_kv_heads=8, head_dim=128, max_context=8192).
    window_layers are the layers with the window; none means all, if window_tokens is given."""

    def __init__(self, window_layers: "tuple[int, ...]" = (), **fields: Any):
        self._model = _native.kvc_model()
        for name, value in fields.items():
            if not hasattr(self._model, name):
                raise TypeError(f"{name!r} is not a field of a model; see kvc_model")
            setattr(self._model, name, value)
        for layer in window_layers:
            self._model.set_window(layer)

    @classmethod
    def from_config(cls, path: "str | os.PathLike[str]") -> "Model":
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._model, name)

    @property
    def window_layers(self) -> "list[int]":
        """The layers with the window."""
        return [layer for layer in range(self._model.num_layers) if self._model.has_window(layer)]

    def estimate(self, dtype: "DType | str" = DType.FLOAT16, *, tokens: int = 0, num_sequences: int = 0, budget_bytes: int = 0,
                 block_size: int = 0, chunk_tokens: int = 0, scale_group: int = 0, asymmetric: bool = False, **options: int) -> MemoryEstimate:
        """Computes the memory of num_sequences (0 = 1) sequences of `tokens` (0 = max_context) tokens that share nothing. With budget_bytes it
        also computes what fits: max_tokens and max_sequences. Other options are fields of kvc_memory_query: tensor_scales, channel_keys,
        channel_tokens."""
        query, answer = _native.kvc_memory_query(), _native.kvc_memory_estimate()
        query.dtype = DType.parse(dtype)
        query.tokens, query.num_sequences, query.budget_bytes = tokens, num_sequences, budget_bytes
        query.block_size, query.chunk_tokens, query.scale_group, query.asymmetric = block_size, chunk_tokens, scale_group, int(asymmetric)
        for name, value in options.items():
            if not hasattr(query, name):
                raise TypeError(f"{name!r} is not an option of an estimate; see kvc_memory_query")
            setattr(query, name, value)
        _native.kvc_estimate_memory(self._model, query, answer)
        return MemoryEstimate.read(answer)

    def rope(self, layer: int = 0, length: int = 0, factors: "Optional[numpy.ndarray]" = None) -> "tuple[numpy.ndarray, float]":
        """Returns (frequencies, attention factor) of a layer's rotary embedding: see kvcache.rope_frequencies."""
        return rope_frequencies(self, layer, length, factors)

    def __repr__(self) -> str:
        return f"<kvcache.Model {self.name or 'by hand'}: {self.num_layers} layers, {self.num_kv_heads} KV heads of {self.head_dim}>"


def find_model(name: str) -> Model:
    """Returns the preset with this name, alias or repository. NotFoundError names the nearest presets."""
    model = Model()
    _native.kvc_model_find(name, model._model)
    return model


def models() -> Iterator[Model]:
    """Yields all presets."""
    for index in range(_native.kvc_model_count()):
        model = Model()
        _native.kvc_model_get(index, model._model)
        yield model
