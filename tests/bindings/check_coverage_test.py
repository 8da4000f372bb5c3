#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_coverage.py asks for a core function in every language, and for an experimental one in Python alone."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings"))
import check_coverage  # noqa: E402

CORE = "#include <kvcache/types.h>\n\n/** A call. */\nKVC_API kvc_status kvc_fake_call(kvc_manager* m,\n                                 uint64_t value);\n"
EXPERIMENTAL = CORE.replace("types.h>\n", "types.h>\n\nKVC_EXPERIMENTAL\n")
PYTHON = {"python/kvcache/fake.py": "_native.kvc_fake_call(1)\n"}
GO = {"go/fake.go": "native.Kvc_fake_call(1)\n"}
JAVA = {"java/src/main/java/io/kvcache/Fake.java": "Native.kvc_fake_call(1);\n"}


class Coverage(unittest.TestCase):
    def faults(self, header, layers, reasons=None):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"include/kvcache/fake.h": header, **layers}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return check_coverage.check(root / "include", root, reasons or {})[1]

    def test_a_core_function_is_needed_in_every_language(self):
        self.assertEqual(self.faults(CORE, {**PYTHON, **GO, **JAVA}), [])
        for missing, layers in (("Go", {**PYTHON, **JAVA}), ("Java", {**PYTHON, **GO}), ("Python", {**GO, **JAVA})):
            self.assertEqual(self.faults(CORE, layers), [f"kvc_fake_call in {missing}: not offered, and no reason is given"])

    def test_an_experimental_function_needs_no_layer_of_go_and_java(self):
        self.assertEqual(self.faults(EXPERIMENTAL, PYTHON), [])
        self.assertEqual(self.faults(EXPERIMENTAL, {**PYTHON, **GO}), [])

    def test_an_experimental_function_needs_python(self):
        self.assertEqual(self.faults(EXPERIMENTAL, {**GO, **JAVA}), ["kvc_fake_call in Python: not offered, and no reason is given"])

    def test_the_word_in_a_comment_is_not_enough(self):
        self.assertEqual(len(self.faults(CORE.replace("A call.", "KVC_EXPERIMENTAL"), PYTHON)), 2)

    def test_a_reason_without_a_gap_is_stale_for_both(self):
        for header in CORE, EXPERIMENTAL:
            stale = self.faults(header, {**PYTHON, **GO, **JAVA}, {"kvc_fake_call": {"Go": "a reason"}})
            self.assertEqual(stale, ["kvc_fake_call in Go: offered in fake.go; the reason is stale"])

    def test_the_headers_are_of_both_kinds(self):
        names = check_coverage.functions(check_coverage.HERE.parent / "include")
        core = {"kvc_manager_create", "kvc_manager_step", "kvc_storage_attend", "kvc_model_get", "kvc_manager_poll_events", "kvc_manager_resize"}
        experimental = {"kvc_log_replay", "kvc_manager_rebuild", "kvc_sizer_create", "kvc_offload_create", "kvc_tier_create", "kvc_checkpoint_save", "kvc_scheduler_create",
                        "kvc_index_create", "kvc_metrics_render", "kvc_publisher_create", "kvc_plugin_open", "kvc_page_key", "kvc_page_file_read_info"}
        self.assertEqual({name: names.get(name) for name in core | experimental}, {name: name in experimental for name in core | experimental})


if __name__ == "__main__":
    unittest.main()
