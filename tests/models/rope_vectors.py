#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rope_vectors.h, the reference of rope_test.cc, beside itself.

The numbers are computed here in double precision, from the formulas of the papers, apart from the library. Where
Transformers and torch are installed, the frequencies of its own functions (float32) are written beside them, its rotation
of rows is compared, and its version is noted; without them the script refuses to write, unless --without-transformers.
"""
import argparse
import math
import pathlib

NONE, LINEAR, DYNAMIC, YARN, LLAMA3, LONGROPE = range(6)
NAMES = ["default", "linear", "dynamic", "yarn", "llama3", "longrope"]


def case(name, scaling, dim, theta, factor=0.0, original=0, context=0, length=0, head_dim=0, slow=0.0, fast=0.0,
         attention=0.0, exact_ramp=0, factors=()):
    return dict(locals(), head_dim=head_dim or dim)


LONG = [1 + 0.4 * i + 0.01 * i * i for i in range(24)]
SHORT = [1 + 0.02 * i for i in range(24)]
CASES = [
    case("llama-3-8b", NONE, 128, 5e5, context=8192),
    case("a part of the head", NONE, 24, 1e4, context=4096, head_dim=32),
    case("gemma-3-4b, full layers", LINEAR, 64, 1e6, 8.0, context=131072),
    case("dynamic, short", DYNAMIC, 64, 1e4, 2.0, context=2048, length=1000),
    case("dynamic, long", DYNAMIC, 64, 1e4, 2.0, context=2048, length=5000),
    case("deepseek-v3", YARN, 64, 1e4, 40.0, 4096, 163840, slow=1.0, fast=32.0, attention=1.0),
    case("gpt-oss-20b", YARN, 64, 1.5e5, 32.0, 4096, 131072, slow=1.0, fast=32.0, exact_ramp=1),
    case("yarn, defaults", YARN, 128, 1e6, 4.0, 32768, 131072),
    case("llama-3.1-8b", LLAMA3, 128, 5e5, 8.0, 8192, 131072, slow=1.0, fast=4.0),
    case("llama-3.2-1b", LLAMA3, 64, 5e5, 32.0, 8192, 131072),
    case("longrope, short", LONGROPE, 48, 1e4, 32.0, 4096, 131072, length=4096, factors=SHORT),
    case("longrope, long", LONGROPE, 48, 1e4, 32.0, 4096, 131072, length=4097, factors=LONG),
]
ROWS = [("llama-3.2-1b", 5), ("llama-3.2-1b", 131071), ("gpt-oss-20b", 4097), ("deepseek-v3", -3)]


def frequencies(c):
    """(radians per position of each pair, attention factor)"""
    dim, theta, factor, scaling = c["dim"], c["theta"], c["factor"], c["scaling"]
    if scaling == DYNAMIC:
        length = max(c["length"], c["context"])
        theta = theta * (factor * length / c["context"] - factor + 1) ** (dim / (dim - 2))
    plain = [1 / theta ** (2 * i / dim) for i in range(dim // 2)]
    if scaling in (NONE, DYNAMIC):
        return plain, 1.0
    if scaling == LINEAR:
        return [f / factor for f in plain], 1.0
    if scaling == LONGROPE:
        scale = math.sqrt(1 + math.log(factor) / math.log(c["original"]))
        return [f / s for f, s in zip(plain, c["factors"])], c["attention"] or scale
    slow, fast = c["slow"] or 1.0, c["fast"] or (4.0 if scaling == LLAMA3 else 32.0)
    out = []
    if scaling == LLAMA3:
        for f in plain:
            rotations = c["original"] * f / (2 * math.pi)
            smooth = (rotations - slow) / (fast - slow)
            out.append(f / factor if rotations < slow else f if rotations > fast else (1 - smooth) * f / factor + smooth * f)
        return out, 1.0
    low, high = (dim * math.log(c["original"] / (rotations * 2 * math.pi)) / (2 * math.log(theta)) for rotations in (fast, slow))
    if not c["exact_ramp"]:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    for i, f in enumerate(plain):
        ramp = min(max((i - low) / (high - low), 0), 1)
        out.append(f / factor * ramp + f * (1 - ramp))
    return out, c["attention"] or 0.1 * math.log(factor) + 1


def rotate(row, c, position, interleaved):
    angles, scale = frequencies(c)
    half, out = len(angles), list(row)
    for i, angle in enumerate(angles):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        cos, sin = scale * math.cos(position * angle), scale * math.sin(position * angle)
        out[a], out[b] = row[a] * cos - row[b] * sin, row[b] * cos + row[a] * sin
    return out


class Transformers:
    def __init__(self):
        import torch
        import transformers
        from transformers import LlamaConfig
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
        from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj
        from transformers.models.llama import modeling_llama as llama
        self.version = f"Transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
        self.torch, self.config, self.functions, self.llama, self.gptj = torch, LlamaConfig, ROPE_INIT_FUNCTIONS, llama, gptj

    def frequencies(self, c):
        kind = NAMES[c["scaling"]]
        parameters = {"rope_type": kind, "rope_theta": c["theta"], "partial_rotary_factor": c["dim"] / c["head_dim"]}
        if c["scaling"] != NONE:
            parameters["factor"] = c["factor"]
        if c["original"]:
            parameters["original_max_position_embeddings"] = c["original"]
        if c["scaling"] == LLAMA3:
            parameters.update(low_freq_factor=c["slow"] or 1.0, high_freq_factor=c["fast"] or 4.0)
        if c["scaling"] == YARN:
            parameters.update(beta_slow=c["slow"] or None, beta_fast=c["fast"] or None, truncate=not c["exact_ramp"])
        if c["attention"]:
            parameters["attention_factor"] = c["attention"]
        if c["scaling"] == LONGROPE:
            parameters.update(short_factor=c["factors"], long_factor=c["factors"])
        config = self.config(hidden_size=c["head_dim"] * 4, num_attention_heads=4, head_dim=c["head_dim"],
                             max_position_embeddings=c["context"], rope_parameters=parameters)
        if c["scaling"] == NONE:
            values, scale = self.llama.LlamaRotaryEmbedding.compute_default_rope_parameters(config)
            if c["dim"] != c["head_dim"]:  # Llama itself rotates whole heads
                config.head_dim = c["dim"]
                values, scale = self.llama.LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        else:
            values, scale = self.functions[kind](config, seq_len=c["length"] or None)
        return [float(v) for v in values], float(scale)

    def rotate(self, row, c, position, interleaved):
        angles, scale = frequencies(c)
        torch = self.torch
        x = torch.tensor(row, dtype=torch.float64).reshape(1, 1, 1, -1)
        angles = torch.tensor([position * a for a in angles], dtype=torch.float64)
        if interleaved:
            shape = lambda t: t.reshape(1, 1, -1)
            return (self.gptj(x, shape(angles.sin()), shape(angles.cos())) * scale).flatten().tolist()
        both = torch.cat([angles, angles]).reshape(1, 1, -1)
        return (self.llama.apply_rotary_pos_emb(x, x, both.cos(), both.sin())[0] * scale).flatten().tolist()


def numbers(values, columns=6):
    lines = [", ".join(f"{v:.17g}" for v in values[i:i + columns]) for i in range(0, len(values), columns)]
    return "{" + ",\n      ".join(lines) + "}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without-transformers", action="store_true")
    peer = None if parser.parse_args().without_transformers else Transformers()
    out = ["// SPDX-License-Identifier: Apache-2.0",
           "// Written by rope_vectors.py, in double precision. `transformers` is the same in single precision by",
           "// " + (peer.version if peer else "nobody") + ".",
           "#pragma once", "#include <cstdint>", "#include <vector>", "", "namespace kvc::test {", "",
           "struct RopeVector {", "  const char* name;", "  uint32_t scaling, head_dim, rope_dim, flags;",
           "  uint64_t original, context, length;", "  double theta, factor, slow, fast, attention;",
           "  std::vector<double> factors;", "  double attention_factor;", "  std::vector<double> frequencies;",
           "  double transformers_factor;", "  std::vector<double> transformers;", "};", "",
           "struct RopeRow {", "  const char* name;", "  int64_t position;", "  std::vector<double> x, halves, interleaved;",
           "};", "", "// clang-format off", "inline const std::vector<RopeVector> kRopeVectors = {"]
    for c in CASES:
        own, scale = frequencies(c)
        theirs, their_scale = peer.frequencies(c) if peer else ([], 0.0)
        for a, b in zip(own, theirs):
            assert abs(a - b) <= 4e-6 * a, (c["name"], a, b)
        head = [c["scaling"], c["head_dim"], c["dim"], c["exact_ramp"], c["original"], c["context"], c["length"]]
        head += [repr(float(c[key])) for key in ("theta", "factor", "slow", "fast", "attention")]
        out.append('    {"%s", %s,\n      %s,\n      %.17g,\n      %s,\n      %.17g,\n      %s},' % (
            c["name"], ", ".join(map(str, head)), numbers(c["factors"]), scale, numbers(own), their_scale, numbers(theirs)))
    out += ["};", "", "inline const std::vector<RopeRow> kRopeRows = {"]
    for name, position in ROWS:
        c = next(c for c in CASES if c["name"] == name)
        row = [round(math.sin(1.7 * i + 0.3 * position) * 3, 4) for i in range(c["dim"])]
        rotated = [rotate(row, c, position, interleaved) for interleaved in (False, True)]
        for interleaved in (False, True):
            if peer:
                for a, b in zip(rotated[interleaved], peer.rotate(row, c, position, interleaved)):
                    assert abs(a - b) < 1e-11, (name, position, interleaved, a, b)
        out.append('    {"%s", %d,\n      %s,\n      %s,\n      %s},' % (name, position, *map(numbers, [row, *rotated])))
    out += ["};", "// clang-format on", "", "}  // namespace kvc::test", ""]
    pathlib.Path(__file__).with_name("rope_vectors.h").write_text("\n".join(out))


main()
