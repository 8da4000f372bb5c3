# SPDX-License-Identifier: Apache-2.0
"""The library behind interfaces that engines already speak: vllm (block managers), shortfin (pages), transformers (a Cache).
Only transformers needs its framework to be imported."""
