#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What passes for nvcc on PATH, but does not work, is named and left out: the build goes on without that backend."""
import os
import subprocess
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class BrokenNvcc(unittest.TestCase):
    def configure(self, body):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = os.path.join(folder, "nvcc")
            with open(nvcc, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{body}\n")
            os.chmod(nvcc, 0o755)
            environment = dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"])
            done = subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", os.path.join(folder, "build"), f"-DKVC_NVCC={nvcc}", "-DKVC_HIPCC=", "-DKVC_GPU=auto",
                                   "-DKVC_TESTS=OFF", "-DKVC_BENCH=OFF", "-DKVC_CLI=OFF", "-DKVC_EXAMPLES=OFF"],
                                  env=environment, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

    def test_one_that_fails_is_named(self):
        self.assertRegex(self.configure('echo "not today" >&2; exit 1'), r"The cuda backend is not built: .*not today")

    def test_one_that_does_nothing_is_noticed(self):
        self.assertRegex(self.configure('echo "Cuda compilation tools, release ninety-nine"'), "The cuda backend is not built")


if __name__ == "__main__":
    unittest.main()
