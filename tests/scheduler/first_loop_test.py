#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/SCHEDULER.md shows examples/10_first_loop.c as it is, in at most 40 lines of code."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
program = (ROOT / "examples" / "10_first_loop.c").read_text().split("\n", 2)[2]
lines = [line for line in program.splitlines() if line.strip() and not line.strip().startswith("//")]
if f"```c\n{program}```\n" not in (ROOT / "docs" / "SCHEDULER.md").read_text():
    sys.exit("docs/SCHEDULER.md has not the code of examples/10_first_loop.c")
if len(lines) > 40:
    sys.exit(f"the first loop has {len(lines)} lines of code, at most 40")
