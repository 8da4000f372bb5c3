# SPDX-License-Identifier: Apache-2.0
# The functions, structs and constants of kvcache.h under their names in C: internal to the package.
from typing import Any

def __getattr__(name: str) -> Any: ...
