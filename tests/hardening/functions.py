#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""functions.py FOLDER OUTPUT: the names of the functions marked KVC_API in the headers of a folder, as C++ string literals."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import kvcache_headers  # noqa: E402

with open(sys.argv[2], "w", encoding="utf-8") as output:
    output.writelines(f'"{name}",\n' for name in sorted(kvcache_headers.read(sys.argv[1]).functions))
