#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count.py JUNIT.xml...: the sum over several ctest runs in one line, "N passed, N failed, N skipped".

Exit 1 when a test failed, none passed, or a file is missing.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts"))
import test_results


def main(paths):
    there = [path for path in paths if os.path.exists(path)]
    for path in set(paths) - set(there):
        print(f"{path}: no test ran")
    passed, failed, skipped = (sum(counts) for counts in zip((0, 0, 0), *(test_results.count(case) for path in there for case in test_results.testcases(path))))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed or len(there) < len(paths) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
