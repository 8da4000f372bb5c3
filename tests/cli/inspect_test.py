#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `kvcache inspect` shows of checkpoints and files, and how it tells that they are damaged."""
import json
import pathlib
import shutil
import tempfile
import unittest

import command

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "checkpoint" / "golden_v1"
MANIFEST, DATA = "00000000000000000001.kvcm", "00000000000000000001.kvcd"


class Inspect(command.CommandTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvc-inspect-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in (MANIFEST, DATA):
            shutil.copy(GOLDEN / name, self.folder)

    def test_a_folder_lists_its_checkpoints(self):
        code, out, err = command.run("inspect", self.folder, "--validate", "--json")
        self.assertEqual((code, err), (0, ""))
        found = json.loads(out)
        self.assertEqual(found["kind"], "checkpoints")
        one, = found["checkpoints"]
        self.assertEqual((one["id"], one["model"], one["weights"], one["pages"], one["valid"]), (1, "model", "w1", 5, True))
        self.assertEqual((one["namespaces"], one["requests"], one["codec"]), (1, 1, "none"))
        self.assertEqual(one["own_bytes"], sum((self.folder / name).stat().st_size for name in (MANIFEST, DATA)))

    def test_a_manifest_stands_for_its_checkpoint(self):
        code, out, _ = command.run("inspect", self.folder / MANIFEST)
        self.assertEqual(code, 0)
        self.assertIn("Checkpoint 1\n", out)
        self.assertIn("model", out)

    def test_damage_is_told_and_the_exit_code_is_1(self):
        data = bytearray((self.folder / DATA).read_bytes())
        data[5000] ^= 1
        (self.folder / DATA).write_bytes(data)
        self.assertEqual(command.run("inspect", self.folder)[0], 0)  # nobody has looked at the pages
        code, out, _ = command.run("inspect", self.folder, "--validate")
        self.assertEqual(code, 1)
        self.assertIn(DATA, out)
        self.assertIn("does not match", out)
        (self.folder / MANIFEST).write_bytes(b"KVCCKPT\n")
        code, out, _ = command.run("inspect", self.folder, "--json")
        self.assertEqual(code, 1)
        self.assertIn("damaged", json.loads(out)["checkpoints"][0]["error"])

    def test_other_paths_are_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assert_refused(command.run("inspect", empty), "no checkpoints")
        self.assert_refused(command.run("inspect", self.folder / "none"), "none")
        self.assert_refused(command.run("inspect", self.folder / "00000000000000000009.kvcm"), "no checkpoint 9")
        self.assert_refused(command.run("inspect", __file__), "neither a slab nor a page")
        self.assert_refused(command.run("inspect"), "PATH")
        self.assert_refused(command.run("bench", "checkpoint"), "folder")
        self.assert_refused(command.run("bench", "copy", "/tmp"), "PLACE is /tmp, which is for checkpoint, tier and events, not for copy")


if __name__ == "__main__":
    command.main()
