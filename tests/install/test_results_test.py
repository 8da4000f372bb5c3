#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the gate counts: a case that was skipped inside a test that passed is counted as skipped, whether GoogleTest, pytest or unittest ran it."""
import os
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import test_results


def count(status, output):
    case = ElementTree.Element("testcase", status=status)
    ElementTree.SubElement(case, "system-out").text = output
    return test_results.count(case)


class CountTest(unittest.TestCase):
    def test_googletest(self):
        self.assertEqual(count("run", "[==========] 3 tests ran.\n[  PASSED  ] 2 tests.\n[  SKIPPED ] 1 test, listed below:\n"), (2, 0, 1))
        self.assertEqual(count("fail", "[  PASSED  ] 4 tests.\n[  FAILED  ] 2 tests, listed below:\n"), (4, 2, 0))

    def test_pytest(self):
        self.assertEqual(count("run", "....s\n79 passed, 1 skipped in 2.24s\n"), (79, 0, 1))
        self.assertEqual(count("fail", "=== 1 failed, 2 passed, 3 warnings, 1 error in 61.20s (0:01:01) ===\n"), (2, 2, 0))
        self.assertEqual(count("notrun", "1 skipped in 0.02s\n"), (0, 0, 1))

    def test_unittest(self):
        self.assertEqual(count("run", "Ran 14 tests in 0.1s\n\nOK (skipped=8)\n"), (6, 0, 8))
        self.assertEqual(count("run", "Ran 1 test in 0.100s\n\nOK\n"), (1, 0, 0))
        self.assertEqual(count("run", "OK\nRan 2 tests in 0.1s\n\nOK (skipped=1)\n"), (1, 0, 1))
        self.assertEqual(count("fail", "Ran 5 tests in 1.0s\n\nFAILED (failures=1, errors=1, skipped=1)\n"), (2, 2, 1))

    def test_others_count_as_one(self):
        self.assertEqual(count("run", "all is well\n"), (1, 0, 0))
        self.assertEqual(count("fail", "Segmentation fault\n"), (0, 1, 0))
        self.assertEqual(count("fail", "[  PASSED  ] 4 tests.\nLeakSanitizer: detected\n"), (4, 1, 0))
        self.assertEqual(count("disabled", ""), (0, 0, 1))


if __name__ == "__main__":
    unittest.main()
