#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree must pass check_hooks.py, and check_hooks.py must name a misspelled hook and one that nobody calls, in a made-up tree of its own."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import check_hooks

SOUND = {
    "feature.h": "class Feature : public RequestPart {\n public:\n  explicit Feature(int part) {}\n  void begin(int) {}\n  bool is_on(int) const { return true; }\n};\n",
    "hints.h": "class Hints : public Feature {\n public:\n  void begin(int request) { apply(request); }\n  const int* range() const;\n\n private:\n"
               "  void apply(int request);\n};\n",
    "requests.cc": "features.each([&](auto& feature) { feature.begin(1); });\nif (feature.is_on(1)) return hints->range();\n",
}


class CheckHooks(unittest.TestCase):
    def check(self, changes):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root) / "src" / "manager"
            folder.mkdir(parents=True)
            for name, text in {**SOUND, **changes}.items():
                (folder / name).write_text(text, encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = check_hooks.main([root])
            return code, output.getvalue()

    def test_the_tree_passes(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.assertEqual(check_hooks.main([]), 0, output.getvalue())

    def test_what_is_sound_passes(self):
        self.assertEqual(self.check({}), (0, "1 features read, 0 violations\n"))

    def test_a_misspelled_hook_is_named(self):
        code, output = self.check({"hints.h": SOUND["hints.h"].replace("void begin", "void begins")})
        self.assertEqual(code, 1)
        self.assertIn("src/manager/hints.h: Hints::begins is no hook of feature.h, and no other file calls it", output)

    def test_a_method_that_nobody_calls_is_named(self):
        code, output = self.check({"requests.cc": SOUND["requests.cc"].replace("hints->range()", "0")})
        self.assertEqual(code, 1)
        self.assertIn("Hints::range is no hook", output)

    def test_a_hook_that_nobody_calls_is_named(self):
        code, output = self.check({"requests.cc": SOUND["requests.cc"].replace("feature.is_on(1)", "true")})
        self.assertEqual(code, 1)
        self.assertIn("src/manager/feature.h: nobody calls the hook is_on", output)

    def test_no_feature_is_a_violation(self):
        code, output = self.check({"hints.h": ""})
        self.assertEqual((code, output), (1, "0 features read, 0 violations\n"))


if __name__ == "__main__":
    unittest.main()
