#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree must pass check_opening.py, and check_opening.py must name each way of breaking its rules, in a made-up tree of its own."""
import contextlib
import io
import os
import tempfile
import unittest

import check_opening

LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"
SOUND = {
    "include/kvcache/x.h": "/* SPDX-License-Identifier: Apache-2.0 */\n#ifndef KVCACHE_X_H\n#define KVCACHE_X_H\n\n/** @file kvcache/x.h\n *  @brief A\n"
                           " *  header.\n *  - A point\n *    of a list. */\n#endif\n",
    "include/kvcache/x.hpp": LICENSE + "#ifndef KVCACHE_X_HPP\n#define KVCACHE_X_HPP\n\n/// @file kvcache/x.hpp\n#endif\n",
    "src/base/x.h": LICENSE + "// What it is.\n#pragma once\n",
    "src/base/x.cc": LICENSE + '#include "base/x.h"\n',
    "src/base/y.cc": LICENSE + "// What it is.\n",
    "tests/c_api/y.c": "/* SPDX-License-Identifier: Apache-2.0\n   What it is. */\n",
}


class CheckOpening(unittest.TestCase):
    def check(self, changes=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**SOUND, **(changes or {})}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = check_opening.main([root])
            return code, output.getvalue()

    def expect(self, path, text, what):
        code, output = self.check({path: text})
        self.assertEqual(code, 1, output)
        self.assertIn(f"{path}:{what}", output)
        self.assertIn("1 violations", output)

    def test_this_tree_passes(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(check_opening.main([]), 0, output.getvalue())

    def test_sound_tree_passes(self):
        self.assertEqual(self.check(), (0, "6 files read, 0 violations\n"))

    def test_a_file_without_license_is_named(self):
        self.expect("src/base/z.cc", "// What it is.\n", "1: begins without its license line")

    def test_a_header_says_what_it_is(self):
        self.expect("src/base/x.h", LICENSE + "#pragma once\nint x();\n", "1: does not say what it is")
        self.expect("include/kvcache/x.h", SOUND["include/kvcache/x.h"].replace("/** @file", "int x;\n/** @file"), "1: does not say what it is")

    def test_a_source_without_a_header_says_what_it_is(self):
        self.expect("src/base/z.cc", LICENSE + '#include "base/x.h"\n', "1: does not say what it is")
        self.expect("tests/base/x.cc", LICENSE + '#include "base/x.h"\n', "1: does not say what it is")

    def test_a_line_of_a_public_comment_is_indented(self):
        self.expect("include/kvcache/x.h", SOUND["include/kvcache/x.h"].replace(" *  header.", " * header."), "7: a line of a comment")


if __name__ == "__main__":
    unittest.main()
