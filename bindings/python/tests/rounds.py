# SPDX-License-Identifier: Apache-2.0
"""How often tests repeat: KVC_TEST_ROUNDS times as often as in the gate. scripts/deep sets it to 5."""

import os


def rounds(in_the_gate):
    return in_the_gate * max(int(os.environ.get("KVC_TEST_ROUNDS", "1")), 1)
