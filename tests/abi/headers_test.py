#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parser of the public headers finds what they declare, and refuses what it does not understand."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import kvcache_headers  # noqa: E402

TEXT = """
#ifndef GUARD
#define GUARD
#include <kvcache/types.h>
KVC_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif
#define KVC_MOST 8 /**< Most things. */
typedef struct kvc_thing kvc_thing; /**< Opaque. */
/** Not kvc_in_comment(x); */
enum {
  KVC_FIRST = 1, /**< One. */
  /** Two. */
  KVC_SECOND = KVC_MOST / 2
};
/** A struct. */
typedef struct kvc_pair {
  size_t struct_size; /**< sizeof(kvc_pair) */
  /** Both. */
  int32_t first, second;
  uint8_t digest[KVC_MOST]; /**< A digest
                             *   of two lines. */
  uint32_t flags;
  void (*done)(void* user_data, int32_t value);
} kvc_pair;
typedef kvc_status (*kvc_callback)(int32_t value);
/** Does it. Since 0.1. */
KVC_API kvc_status kvc_do(kvc_thing* thing, const int32_t* values,
                          size_t num_values, kvc_pair* const* pairs);
int kvc_bare(void);
#ifdef __cplusplus
}
#endif
#endif
"""


class Headers(unittest.TestCase):
    def setUp(self):
        self.headers = kvcache_headers.parse(TEXT, "kvcache/x.h")

    def test_functions(self):
        function = self.headers.functions["kvc_do"]
        self.assertEqual((function.result, function.header, function.experimental, function.doc.strip()), ("kvc_status", "kvcache/x.h", True, "Does it. Since 0.1."))
        self.assertEqual([(it.name, it.kind, it.stars, it.const) for it in function.parameters],
                         [("thing", "kvc_thing", 1, False), ("values", "int32_t", 1, True), ("num_values", "size_t", 0, False), ("pairs", "kvc_pair", 2, False)])
        self.assertEqual((set(self.headers.functions), self.headers.unmarked), ({"kvc_do"}, {"kvc_bare"}))

    def test_structs(self):
        told = [(" ".join(comment.split()), [field.name for field in fields]) for comment, fields in self.headers.structs["kvc_pair"].declarations]
        self.assertEqual(told, [("sizeof(kvc_pair)", ["struct_size"]), ("Both.", ["first", "second"]), ("A digest of two lines.", ["digest"]), ("", ["flags"]), ("", ["done"])])
        self.assertEqual(self.headers.layout("kvc_pair"), ([("struct_size", 0), ("first", 8), ("second", 12), ("digest", 16), ("flags", 24), ("done", 32)], 40, 8))

    def test_constants(self):
        self.assertEqual({name: self.headers.value(value) for name, value in self.headers.constants.items()}, {"KVC_MOST": 8, "KVC_FIRST": 1, "KVC_SECOND": 4})

    def test_what_is_not_understood_is_refused(self):
        for declaration in "typedef union kvc_u { int a; } kvc_u;", "extern int kvc_variable;", "KVC_API int kvc_f(int (x)[3][4]);":
            with self.subTest(declaration), self.assertRaises(ValueError):
                kvcache_headers.parse(declaration)


if __name__ == "__main__":
    unittest.main()
