#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/generate names what the table of calls and the frozen layout miss, and adds to the layout alone."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import kvcache_headers  # noqa: E402

loader = importlib.machinery.SourceFileLoader("generate", str(SCRIPTS / "generate"))
generate = importlib.util.module_from_spec(importlib.util.spec_from_loader("generate", loader))
loader.exec_module(generate)

HEADER = """
#define KVC_VERSION_MAJOR 0
#define KVC_VERSION_MINOR 3
#define KVC_VERSION_PATCH 0
enum { KVC_FIRST = 1 };
typedef struct kvc_pair { size_t struct_size; uint64_t first; uint32_t second, third; } kvc_pair;
/** Does it. Since 0.3. */
KVC_API kvc_status kvc_manager_do(kvc_manager* m, const int32_t* tokens, size_t num_tokens, uint64_t limit);
/** Reads it. Since 0.3. */
KVC_API kvc_status kvc_manager_read(kvc_manager* m, uint64_t* value);
"""
TABLE = "KVC_LOGGED_CALL(1, Long, kvc_manager_do, Tokens, Number)\nKVC_PLAIN_CALL(Short, kvc_manager_read)\n"
SIZES = {"Tokens": 2, "Number": 1}
FROZEN = "kvc_pair 24 24: struct_size=0, first=8, second=16, third=20\nconstants: KVC_FIRST=1\n"


class Generate(unittest.TestCase):
    def faults(self, header=HEADER, table=TABLE):
        return generate.check_table(kvcache_headers.parse(header), generate.table(table)[0], SIZES)

    def added(self, header, frozen=FROZEN):
        return generate.Layout(frozen).add(kvcache_headers.parse(header)).text().removeprefix(generate.LAYOUT)

    def test_a_sound_table_passes(self):
        self.assertEqual(self.faults(), [])

    def test_long_calls_are_told(self):
        self.assertEqual(generate.table(TABLE)[1], ["kvc_manager_do"])

    def test_a_function_without_a_row_is_named(self):
        self.assertEqual(self.faults(table=TABLE.splitlines()[0]), ["kvc_manager_read has no row in src/api/calls.def"])

    def test_a_row_without_a_function_is_named(self):
        self.assertEqual(self.faults(table=TABLE + "KVC_PLAIN_CALL(Short, kvc_gone)\n"), ["kvc_gone of src/api/calls.def is no function of the headers"])

    def test_the_number_of_a_retired_call_is_never_used_again(self):
        with self.assertRaisesRegex(generate.Fault, "two calls with number 1; the number of kvc_manager_do must be new"):
            generate.table(TABLE + "KVC_RETIRED_CALL(1, kvc_manager_undo, Tokens)\n")

    def test_a_wrong_count_of_parameters_is_named(self):
        self.assertEqual(self.faults(table=TABLE.replace("Tokens, Number", "Tokens")),
                         ["kvc_manager_do has 3 parameters behind the manager; its roles in src/api/calls.def are of 2"])

    def test_an_unknown_role_and_a_doubled_number_are_named(self):
        self.assertIn("role Blob", self.faults(table=TABLE.replace("Tokens", "Blob"))[0])
        for doubled, text in ((TABLE + TABLE, "two rows for kvc_manager_do"), (TABLE + "KVC_LOGGED_CALL(1, Short, kvc_other)\n", "two calls with number 1")):
            with self.assertRaisesRegex(generate.Fault, text):
                generate.table(doubled)

    def test_a_comment_without_a_version_is_named(self):
        self.assertIn("kvc_manager_read does not say since which version", self.faults(HEADER.replace("Reads it. Since 0.3.", "Reads it."))[0])

    def test_members_of_enumerations_follow_the_header(self):
        header = "enum { KVC_OK = 0, KVC_ERROR_BUSY = 5, KVC_ERROR_NEW = 9 };\nenum { KVC_TIER_GET = 1, KVC_TIER_PUT = 2 };"
        text = 'class Status(IntEnum):\n    """Busy."""\n\n    OK = _native.KVC_OK\n    BUSY = _native.KVC_ERROR_BUSY\n\n    def f(self): ...\n'
        written = generate.members(text, kvcache_headers.parse(header))
        self.assertEqual(written, text.replace("    BUSY = _native.KVC_ERROR_BUSY\n", "    BUSY = _native.KVC_ERROR_BUSY\n    NEW = _native.KVC_ERROR_NEW\n"))
        with self.assertRaisesRegex(generate.Fault, "KVC_OK of .* is in no enumeration"):
            generate.members(text, kvcache_headers.parse("enum { KVC_TIER_GET = 1 };"))

    def test_every_function_is_exported_by_the_version_of_the_header(self):
        self.assertEqual(generate.version_script(kvcache_headers.parse(HEADER)).split("\n", 2)[2],
                         "KVCACHE_0.3 {\n  global:\n    kvc_manager_do;\n    kvc_manager_read;\n  local:\n    *;\n};\n")

    def test_calls_with_numbers_and_ids_are_methods(self):
        header = HEADER + """/** Sets the limit.
 *  @return KVC_OK; NOT_FOUND. Since 0.3. */
KVC_API kvc_status kvc_manager_set_limit(kvc_manager* m, uint64_t request, uint32_t max_blocks);
"""
        text = generate.forwards.Forwards(kvcache_headers.parse(header), pathlib.Path("/nonexistent")).text()
        self.assertIn("// SetLimit sets the limit. Errors: ErrNotFound. Since 0.3.\nfunc (m *Manager) SetLimit(request Request, maxBlocks uint32) error {\n", text)
        self.assertIn("native.Kvc_manager_set_limit(c, uint64(request), maxBlocks)\n", text)
        self.assertIn("func (m *Manager) Read() (value uint64, err error) {\n", text)
        self.assertNotIn("Do(", text)  # tokens are an array
        text = generate.calls.Calls(kvcache_headers.parse(header), pathlib.Path("/nonexistent")).texts()["ManagerCalls.java"]
        self.assertIn("   * @throws KvCacheException NOT_FOUND\n   */\n  public void setLimit(long request, int maxBlocks) throws KvCacheException {\n"
                      "    Sizes.count(\"maxBlocks\", maxBlocks);\n    call(c -> Native.kvc_manager_set_limit(c, request, maxBlocks));\n", text)
        self.assertNotIn("do(", text)

    def test_a_record_of_java_has_the_fields_of_c(self):
        header = HEADER + """/** A log. */
typedef struct kvc_log_info {
  size_t struct_size;
  uint64_t num_calls; /**< Calls of max_blocks. */
  uint32_t flags, reserved;
} kvc_log_info;
"""
        text = generate.calls.Calls(kvcache_headers.parse(header), pathlib.Path("/nonexistent")).texts()["ManagerCalls.java"]
        self.assertIn("@param numCalls Calls of maxBlocks.\n", text)
        self.assertIn("public record LogInfo(long numCalls, int flags) {\n", text)
        self.assertIn("return new LogInfo(i.getNum_calls(), (int) i.getFlags());\n", text)

    def test_an_unchanged_header_leaves_the_layout_as_it_is(self):
        self.assertEqual(self.added(HEADER), FROZEN)

    def test_fields_at_the_end_and_new_structs_and_constants_are_added(self):
        grown = HEADER.replace("second, third;", "second, third; uint64_t last;").replace("KVC_FIRST = 1", "KVC_FIRST = 1, KVC_NEW = 7")
        self.assertEqual(self.added(grown + "typedef struct kvc_new { int32_t a; } kvc_new;"),
                         "kvc_pair 24 32: struct_size=0, first=8, second=16, third=20, last=24\nkvc_new 4 4: a=0\nconstants: KVC_FIRST=1, KVC_NEW=7\n")

    def test_any_other_change_is_refused(self):
        for old, new, text in (("uint64_t first;", "", "kvc_pair.first is not at 8"), ("second, third", "third, second", "kvc_pair.second is not at 16"),
                               ("uint64_t first", "uint32_t first, between", "may only be added behind"), ("KVC_FIRST = 1", "KVC_FIRST = 2", "values never change"),
                               ("KVC_FIRST", "KVC_OTHER", "KVC_FIRST of tests/abi/layout.txt is in no header"), ("second, third", "second", "kvc_pair.third is not at 20")):
            with self.subTest(new), self.assertRaisesRegex(generate.Fault, text):
                self.added(HEADER.replace(old, new))

    def test_the_program_compares_with_what_was_frozen(self):
        program = generate.Layout(FROZEN).test(["kvcache.h"])
        for line in ("sizeof(kvc_pair) == 24", "offsetof(kvc_pair, third) == 20", "(KVC_FIRST) == 1"):
            self.assertIn(line, program)


if __name__ == "__main__":
    unittest.main()
