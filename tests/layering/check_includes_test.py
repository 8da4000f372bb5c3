#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py must accept a sound tree and name each way of breaking the rule, in a made-up tree of its own."""
import contextlib
import io
import os
import tempfile
import unittest

import check_includes

TABLES = """
| folder | level | may include | what |
|---|---|---|---|
| `include/kvcache.h` | - | `<stddef.h>`, `<stdint.h>` | x |
| `include/kvcache.hpp` | - | `include/kvcache.h`, c++ library | x |
| `src/base` | 0 | lower, `include/kvcache.h`, system | x |
| `src/left` | 1 | lower, `include/kvcache.h`, system | x |
| `src/right` | 1 | lower, `include/kvcache.h`, system | x |
| `src/top` | 2 | lower, `include/kvcache.h`, system | x |
| `src/cli` | - | `include`, system | x |

| header | only in | why |
|---|---|---|
| `xxhash.h` | `src/base/hash*` | x |
"""
SOUND = {
    "docs/ARCHITECTURE.md": TABLES,
    "include/kvcache.h": "#include <stddef.h>\n#include <stdint.h>\n",
    "include/kvcache.hpp": "#include <kvcache.h>\n#include <vector>\n",
    "src/base/hash.cc": "#include <xxhash.h>\n#include <kvcache.h>\n",
    "src/base/status.h": "#include <string>\n",
    "src/left/left.h": '#include "base/status.h"\n',
    "src/right/right.cc": '/* #include "left/left.h"\n*/\n// #include "left/left.h"\n#include "base/status.h"\n',
    "src/top/top.cc": '#include "base/status.h"\n#include "left/left.h"\n#  include <unistd.h>\n',
    "src/cli/main.cc": "#include <kvcache.hpp>\n#include <CLI/CLI.hpp>\n",
}


class CheckIncludes(unittest.TestCase):
    def check(self, changes=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**SOUND, **(changes or {})}.items():
                if text is None:
                    continue
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = check_includes.main([root])
            return code, output.getvalue()

    def expect(self, path, text, where, what):
        code, output = self.check({path: text})
        self.assertEqual(code, 1, output)
        self.assertIn("1 violations", output)
        self.assertIn(where, output)
        self.assertIn(what, output)

    def test_sound_tree_passes(self):
        self.assertEqual(self.check(), (0, "8 files read, 0 violations\n"))

    def test_upward_include_is_named_with_its_line(self):
        self.expect("src/base/up.h", '\n#include "left/left.h"\n', "src/base/up.h:2:", "leads from src/base to src/left")

    def test_folders_of_one_level_do_not_see_each_other(self):
        self.expect("src/right/side.cc", '#include "left/left.h"\n', "src/right/side.cc:1:", "to src/left")

    def test_angle_brackets_do_not_hide_an_include(self):
        self.expect("src/right/side.cc", "#include <left/left.h>\n", "src/right/side.cc:1:", "to src/left")

    def test_relative_path_does_not_hide_an_include(self):
        self.expect("src/right/side.cc", '#include "../left/left.h"\n', "src/right/side.cc:1:", "from the root of src/")

    def test_own_header_is_written_with_its_folder(self):
        self.expect("src/left/left.cc", '#include "left.h"\n', "src/left/left.cc:1:", "with its folder")

    def test_quoted_system_header_is_named(self):
        self.expect("src/left/left.cc", '#include "unistd.h"\n', "src/left/left.cc:1:", "no file of the project")

    def test_macro_include_is_named(self):
        self.expect("src/left/left.cc", "#include OTHER\n", "src/left/left.cc:1:", "not a plain file name")

    def test_cli_may_name_its_own_files_plainly(self):
        code, output = self.check({"src/cli/args.h": "", "src/cli/args.cc": '#include "args.h"\n#include "kvcache.h"\n'})
        self.assertEqual(code, 0, output)

    def test_cli_does_not_reach_out_by_a_relative_path(self):
        self.expect("src/cli/run.cc", '#include "../base/status.h"\n', "src/cli/run.cc:1:", "from the root of src/")

    def test_cli_sees_only_public_headers(self):
        self.expect("src/cli/run.cc", '#include "base/status.h"\n', "src/cli/run.cc:1:", "to src/base")

    def test_nobody_sees_the_cli(self):
        self.expect("src/top/x.cc", '#include "cli/main.cc"\n', "src/top/x.cc:1:", "to src/cli")

    def test_public_header_stays_with_two_headers(self):
        self.expect("include/kvcache.h", "#include <stddef.h>\n#include <stdio.h>\n", "include/kvcache.h:2:",
                    "not among the headers")

    def test_public_header_does_not_see_the_sources(self):
        self.expect("include/kvcache.hpp", '#include "base/status.h"\n', "include/kvcache.hpp:1:", "to src/base")

    def test_cxx_layer_takes_no_system_header(self):
        self.expect("include/kvcache.hpp", "#include <unistd.h>\n", "include/kvcache.hpp:1:", "not among the headers")

    def test_xxhash_has_one_place(self):
        self.expect("src/base/other.cc", "#include <xxhash.h>\n", "src/base/other.cc:1:", "belongs in src/base/hash*")

    def test_unlisted_folder_is_named(self):
        self.expect("src/rogue/x.cc", "", "src/rogue/x.cc", "has no row")

    def test_row_without_files_is_named(self):
        self.expect("src/right/right.cc", None, "src/right", "names nothing that exists")

    def test_missing_tables_are_an_error(self):
        code, output = self.check({"docs/ARCHITECTURE.md": "no table\n"})
        self.assertEqual(code, 1)
        self.assertIn("lacks the layer table", output)

    def test_unknown_word_in_a_row_is_an_error(self):
        code, output = self.check({"docs/ARCHITECTURE.md": TABLES.replace("lower, `include/kvcache.h`, system",
                                                                         "anything")})
        self.assertEqual(code, 1)
        self.assertIn("has no meaning", output)


if __name__ == "__main__":
    unittest.main()
