# SPDX-License-Identifier: Apache-2.0
"""kvcache bench events: its figures are there, and each block of it was published."""
import json
import unittest

import command


class BenchEvents(unittest.TestCase):
    def test_publishes_each_block(self):
        code, out, err = command.run("bench", "events", "--json", "--seconds", 1)
        self.assertEqual(code, 0, err)
        found = json.loads(out)
        self.assertEqual((found["bench"], found["transport"], found["right"]), ("events", "none", True))
        for name in ("events_per_s", "stored_events_per_s", "removed_events_per_s", "bytes_per_block", "step_p99_us", "step_p99_us_published"):
            self.assertGreater(found[name], 0, name)

    def test_refuses_what_is_no_transport(self):
        code, _, err = command.run("bench", "events", "nothere:x")
        self.assertNotEqual(code, 0)
        self.assertIn('there is no plug-in "nothere"', err)


if __name__ == "__main__":
    command.main()
