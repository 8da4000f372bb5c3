#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count.py JUNIT.xml...: the sum over several ctest runs in one line, "N passed, N failed, N skipped".

A GoogleTest program counts by its own cases, any other test as one. Exit 1 when a test failed or none passed.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        status = case.get("status")
        own = {word: re.search(r"^\[  %s \] (\d+) test" % word, output, re.M) for word in ("PASSED ", "SKIPPED", "FAILED ")}
        cases = {word.strip(): int(match.group(1)) for word, match in own.items() if match}
        if status == "run" and cases:
            passed += cases.get("PASSED", 0)
            skipped += cases.get("SKIPPED", 0)
            failed += cases.get("FAILED", 0)
        elif status == "run":
            passed += 1
        elif status in ("notrun", "disabled"):
            skipped += 1
        else:
            failed += max(1, cases.get("FAILED", 0))
            passed += cases.get("PASSED", 0)
            skipped += cases.get("SKIPPED", 0)
    return passed, failed, skipped


def main(paths):
    passed, failed, skipped = map(sum, zip(*map(count, paths)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
