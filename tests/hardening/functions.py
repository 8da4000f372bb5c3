#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""functions.py FOLDER OUTPUT: the names of the functions marked KVC_API in the headers of a folder, as C++ string literals."""
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abi"))
from check_library import header_functions  # noqa: E402

headers = sorted(pathlib.Path(sys.argv[1]).rglob("*.h"))
marked, _ = header_functions("\n".join(header.read_text(encoding="utf-8") for header in headers))
with open(sys.argv[2], "w", encoding="utf-8") as output:
    output.writelines(f'"{name}",\n' for name in sorted(marked))
