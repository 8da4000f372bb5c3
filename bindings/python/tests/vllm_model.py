# SPDX-License-Identifier: Apache-2.0
"""Serves a small model with random weights with vLLM on the CPU, and prints, as JSON, what each prompt got and what vLLM's counters say.

    vllm_model.py make FOLDER           writes the model
    vllm_model.py serve FOLDER          serves it; KVCACHE_VLLM as for `vllm serve`
    vllm_model.py judge FOLDER ANSWER   how far the logit of a token that was served is below the largest one, as transformers computes them: the most

The pool is so small that requests wait and are preempted; prompts share prefixes, and some come twice. The engine core is a process of its own."""

import json
import os
import pathlib
import random
import sys

BLOCK, VOCAB, NEW_TOKENS, BLOCKS = 32, 512, 40, 16


def prompts():
    rng = random.Random(5)
    documents = [[rng.randrange(3, VOCAB) for _ in range(count)] for count in (64, 96, 40)]
    made = [rng.choice(documents) + [rng.randrange(3, VOCAB) for _ in range(rng.randrange(1, 20))] for _ in range(30)]
    return made + made[:6]


def make(folder):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         head_dim=32, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=False, eos_token_id=1, bos_token_id=2)
    LlamaForCausalLM(config).save_pretrained(folder)


def judge(folder, answer):
    """Each token is judged behind those that were served before it: near ties may fall either way, a wrong key or value shows."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    worst, spread = 0.0, 0.0
    for tokens, served in zip(prompts(), json.loads(pathlib.Path(answer).read_text())["tokens"]):
        with torch.no_grad():
            logits = model(torch.tensor([tokens + served[:-1]])).logits[0, len(tokens) - 1 :]
        gaps = logits.max(dim=1).values - logits[range(len(served)), served]
        worst, spread = max(worst, gaps.max().item()), max(spread, logits.std().item())
    print(json.dumps({"worst": worst, "spread": spread}))


def serve(folder):
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"], os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "1", "spawn"
    from vllm import LLM, SamplingParams

    llm = LLM(folder, skip_tokenizer_init=True, dtype="float32", block_size=BLOCK, num_gpu_blocks_override=BLOCKS, max_model_len=192, max_num_seqs=8,
              max_num_batched_tokens=64, gpu_memory_utilization=0.1, kv_cache_memory_bytes=1 << 26, enforce_eager=True, enable_prefix_caching=True, disable_log_stats=False, seed=0)
    parameters = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, ignore_eos=True, detokenize=False)
    out = llm.generate([{"prompt_token_ids": tokens} for tokens in prompts()], parameters, use_tqdm=False)
    counters = {metric.name.removeprefix("vllm:"): metric.value for metric in llm.get_metrics() if isinstance(getattr(metric, "value", None), (int, float))}
    print(json.dumps({"tokens": [list(one.outputs[0].token_ids) for one in out], "cached": [one.num_cached_tokens for one in out],
                      **{name: counters.get(name) for name in ("num_preemptions", "prefix_cache_queries", "prefix_cache_hits")}}))
    sys.stdout.flush()


if __name__ == "__main__":
    {"make": make, "serve": serve, "judge": judge}[sys.argv[1]](*sys.argv[2:])
