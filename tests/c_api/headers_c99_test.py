#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public C header compiles alone as strict C99 (a name is typedef'd once), and the check finds what it is for."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"]
COMPILER = shutil.which(os.environ.get("CC") or "cc")


def errors(text):
    """What the compiler says of a C file with this text; "" = nothing."""
    return subprocess.run([COMPILER, *FLAGS, "-I", str(INCLUDE), "-"], input=text, capture_output=True, text=True, check=False).stderr


class HeadersAreC99(unittest.TestCase):
    def test_each_header_alone(self):
        headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h"))
        self.assertGreater(len(headers), 20)
        for header in headers:
            with self.subTest(header):
                self.assertEqual(errors(f"#include <{header}>\nint main(void) {{ return 0; }}\n"), "")

    def test_all_headers_in_any_order(self):
        headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h"))
        for order in headers, headers[::-1]:
            self.assertEqual(errors("".join(f"#include <{header}>\n" for header in order) + "int main(void) { return 0; }\n"), "")

    def test_a_second_typedef_of_a_handle_is_found(self):
        self.assertIn("kvc_manager", errors("#include <kvcache/types.h>\ntypedef struct kvc_manager kvc_manager;\n"))

    def test_a_declaration_of_a_later_standard_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "anonymous.h")
            path.write_text("struct outer { struct { int inner; }; };\n", encoding="utf-8")
            self.assertRegex(errors(f'#include "{path}"\n'), "C99|C11 extension")  # GCC, Clang


if __name__ == "__main__":
    if COMPILER is None:
        print("skipped: no C compiler")
        sys.exit(77)
    unittest.main()
