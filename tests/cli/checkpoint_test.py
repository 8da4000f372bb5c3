#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kvcache checkpoint`: what a replayed trace has cached comes back in another process, byte by byte and hit by hit."""
import json
import pathlib
import shutil
import tempfile
import unittest

import command

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "checkpoint" / "golden_v1"
TRACE = ("--generate", "--num-blocks", 3000, "--requests")


class CheckpointTest(command.CommandTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvc-checkpoint-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def call(self, what, *options):
        code, out, err = command.run("checkpoint", what, self.folder, "--json", *options)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def assert_right(self, restored):
        self.assertEqual((restored["wrong_pages"], restored["hits"]), (0, restored["prefixes"]))
        self.assertGreater(restored["pages"], 0)
        self.assertGreater(restored["hits"], 0)

    def test_a_restored_trace_has_its_hits_and_its_bytes(self):
        saved, restored = self.call("save", *TRACE, 100), self.call("restore")
        self.assert_right(restored)
        self.assertEqual(restored["digest"], saved["digest"])
        self.assertEqual((restored["id"], restored["pages"], restored["left_out"]), (saved["id"], saved["pages"], 0))

    def test_a_later_save_writes_what_is_new(self):
        first, second = self.call("save", *TRACE, 100), self.call("save", *TRACE, 110)
        self.assertEqual(first["new_pages"], first["pages"])
        self.assertLess(0, second["new_pages"])
        self.assertLess(second["new_pages"], second["pages"])
        self.assertEqual(self.call("restore", "--id", first["id"])["digest"], first["digest"])
        self.assertEqual(self.call("restore")["digest"], second["digest"])
        self.assertEqual(self.call("save", *TRACE, 110)["new_pages"], 0)
        whole = self.call("save", *TRACE, 110, "--full", "--keep-last", 1)
        self.assertEqual(whole["new_pages"], whole["pages"])
        self.assertEqual(len(list(self.folder.glob("*.kvcm"))), 1)

    def test_another_size_of_the_pool(self):
        saved = self.call("save", *TRACE, 100)
        smaller = self.call("restore", "--num-blocks", 500)
        self.assert_right(smaller)
        self.assertEqual(smaller["left_out"], saved["pages"] - smaller["pages"])
        self.assertLessEqual(smaller["pages"], 500)
        larger = self.call("restore", "--num-blocks", 5000)
        self.assert_right(larger)
        self.assertEqual((larger["pages"], larger["digest"]), (saved["pages"], saved["digest"]))

    def test_listing_inspecting_validating_collecting(self):
        first, second = self.call("save", *TRACE, 100), self.call("save", *TRACE, 110)
        self.assertEqual(self.call("list")["ids"], [first["id"], second["id"]])
        self.assertEqual(command.run("checkpoint", "list", self.folder)[1].split(), [str(first["id"]), str(second["id"])])
        both = self.call("inspect")["checkpoints"]
        self.assertEqual([one["pages"] for one in both], [first["pages"], second["pages"]])
        (one,) = self.call("validate", "--id", first["id"])["checkpoints"]
        self.assertEqual((one["valid"], one["pages"]), (True, first["pages"]))
        (self.folder / "00000000000000000003.kvcd.part").write_bytes(bytes(5000))
        self.assertEqual(self.call("collect")["removed_bytes"], 5000)
        self.assertGreater(self.call("collect", "--keep-last", 1)["removed_bytes"], -1)
        self.assertEqual(self.call("list")["ids"], [second["id"]])
        self.assert_right(self.call("restore"))
        data = self.folder / f"{first['id']:020}.kvcd"
        data.write_bytes(data.read_bytes()[:-1])
        code, out, _ = command.run("checkpoint", "validate", self.folder, "--json")
        self.assertEqual(code, 1)
        self.assertIn(data.name, json.loads(out)["checkpoints"][0]["error"])

    def test_compacting_and_removing(self):
        first, second = self.call("save", *TRACE, 100), self.call("save", *TRACE, 110)
        one = self.call("compact", "--keep-last", 1)
        self.assertEqual(one["new_pages"], one["pages"])
        self.assertEqual(self.call("restore")["digest"], second["digest"])
        code, _, err = command.run("checkpoint", "restore", self.folder, "--id", first["id"])
        self.assertEqual(code, 1)
        self.assertIn(f"checkpoint {first['id']}", err)
        self.call("remove", "--id", one["id"])
        self.assertEqual(list(self.folder.glob("*.kvc?")), [])

    def test_damage_is_named_and_nothing_is_restored(self):
        self.call("save", *TRACE, 100)
        file, = self.folder.glob("*.kvcd")
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        code, out, err = command.run("checkpoint", "restore", self.folder)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(file.name, err)

    def test_what_cannot_be_done_is_refused(self):
        self.assert_refused(command.run("checkpoint", "save", self.folder), "no trace; give --replay TRACE or --generate")
        self.assert_refused(command.run("checkpoint", "save", self.folder, *TRACE, 10, "--id", 1), "a save chooses its id; leave --id out")
        self.assert_refused(command.run("checkpoint", "restore", self.folder, *TRACE, 10), "--replay and --generate are of save")
        self.assert_refused(command.run("checkpoint", "compact", self.folder, "--full"), "--full is for save")
        self.assert_refused(command.run("checkpoint", "remove", self.folder), "no --id")
        self.assert_refused(command.run("checkpoint", "sav", self.folder), "did you mean save?")
        self.assert_refused(command.run("checkpoint", "restore", GOLDEN), "is of an engine")
        self.assertEqual(command.run("checkpoint", "restore", self.folder)[0], 1)  # there is none
        self.assertEqual(command.run("checkpoint", "save", self.folder, *TRACE, 10, "--codec", "rot13")[0], 1)


if __name__ == "__main__":
    command.main()
