#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""interface.py tells the roles of parameters by their types, and leaves to kvcache.i what that says by hand."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings"))
import interface  # noqa: E402

HEADER = """
typedef struct kvc_thing kvc_thing;
typedef struct kvc_pair { int32_t source, destination; } kvc_pair;
typedef struct kvc_config { size_t struct_size; const int32_t* sizes; const char* name; uint32_t flags; } kvc_config;
typedef struct kvc_hidden { int32_t x; } kvc_hidden;
KVC_API kvc_status kvc_thing_create(const kvc_config* config, kvc_thing** thing);
KVC_API kvc_status kvc_thing_do(kvc_thing* thing, const int32_t* tokens, size_t num_tokens, kvc_pair* pairs, size_t capacity, size_t* count);
KVC_API kvc_status kvc_thing_all(kvc_thing* const* things, size_t num_things, const uint64_t* starts, float* rates, uint32_t* bits);
KVC_API kvc_status kvc_thing_odd(kvc_thing* thing, const float* in, size_t rows, int32_t* path);
"""


class Roles(unittest.TestCase):
    def told(self, by_hand="", header=HEADER):
        swig = interface.Interface(interface.kvcache_headers.parse(header))
        swig.by_hand, swig.calls = by_hand, ""
        return swig.roles(), list(swig.unreachable())

    def test_types_tell_roles(self):
        self.assertEqual(self.told()[0], sorted([
            "KVC_STRUCT(kvc_config)", "KVC_OBJECT(kvc_thing, thing)", "KVC_IN(int32_t, INT32, tokens, num_tokens)", "KVC_OUT_RECORDS(kvc_pair, pairs, capacity)",
            "KVC_RESULT(size_t, count)", "KVC_OBJECTS(kvc_thing, things, num_things)", "KVC_IN_ARRAY(uint64_t, UINT64, starts)", "KVC_OUT_ARRAY(float, BYTES, rates)",
            "KVC_RESULT(uint32_t, bits)", "KVC_IN_RECORDS(float, in, rows)", "KVC_RESULT(int32_t, path)"]))

    def test_what_is_said_by_hand_is_left_out(self):
        by_hand = "KVC_IN_ARRAY(float, BYTES, in)\nKVC_OUT_ARRAY(int32_t, INT32, path)\nKVC_OBJECT(kvc_thing, thing)\n"
        self.assertEqual([role for role in self.told()[0] if role not in self.told(by_hand)[0]],
                         ["KVC_IN_RECORDS(float, in, rows)", "KVC_OBJECT(kvc_thing, thing)", "KVC_RESULT(int32_t, path)"])

    def test_a_name_of_a_result_and_of_an_array_is_refused(self):
        with self.assertRaisesRegex(ValueError, "starts is a result of kvc_thing_starts and an array of kvc_thing_all"):
            self.told(header=HEADER + "KVC_API kvc_status kvc_thing_starts(kvc_thing* thing, uint64_t* starts);\n")

    def test_structs_that_no_function_has_and_pointers_are_not_reachable(self):
        self.assertEqual(self.told()[1], ["kvc_pair", "kvc_config::sizes", "kvc_hidden"])
        self.assertEqual(self.told("KVC_STRUCT(kvc_hidden)\n")[1], ["kvc_pair", "kvc_config::sizes"])


if __name__ == "__main__":
    unittest.main()
