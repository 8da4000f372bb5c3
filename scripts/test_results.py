# SPDX-License-Identifier: Apache-2.0
"""What JUnit files of ctest say. A program of GoogleTest, unittest or pytest counts by its own cases, any other test as one."""
import re
import xml.etree.ElementTree as ElementTree


def own_cases(output):
    """(passed, failed, skipped) by the last lines of GoogleTest, pytest or unittest; None if there are none."""
    counts = {word: int(number) for word, number in re.findall(r"^\[  (PASSED|SKIPPED|FAILED) ? \] (\d+) test", output, re.M)}
    if counts:
        return tuple(counts.get(word, 0) for word in ("PASSED", "FAILED", "SKIPPED"))
    if lines := re.findall(r"^(?:=+ )?((?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.]+s", output, re.M):
        counts = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", lines[-1])}
        return counts.get("passed", 0), sum(counts.get(word, 0) for word in ("failed", "error", "errors")), counts.get("skipped", 0)
    ran, ends = re.findall(r"^Ran (\d+) tests? in ", output, re.M), re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", output, re.M)
    if ran and ends:
        counts = {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", ends[-1])}
        failed, skipped = counts.get("failures", 0) + counts.get("errors", 0), counts.get("skipped", 0)
        return max(0, int(ran[-1]) - failed - skipped), failed, skipped
    return None


def count(case):
    """(passed, failed, skipped) of one <testcase>."""
    own = own_cases(case.findtext("system-out") or "")
    status = case.get("status")
    if status in ("notrun", "disabled"):
        return 0, 0, 1
    if status == "run":
        return (own[0], own[1], own[2]) if own else (1, 0, 0)
    return (own[0], max(1, own[1]), own[2]) if own else (0, 1, 0)


def testcases(path):
    """All <testcase> of a file."""
    return ElementTree.parse(path).getroot().iter("testcase")
