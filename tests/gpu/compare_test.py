# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-compare on the CPU, with a FlashInfer that only looks like it. Needs a Python with PyTorch; skipped without."""
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-compare"
# The calls that the peer makes, and what they mean: pages [page][head][token][element], found by offsets, pages and tokens in the last page.
FLASHINFER = """
import torch
__version__ = "0.pretended"
class Wrapper:
    def __init__(self, workspace, kv_layout="NHD", **options):
        assert kv_layout == "HND" and workspace.dtype == torch.uint8 and not workspace.any()
    def run(self, q, pages, out):
        keys, values = pages
        for r in range(len(self.last)):
            first, end = int(self.queries[r]), int(self.queries[r + 1])
            mine = self.pages[int(self.offsets[r]):int(self.offsets[r + 1])].long()
            tokens = (len(mine) - 1) * self.page + int(self.last[r])
            k, v = (plane[mine].transpose(1, 2).reshape(-1, self.kv_heads, self.dim)[:tokens].transpose(0, 1).float() for plane in (keys, values))
            k, v = (x.repeat_interleave(self.heads // self.kv_heads, 0) for x in (k, v))
            hidden = torch.ones(end - first, tokens, dtype=torch.bool).triu(tokens - (end - first) + 1)
            logits = (q[first:end].transpose(0, 1).float() @ k.transpose(1, 2) * self.dim**-0.5).masked_fill(hidden, -torch.inf)
            out[first:end] = (torch.softmax(logits, -1) @ v).transpose(0, 1).to(out.dtype)
        return out
class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, q_data_type, kv_data_type):
        self.offsets, self.pages, self.last, self.heads, self.kv_heads, self.dim, self.page = (
            indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size)
        self.queries = range(len(last_page_len) + 1)
class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk, page_size,
             causal=False, q_data_type=None, kv_data_type=None):
        assert causal
        BatchDecodeWithPagedKVCacheWrapper.plan(self, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads,
                                                head_dim_qk, page_size, q_data_type, kv_data_type)
        self.queries = qo_indptr
"""


class GpuCompare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.build, self.output, self.wheels = self.folder / "build", self.folder / "of the caller", self.folder / "wheels"
        self.wheels.mkdir()
        self.build.mkdir()
        (self.build / "lib").mkdir()
        (self.build / "lib" / "libkvcache.so.0").symlink_to(pathlib.Path(os.environ["KVC_LIBRARY"]).resolve())

    def wheel(self, text):
        with zipfile.ZipFile(self.wheels / "flashinfer_python-0-py3-none-any.whl", "w") as archive:
            archive.writestr("flashinfer/__init__.py", text)

    def start(self, *options):
        return subprocess.Popen([sys.executable, SCRIPT, "--device", "cpu", "--build", self.build, "--output", self.output, "--wheels", self.wheels, *options],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def call(self, *options):
        with self.start(*options) as process:
            text, _ = process.communicate(timeout=300)
        return process.returncode, text, json.loads((self.output / "gpu-compare.json").read_text())

    def test_the_library_and_peers_that_read_its_pages(self):
        self.wheel(FLASHINFER)
        code, text, report = self.call("--peers", "flash$|FlashInfer")
        self.assertEqual(code, 0, text)
        self.assertEqual(report["flashinfer"], "0.pretended")
        for row in report["rows"]:
            self.assertEqual(set(row["us"]), {"libkvcache", "SDPA, flash", "FlashInfer"}, row["skipped"])
            self.assertEqual(row["skipped"], {})
            self.assertLess(row["distance"]["FlashInfer"], 4e-3)
        self.assertIn((self.output / "gpu-compare.txt").read_text(), text)

    def test_why_a_peer_is_left_out(self):
        for package, reason in (("raise OSError('libcudart.so.99: not found')", "cannot be imported: libcudart.so.99: not found"),
                                (FLASHINFER.replace("assert causal", "raise FileNotFoundError('nvcc')"), "nvcc"),
                                (FLASHINFER.replace("out[first:end] =", "out[first:end] = 1 +"), "wrong: differs by")):
            self.wheel(package)
            code, text, report = self.call("--peers", "FlashInfer")
            self.assertEqual(code, 0, text)
            self.assertIn(reason, report["rows"][1]["skipped"]["FlashInfer"])
            self.assertIn("left out: FlashInfer", text)
        (self.wheels / "flashinfer_python-0-py3-none-any.whl").unlink()
        _, text, report = self.call("--peers", "FlashInfer")
        self.assertIn("No module named 'flashinfer'", report["rows"][0]["skipped"]["FlashInfer"])

    def test_what_the_time_does_not_suffice_for_is_not_run(self):
        self.wheel(FLASHINFER.replace("keys, values = pages", "import time; time.sleep(600)"))
        code, text, report = self.call("--peers", "FlashInfer|flash$", "--seconds", "40")
        self.assertEqual(code, 0, text)
        self.assertIn("not run: its kernels were still being compiled after", report["rows"][0]["skipped"]["FlashInfer"])
        self.assertTrue(all("libkvcache" in row["us"] and "SDPA, flash" in row["us"] for row in report["rows"]), "all shapes go through these first")
        code, text, report = self.call("--peers", "^$", "--seconds", "1")
        self.assertEqual(code, 1, text)
        self.assertIn("the time is over", text)
        self.assertIn("the library has no result for decode, 2 x 200", text)

    def test_who_is_terminated_says_what_there_is(self):
        self.wheel(FLASHINFER.replace("keys, values = pages", "import time; time.sleep(600)"))
        with self.start("--peers", "FlashInfer") as process:
            deadline = time.monotonic() + 120
            path = self.output / "gpu-compare.json"
            while not (path.exists() and all(row["us"] for row in json.loads(path.read_text())["rows"])) and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            text, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("it was terminated", text)
        self.assertIn("libkvcache", text)


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: this Python has no PyTorch")
        sys.exit(77)
    unittest.main()
