#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of README.md compile without a warning and print what their comments say."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LIBRARY = pathlib.Path(os.environ["KVC_LIBRARY"])
PYTHON = LIBRARY.parents[1] / "python"  # where the build puts the package, if it builds it
SANITIZED = bool(os.environ.get("KVC_SANITIZE"))


def block(language):
    """The only code block of a language."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    return text


class Readme(unittest.TestCase):
    def expect(self, *command, **environment):
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "0 tokens were cached\n96 tokens were cached\n")

    def test_c(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "readme.c"), pathlib.Path(folder, "readme")
            source.write_text(block("c"), encoding="utf-8")
            compiler = [os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", source]
            if SANITIZED:  # then the library wants its runtime
                subprocess.run([*compiler, "-fsyntax-only"], check=True)
                return
            subprocess.run([*compiler, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-o", program], check=True)
            self.expect(program)

    @unittest.skipIf(SANITIZED or not list(PYTHON.glob("kvcache/_native*.so")), "the Python package is not built")
    def test_python(self):
        self.expect(sys.executable, "-c", block("python"), PYTHONPATH=str(PYTHON))

    def test_a_prefix_is_named_to_builds_and_to_programs(self):
        text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
        for word in ("--prefix DIR", "PKG_CONFIG_PATH=DIR/lib/pkgconfig", "-DCMAKE_PREFIX_PATH=DIR", "LD_LIBRARY_PATH=DIR/lib", "ldconfig"):
            self.assertIn(word, text)

    def test_links_lead_somewhere(self):
        for link in re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
            self.assertTrue((ROOT / link).exists(), link)


if __name__ == "__main__":
    unittest.main()
