#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi_diff.py must accept the public header as it is, and name each change of it that would break a program.

Libraries of empty functions are built from the header, as it is and patched.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import abi_diff

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import kvcache_headers  # noqa: E402

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
HEADERS = ["types", "device", "storage", "attention", "manager", "model", "request", "step"]  # in the order of their includes


class AbiDiff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        texts = [(INCLUDE / "kvcache" / f"{name}.h").read_text(encoding="utf-8") for name in HEADERS]
        header = "\n".join([*texts, (INCLUDE / "kvcache.h").read_text(encoding="utf-8")])
        cls.header = re.sub(r"/\*.*?\*/|#include <kvcache/\w+\.h>", "", header, flags=re.S)
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.baseline = cls.build("baseline", cls.header)

    @classmethod
    def build(cls, name, header):
        """A library that has all functions of a header, with debug information."""
        folder = os.path.join(cls.folder.name, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "kvcache.h"), "w", encoding="utf-8") as file:
            file.write(header)
        functions = [function.text for function in kvcache_headers.parse(header).functions.values()]
        source = os.path.join(folder, "library.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include \"kvcache.h\"\n")
            file.writelines(f"KVC_API {function} {{ __builtin_trap(); }}\n" for function in functions)
        library = os.path.join(folder, "libkvcache.so.0")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-g", "-shared", "-fPIC", "-fvisibility=hidden", source, "-o", library],
                       check=True)
        return library

    def check(self, name, old, new):
        """The verdict on a library whose header has `new` in place of `old`."""
        self.assertEqual(self.header.count(old), 1, f"the header no longer has: {old}")
        library = self.build(name, self.header.replace(old, new))
        return abi_diff.check(library, os.path.join(os.path.dirname(library), "kvcache.h"), self.baseline)

    def first_prototype(self):
        return f"KVC_API {kvcache_headers.parse(self.header).functions['kvc_manager_create'].text};"

    def test_same_header_passes(self):
        library = self.build("same", self.header)
        self.assertEqual(abi_diff.check(library, os.path.join(os.path.dirname(library), "kvcache.h"), self.baseline), 0)

    def test_new_function_passes(self):
        prototype = self.first_prototype()
        self.assertEqual(self.check("added", prototype, prototype + "\nKVC_API kvc_status kvc_new_function(int32_t x);"), 0)

    def test_removed_function_is_noticed(self):
        self.assertEqual(self.check("removed", self.first_prototype(), ""), 1)

    def test_changed_parameter_is_noticed(self):
        prototype = self.first_prototype()
        self.assertEqual(self.check("parameter", prototype, prototype.replace("(", "(uint64_t more, ")), 1)

    def test_reordered_struct_is_noticed(self):
        self.assertEqual(self.check("reordered", *self.swapped("kvc_manager_config", 1, 2)), 1)

    def test_grown_struct_is_noticed(self):
        old = self.struct("kvc_manager_config")
        self.assertEqual(self.check("grown", old, old.replace("} kvc_", "  uint64_t one_more;\n} kvc_")), 1)

    def struct(self, name):
        return kvcache_headers.parse(self.header).structs[name].text

    def swapped(self, name, first, second):
        """(text of a struct, the same with two of its lines of fields exchanged)."""
        old = self.struct(name)
        lines = old.split("\n")
        fields = [i for i, line in enumerate(lines) if re.match(r"\s+[\w\s*]+;", line)]
        a, b = fields[first], fields[second]
        lines[a], lines[b] = lines[b], lines[a]
        return old, "\n".join(lines)


if __name__ == "__main__":
    if not shutil.which("abidiff"):
        print("skipped: there is no abidiff (package abigail-tools)")
        sys.exit(abi_diff.SKIPPED)
    unittest.main()
