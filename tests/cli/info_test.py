#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `kvcache info` says of the library, and of devices: the CPU and emulated ones."""
import json
import os
import pathlib
import unittest

import command

BACKENDS = pathlib.Path(command.BINARY or "").resolve().parent.parent / "backends"
NEVER = 2**64 - 1


def info(*options):
    code, out, err = command.run("info", "--json", *options)
    if (code, err) != (0, ""):
        raise AssertionError(f"info ended with {code}: {err}")
    return json.loads(out)


def text(*options):
    code, out, err = command.run("info", *options)
    if (code, err) != (0, ""):
        raise AssertionError(f"info ended with {code}: {err}")
    return out


class Info(unittest.TestCase):
    def test_has_version_build_features_and_defaults(self):
        found = info()
        self.assertRegex(found["version"], r"^\d+\.\d+\.\d+$")
        self.assertTrue(found["build"])
        self.assertEqual(set(found["features"].values()), {True})
        self.assertGreaterEqual(set(found["features"]), {"lru", "sliding_window", "state_groups", "cross_groups", "hints", "headroom"})
        self.assertEqual(found["defaults"]["block_size"], 16)
        self.assertIn(found["version"], text())

    def test_the_cpu_is_a_device(self):
        names = [backend["name"] for backend in info()["backends"]]
        self.assertEqual(names, ["cpu", "cuda", "hip"])
        cpu, = info()["backends"][0]["devices"]
        self.assertGreater(cpu["memory_bytes"], cpu["free_bytes"])
        self.assertEqual(cpu["memory_kinds"], ["host", "host_huge", "external"])
        self.assertEqual((cpu["dlpack_device"], cpu["reads_host_memory"], cpu["managed_memory"]), (1, True, False))
        self.assertEqual((cpu["swap_out_kernel_bytes"], cpu["swap_in_kernel_bytes"], cpu["swap_measured"]), (0, 0, False))
        self.assertIn("storages in host, host_huge, external memory", text())
        self.assertNotIn("swaps", text().split("  cuda ")[0])

    def test_a_backend_that_is_not_there_is_named_as_such(self):
        backend = info("--backend", "nowhere")["backends"][-1]
        self.assertEqual((backend["name"], backend["installed"]), ("nowhere", False))
        self.assertIn("libkvcache_nowhere.so", backend["remark"])
        self.assertRegex(text("--backend", "nowhere"), "(?m)^  nowhere +not installed; ")


@unittest.skipUnless((BACKENDS / "libkvcache_emulated.so").exists(), "the emulated backend is not built")
class Emulated(unittest.TestCase):
    def setUp(self):
        os.environ["KVC_BACKEND_PATH"] = str(BACKENDS)
        self.addCleanup(os.environ.pop, "KVC_BACKEND_PATH")

    def test_says_what_each_device_can(self):
        backend = info("--backend", "emulated")["backends"][-1]
        self.assertEqual((backend["name"], backend["installed"], backend["remark"]), ("emulated", True, ""))
        first, second = backend["devices"]
        self.assertEqual((first["device"], second["device"]), ("emulated:0", "emulated:1"))
        for device in (first, second):
            self.assertEqual(device["memory_kinds"], ["pinned", "device", "external"])
            self.assertIs(device["swap_measured"], False, "nothing was swapped yet")
            for way in ("swap_out_kernel_bytes", "swap_in_kernel_bytes"):
                self.assertIn(device[way], range(1, NEVER), "a guess between the two")
        self.assertEqual((first["reads_host_memory"], first["managed_memory"]), (True, True))
        self.assertEqual((second["reads_host_memory"], second["managed_memory"]), (False, False))

    def test_says_it_in_words(self):
        devices = {device["device"]: device for device in info("--backend", "emulated")["backends"][-1]["devices"]}
        told = text("--backend", "emulated").split("    emulated:")
        for name, part in zip(devices, told[1:]):
            out, back = devices[name]["swap_out_kernel_bytes"], devices[name]["swap_in_kernel_bytes"]
            self.assertIn(devices[name]["name"], part)
            self.assertIn("storages in pinned, device, external memory", part)
            self.assertEqual("reads any host memory; has managed memory" in part, name == "emulated:0")
            self.assertIn(f"swaps out by a kernel for runs below {out} bytes, in by a kernel for runs below {back} bytes (estimated", part)


if __name__ == "__main__":
    command.main()
