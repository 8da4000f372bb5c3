# SPDX-License-Identifier: Apache-2.0
"""`kvcache bench tier` on small tiers of each kind: what it says of them, that it compares pages, and what it refuses."""
import json
import os
import tempfile

import command

KEYS = ("bench", "hardware", "url", "page_bytes", "pages", "threads", "depth", "rounds", "raw", "put_gb_per_s", "raw_put_gb_per_s",
        "put_ratio", "get_gb_per_s", "raw_get_gb_per_s", "get_ratio", "exists_per_s", "exists_us_beside_loads", "exists_us_beside_loads_p99", "wrong_pages", "not_done", "uses_uring", "fallbacks")


class TierBenchTest(command.CommandTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def measure(self, url, *options):
        code, out, err = command.run("bench", "tier", url, "--json", "--seconds", 1, *options)
        self.assertEqual(code, 0, err + out)
        found = json.loads(out)
        self.assertEqual(tuple(found), KEYS)
        self.assertEqual((found["bench"], found["url"]), ("tier", url))
        self.assertEqual((found["wrong_pages"], found["not_done"]), (0, 0))
        self.assertGreaterEqual(found["rounds"], 3)
        for way in ("put", "get"):
            self.assertGreater(found[f"{way}_gb_per_s"], 0)
            self.assertAlmostEqual(found[f"{way}_ratio"], found[f"{way}_gb_per_s"] / found[f"raw_{way}_gb_per_s"], places=6)
        self.assertGreater(found["exists_per_s"], 0)
        self.assertGreaterEqual(found["exists_us_beside_loads_p99"], found["exists_us_beside_loads"])
        return found

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_memory_is_beside_memcpy(self):
        found = self.measure("memory:?bytes=4MiB", "--page-bytes", "64KiB", "--pages", 40)
        self.assertEqual((found["raw"], found["threads"], found["page_bytes"], found["pages"]), ("memcpy", 2, 65536, 40))
        self.assertIs(found["uses_uring"], False)

    def test_files_are_beside_a_file_that_is_removed(self):
        for kind, parameters in (("slab", ""), ("slab", "&direct=1&io=threads"), ("slab", "&direct=1"), ("dir", "&threads=2")):
            with self.subTest(kind + parameters):
                path = self.path(kind)
                found = self.measure(f"{kind}:{path}?bytes=8MiB{parameters}", "--page-bytes", "16KiB", "--pages", 60)
                self.assertIn("a file a page" if kind == "dir" else "one file", found["raw"])
                self.assertEqual("io_uring" in found["raw"], found["uses_uring"])
                self.assertEqual(found["threads"], 2 if "threads=2" in parameters else 4)
                self.assertFalse(os.path.exists(path + ".raw"))
                self.assertTrue(os.path.exists(path))

    def test_there_are_no_more_pages_than_room(self):
        self.assert_refused(command.run("bench", "tier", "memory:?bytes=1MiB", "--page-bytes", "64KiB", "--pages", 40), "--pages 40", "room for 1")
        for kind in ("memory:", f"slab:{self.path('slab')}"):
            found = self.measure(f"{kind}?bytes=4MiB", "--page-bytes", "64KiB")
            self.assertLess(20, found["pages"])
            self.assertLessEqual(found["pages"], 64)
            self.assertEqual(found["not_done"], 0)

    def test_people_see_a_table(self):
        code, out, err = command.run("bench", "tier", "memory:?bytes=4MiB", "--page-bytes", "64KiB", "--pages", 20, "--seconds", 1)
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"tier memory:\?bytes=4MiB, 20 pages of 65,536 bytes\n  .*\n  no io_uring; raw side: memcpy\n"
                              r"  put [\d.]+ GB/s; the raw side [\d.]+: [\d.]+ of it\n  get .*\n  [\d,]+ keys/s of exists, [\d.]+ us for one beside 64 loads\n"
                              r"  0 wrong pages, 0 items not done\n")

    def test_wrong_options(self):
        for words, text in (("tier", "no URL; give one, such as memory:?bytes=4GiB"),
                            ("tier memory:", "tier memory:: bytes is missing, such as ?bytes=64GiB"),
                            ("tier memory:?bytes=1MiB --page-bytes 2XiB", "2XiB"),
                            ("tier memory:?bytes=1MiB --page-bytes 2MiB", "has no room for a page of 2097152"),
                            ("tier slab:/tmp/x?bytes=1MiB&io=magic --page-bytes 4096", "io is 'magic'; it is auto, uring or threads"),
                            ("store memory:?bytes=1MiB", "PLACE is memory:?bytes=1MiB, which is for checkpoint, tier and events, not for store; leave it out")):
            with self.subTest(words):
                self.assert_refused(command.run("bench", *words.split()), text)


if __name__ == "__main__":
    command.main()
