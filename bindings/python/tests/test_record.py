# SPDX-License-Identifier: Apache-2.0
"""Logs of calls: what Manager.take_log() gives is made again by replay_log()."""

import unittest

import kvcache


class Record(unittest.TestCase):
    def test_the_same_calls_give_the_same_state(self):
        log = b""
        with kvcache.Manager(16, 4, record_bytes=1 << 16) as m:
            requests = []  # a request that is dropped is freed
            for first in range(0, 30, 10):
                requests.append(m.allocate(range(first, first + 9)))
                requests[-1].commit(9)
                log += m.take_log()
            digest = m.digest()
            info = m.log_info()
            self.assertEqual((info.capacity, info.calls, info.lost_calls), (1 << 16, 7, 0))
            self.assertEqual(m.properties.record_bytes, 1 << 16)
        replayed = kvcache.replay_log(log)
        self.assertEqual((replayed.calls, replayed.mismatches, replayed.digest, replayed.text), (6, 0, digest, ""))
        self.assertEqual(replayed.library_version, 300)

    def test_a_log_that_was_changed_is_refused(self):
        with kvcache.Manager(16, 4, record_bytes=1 << 16) as m:
            log = bytearray(m.take_log())
            self.assertEqual(m.take_log(), b"")
        for at in range(len(log)):
            changed = bytearray(log)
            changed[at] ^= 1
            with self.assertRaisesRegex(kvcache.KvCacheError, "byte "):
                kvcache.replay_log(bytes(changed))
        with self.assertRaisesRegex(kvcache.InvalidArgumentError, "the log is empty"):
            kvcache.replay_log(b"")

    def test_without_a_log(self):
        with kvcache.Manager(16, 4) as m:
            with self.assertRaisesRegex(kvcache.UnsupportedError, "record_bytes"):
                m.take_log()
        with self.assertRaisesRegex(kvcache.InvalidArgumentError, "record_bytes is 5; give at least 4096"):
            kvcache.Manager(16, 4, record_bytes=5)


if __name__ == "__main__":
    unittest.main()
