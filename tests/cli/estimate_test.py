#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands estimate and models: known numbers, the inverse, config.json files, wrong usage."""
import itertools
import json
import os
import random
import tempfile

import command

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 500000.0}


def estimate(*arguments):
    code, out, err = command.run("estimate", "--json", *arguments)
    if code != 0:
        raise AssertionError(f"estimate {arguments} ended with {code}: {err}")
    return json.loads(out)


class Estimate(command.CommandTest):
    def test_the_known_number(self):
        answer = estimate("llama-3.1-8b", "--context", 8192)
        self.assertEqual(answer["total_bytes"], 1073741824)
        self.assertEqual(answer["bytes_per_token"], 131072)
        self.assertEqual(answer["groups"], [{"kind": "full", "layers": 32, "bytes_per_block": 2097152,
                                             "blocks_per_sequence": 512}])
        self.assertNotIn("max_tokens", answer)

    def test_options_reach_the_library(self):
        answer = estimate("gemma-3-12b", "--dtype", "int4", "--scale-group", 64, "--asymmetric", "--block-size", 32,
                          "--context", 10000, "--batch", 7, "--chunk", 256)
        row = 256 // 2 + 4 * 8
        full, window = 8 * 8 * 2 * row * 32, 40 * 8 * 2 * row * 32
        self.assertEqual([group["bytes_per_block"] for group in answer["groups"]], [full, window])
        self.assertEqual([group["blocks_per_sequence"] for group in answer["groups"]], [313, 41])
        self.assertEqual(answer["total_bytes"], 7 * (313 * full + 41 * window))
        for dtype, size in (("fp32", 4), ("fp16", 2), ("bf16", 2), ("fp8", 1)):
            self.assertEqual(estimate("deepseek-v3", "--dtype", dtype)["bytes_per_token"], 61 * 576 * size)
        self.assertEqual(estimate("deepseek-v3", "--dtype", "int8")["bytes_per_token"], 61 * (576 + 4))

    def test_scales_of_channels_and_of_whole_tensors(self):
        answer = estimate("llama-3.1-8b", "--dtype", "int4", "--scale-group", 32, "--channel-keys", "--channel-tokens", 16,
                          "--block-size", 64, "--context", 100)
        keys, values = 64 * 64 + 4 * 128 * 4, 64 * (64 + 4 * 4)
        self.assertEqual(answer["groups"][0]["bytes_per_block"], 32 * 8 * (keys + values))
        self.assertEqual(answer["residual_bytes_per_sequence"], 32 * 8 * 64 * 128 * 2)
        self.assertEqual(answer["total_bytes"], 2 * 32 * 8 * (keys + values) + answer["residual_bytes_per_sequence"])
        self.assertEqual(estimate("llama-3.1-8b", "--dtype", "int8", "--tensor-scales")["bytes_per_token"], 65536)
        self.assert_refused(command.run("estimate", "llama-3.1-8b", "--channel-keys"), "--channel-keys")
        code, out, err = command.run("estimate", "llama-3.1-8b", "--dtype", "int4", "--channel-keys")
        self.assertEqual(code, 0, err)
        self.assertIn("one sequence, residual", out)

    def test_states_and_encoders_are_groups(self):
        answer = estimate("jamba-1.5-mini", "--dtype", "bf16", "--context", 8192, "--checkpoint", 2048, "--budget", "16GiB")
        self.assertEqual(answer["groups"], [
            {"kind": "full", "layers": 4, "bytes_per_block": 4 * 8 * 128 * 2 * 2 * 16, "blocks_per_sequence": 512},
            {"kind": "state", "layers": 28, "bytes_per_block": 28 * 8192 * 19 * 2, "blocks_per_sequence": 6}])
        self.assertGreater(answer["state_pool_blocks"], 6)
        answer = estimate("whisper-small")
        self.assertEqual([(group["kind"], group["blocks_per_sequence"]) for group in answer["groups"]], [("full", 28), ("cross", 94)])
        self.assertEqual(answer["cross_tokens"], 1500)
        code, table, _ = command.run("estimate", "qwen3-next-80b-a3b", "--budget", "80GiB")
        self.assertEqual(code, 0)
        for part in ("36 with a state instead", "one sequence, state", "pool, state"):
            self.assertIn(part, table)
        self.assertIn("12 also read 1,500 encoder tokens", command.run("estimate", "whisper-small")[1])
        self.assert_refused(command.run("estimate", "jamba-1.5-mini", "--checkpoint", 24), "--checkpoint is 24; it must be a multiple")

    def test_what_is_said_to_fit_fits_and_no_more(self):
        for model in ("llama-3.1-8b", "gpt-oss-20b", "deepseek-v3", "phi-3-mini-4k", "jamba-1.5-mini", "whisper-small"):
            for batch in (1, 3):
                budget = 3 * 2**30 + 12345
                answer = estimate(model, "--budget", budget, "--batch", batch, "--context", 4000)
                self.assertEqual(answer["budget_bytes"], budget)
                most = answer["max_tokens"]
                if most < 2**40:
                    self.assertLessEqual(estimate(model, "--batch", batch, "--context", most)["total_bytes"], budget)
                    self.assertGreater(estimate(model, "--batch", batch, "--context", most + 1)["total_bytes"], budget)
                else:
                    self.assertEqual((model, most), ("phi-3-mini-4k", 2**64 - 1))
                most = answer["max_sequences"]
                self.assertLessEqual(most * answer["bytes_per_sequence"], budget)
                self.assertGreater((most + 1) * answer["bytes_per_sequence"], budget)

    def test_the_table_says_the_same(self):
        code, out, err = command.run("estimate", "llama-3.1-8b", "--context", 8192, "--budget", "24GiB")
        self.assertEqual((code, err), (0, ""))
        for text in ("1,073,741,824 bytes", "1.00 GiB", "196,608 tokens", "131,072", "512 blocks", "24"):
            self.assertIn(text, out)
        code, out, _ = command.run("estimate", "mistral-7b-v0.1", "--budget", "24GiB")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"longest context +any")

    def test_a_config_file_or_its_folder_stands_for_a_preset(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(LLAMA, file)
            preset = estimate("llama-3.1-8b", "--context", 5000)
            for name in (path, folder):
                answer = estimate(name, "--context", 5000)
                self.assertEqual(answer.pop("model"), "llama")
                self.assertEqual(answer, {key: value for key, value in preset.items() if key != "model"})

    def test_bad_config_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            for content, words in ((b"", ["not JSON"]), (b"[" * 2**20, ["nested deeper"]), (random.Random(1).randbytes(2**20), ["config.json"]),
                                   (json.dumps(LLAMA | {"num_hidden_layers": -3}).encode(), ["num_hidden_layers", "-3", "1 to 512"]),
                                   (b" " * (2**24 + 1), ["16 MiB"])):
                with open(path, "wb") as file:
                    file.write(content)
                self.assert_refused(command.run("estimate", path), path + ": ", *words)
            os.remove(path)
            self.assert_refused(command.run("estimate", folder), "config.json", "No such file")
            self.assert_refused(command.run("estimate", path), "config.json", "No such file")
        self.assert_refused(command.run("estimate", "/dev/zero"), "/dev/zero", "16 MiB")

    def test_wrong_usage(self):
        self.assert_refused(command.run("estimate"))
        self.assert_refused(command.run("estimate", "lama-3.1-8b"), "nearest: llama-3.1-8b", "kvcache models")
        self.assert_refused(command.run("estimate", "x" * 100000), "no model")
        for option, value in (("--dtype", "fp12"), ("--context", 0), ("--context", -1), ("--batch", 0), ("--block-size", 0),
                              ("--block-size", 1025), ("--budget", "much"), ("--budget", "0"), ("--scale-group", 64),
                              ("--chunk", 0), ("--batch", 2**41)):
            self.assert_refused(command.run("estimate", "phi-4", option, value))
        self.assert_refused(command.run("estimate", "phi-4", "--batch", 2**40, "--context", 2**40), "2^64")

    def test_texts_speak_of_options(self):
        for words, text in (("--scale-group 64", "--scale-group is 64, but fp16 has no scales; give --dtype int8, int4 or fp8, or leave it out"),
                            ("--dtype int8 --tensor-scales --channel-keys", "--channel-keys is given; --tensor-scales leaves no other scales: leave one out"),
                            ("--channel-keys --dtype fp8", "--channel-keys is given, but fp8 has no scales of channels; give --dtype int8 or int4, or leave it out"),
                            ("--dtype int8 --channel-keys --channel-tokens 5", "--channel-tokens is 5; it must divide --block-size, 16"),
                            ("--channel-tokens 4", "--channel-tokens is 4; it is a part of --channel-keys: give both or neither"),
                            ("--dtype fp8 --asymmetric", "--asymmetric is given, but fp8 has scales in blocks only with --scale-group; give both or neither")):
            self.assertEqual(command.run("estimate", "phi-4", *words.split()), (2, "", f"kvcache: {text}\n"))

    def test_no_text_names_a_field_of_the_library(self):
        """Every combination of the options of types and scales."""
        parts = (("fp16", "fp8", "int8"), ((), ("--scale-group", 64)), ((), ("--asymmetric",)), ((), ("--tensor-scales",)), ((), ("--channel-keys",)),
                 ((), ("--channel-tokens", 8), ("--channel-tokens", 7)))
        codes = set()
        for model, (dtype, *rest) in itertools.product(("phi-4", "deepseek-v3"), itertools.product(*parts)):
            options = [word for words in rest for word in words]
            code, _, err = command.run("estimate", model, "--dtype", dtype, *options)
            self.assertIn(code, (0, 2))
            self.assertNotRegex(err, r"_|query\.|set ", options)
            codes.add(code)
        self.assertEqual(codes, {0, 2})
        self.assertEqual(command.run("estimate", "z" * 9)[2],
                         f"kvcache: no model \"{'z' * 9}\"; list all with `kvcache models`, or give the path of a config.json\n")

    def test_models_lists_every_preset(self):
        code, out, err = command.run("models", "--json")
        self.assertEqual((code, err), (0, ""))
        models = {model["name"]: model for model in json.loads(out)}
        self.assertGreaterEqual(len(models), 40)
        self.assertEqual(models["phi-3-mini-4k"]["num_kv_heads"], 32)
        self.assertEqual(models["mixtral-8x7b"]["window_tokens"], 0)
        self.assertEqual(models["deepseek-v3"]["bytes_per_token"], 61 * 576 * 2)
        code, table, _ = command.run("models")
        self.assertEqual(code, 0)
        for name in models:
            self.assertIn(name, table)
            self.assertEqual(estimate(name)["bytes_per_token"], models[name]["bytes_per_token"])


if __name__ == "__main__":
    command.main()
