# SPDX-License-Identifier: Apache-2.0
"""A second reading of Hugging Face configs, as an oracle: what the KV cache depends on, without the rotary embedding."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

_NEVER, _ALL, _IF_SWITCHED_ON, _EVERY_SIXTH, _EVERY_SECOND = range(5)
_MAX_DIM, _MAX_TOKENS = 65536, 1 << 40


class Architecture(NamedTuple):
    """What holds if a config does not say it; None: it must. kv_heads "heads": as many as query heads; head_dim "hidden": hidden_size / heads."""

    class_name: str
    windows: int = _NEVER
    window: int = 0
    latent: bool = False
    heads: Optional[int] = None
    kv_heads: Any = None
    head_dim: Any = None
    vocab: Optional[int] = None
    context: Optional[int] = None


_GEMMA3 = Architecture("Gemma3ForCausalLM", _EVERY_SIXTH, 4096, heads=8, kv_heads=4, head_dim=256, vocab=262208, context=131072)
ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", kv_heads="heads", head_dim="hidden"),
    "mistral": Architecture("MistralForCausalLM", _ALL, 4096, head_dim="hidden"),
    "mixtral": Architecture("MixtralForCausalLM", _ALL, head_dim="hidden"),
    "phi": Architecture("PhiForCausalLM", kv_heads="heads", head_dim="hidden"),
    "phi3": Architecture("Phi3ForCausalLM", _ALL, kv_heads="heads", head_dim="hidden"),
    "qwen2": Architecture("Qwen2ForCausalLM", _IF_SWITCHED_ON, 4096, head_dim="hidden"),
    "qwen3": Architecture("Qwen3ForCausalLM", _IF_SWITCHED_ON, 4096),
    "qwen3_moe": Architecture("Qwen3MoeForCausalLM", _IF_SWITCHED_ON, 4096),
    "gemma2": Architecture("Gemma2ForCausalLM", _EVERY_SECOND, 4096),
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3._replace(class_name="Gemma3ForConditionalGeneration"),
    "deepseek_v3": Architecture("DeepseekV3ForCausalLM", latent=True),
    "gpt_oss": Architecture("GptOssForCausalLM", _EVERY_SECOND, 128),
}


def _whole(config: "dict[str, Any]", key: str, low: int, high: int, default: Optional[int] = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f'"{key}" is {value!r:.60}; give a whole number from {low} to {high}')
    return value


def _find_architecture(outer: "dict[str, Any]", config: "dict[str, Any]") -> "tuple[str, Architecture]":
    name = config.get("model_type") or outer.get("model_type")
    classes = outer.get("architectures") or [None]
    for model_type, architecture in ARCHITECTURES.items():
        if name == model_type or (name is None and classes[0] == architecture.class_name):
            return model_type, architecture
    raise ValueError(f'"model_type" is {name or classes[0]!r}; known are {" ".join(ARCHITECTURES)}')


def _heads(config: "dict[str, Any]", architecture: Architecture) -> "dict[str, int]":
    heads = _whole(config, "num_attention_heads", 1, _MAX_DIM, architecture.heads)
    if architecture.latent:
        rope = _whole(config, "qk_rope_head_dim", 1, _MAX_DIM // 2)
        return {"num_q_heads": heads, "num_kv_heads": 1, "rope_dim": rope, "head_dim": _whole(config, "qk_nope_head_dim", 1, _MAX_DIM // 2) + rope,
                "v_head_dim": _whole(config, "v_head_dim", 1, _MAX_DIM), "latent_dim": _whole(config, "kv_lora_rank", 1, _MAX_DIM // 2) + rope}
    kv_heads = _whole(config, "num_key_value_heads", 1, _MAX_DIM, heads if architecture.kv_heads == "heads" else architecture.kv_heads)
    if heads % kv_heads:
        raise ValueError(f'"num_key_value_heads" is {kv_heads}; it must divide num_attention_heads, {heads}')
    if architecture.head_dim == "hidden" and config.get("head_dim") is None:
        hidden = _whole(config, "hidden_size", 1, 1 << 24)
        if hidden % heads or hidden // heads > _MAX_DIM:
            raise ValueError(f'"hidden_size" is {hidden}; give head_dim, or a multiple of num_attention_heads, {heads}')
        head_dim = hidden // heads
    else:
        head_dim = _whole(config, "head_dim", 1, _MAX_DIM, None if architecture.head_dim == "hidden" else architecture.head_dim)
    return {"num_q_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim, "v_head_dim": head_dim}


def _window(config: "dict[str, Any]", architecture: Architecture, num_layers: int, max_context: int) -> "tuple[int, tuple[int, ...]]":
    """Tokens of the window (0 = none) and the layers that have it."""
    kind = architecture.windows
    if kind == _NEVER or (kind == _IF_SWITCHED_ON and not config.get("use_sliding_window")):
        return 0, ()
    window = 0 if "sliding_window" in config else architecture.window
    if config.get("sliding_window") is not None:
        window = _whole(config, "sliding_window", 1, _MAX_TOKENS)
    if window == 0 or window >= max_context:
        return 0, ()  # it hides nothing
    types = config.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or len(types) < num_layers:
            raise ValueError(f'"layer_types" must name the kind of each of {num_layers} layers')
        unknown = set(types[:num_layers]) - {"sliding_attention", "full_attention"}
        if unknown:
            raise ValueError(f'"layer_types" has {sorted(unknown)[0]!r}; known are sliding_attention and full_attention')
        layers = tuple(layer for layer in range(num_layers) if types[layer] == "sliding_attention")
    else:
        first = _whole(config, "max_window_layers", 0, 2**32 - 1, 28) if kind == _IF_SWITCHED_ON else 0
        period = 2 if kind == _EVERY_SECOND else 0
        if kind == _EVERY_SIXTH:
            key = "sliding_window_pattern" if config.get("sliding_window_pattern") is not None else "_sliding_window_pattern"
            period = _whole(config, key, 1, 2**32 - 1, 6)
        layers = tuple(layer for layer in range(first, num_layers) if period == 0 or (layer + 1) % period)
    return (window, layers) if layers else (0, ())


def read(outer: "dict[str, Any]") -> "dict[str, Any]":
    """The fields of the Model; ValueError if the config is to be refused."""
    config = outer.get("text_config") or outer  # of models that also see or hear
    _, architecture = _find_architecture(outer, config)
    layers = _whole(config, "num_hidden_layers", 1, 512)
    context = _whole(config, "max_position_embeddings", 1, _MAX_TOKENS, architecture.context)
    window, window_layers = _window(config, architecture, layers, context)
    return {"num_layers": layers, "max_context": context, "vocab_size": _whole(config, "vocab_size", 1, 2**31 - 1, architecture.vocab),
            "window_tokens": window, "window_layers": list(window_layers), **_heads(config, architecture)}
