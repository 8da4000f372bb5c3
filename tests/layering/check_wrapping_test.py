#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_wrapping.py names long lines of prose, and lets those be that cannot be broken."""
import unittest

import check_wrapping


class CheckWrapping(unittest.TestCase):
    def expect(self, text, numbers):
        self.assertEqual(check_wrapping.long_lines(text, 20), numbers)

    def test_this_tree_passes(self):
        self.assertEqual(check_wrapping.main([]), 0)

    def test_long_prose_is_named(self):
        self.expect("short\n\n- a list with a long line\n  and one that is longer\n", [3, 4])
        self.expect("`code of` a long line of prose\n", [1])

    def test_what_cannot_be_broken_may_be_long(self):
        self.expect("- `code that has blanks in it`.\n[a link](https://example.org/)\n", [])

    def test_tables_code_and_headings_may_be_long(self):
        self.expect("| a table | with wide cells |\n# A heading that is long\n```c\nint x; // a long comment\n```\n", [])
        self.expect("Then:\n\n    a command --with long options\n", [])
        self.expect("```c\n```\nprose after a block of code\n", [3])


if __name__ == "__main__":
    unittest.main()
