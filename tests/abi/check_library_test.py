#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_library.py must accept a sound library and name each defect that is put into one."""
import os
import subprocess
import tempfile
import unittest

import check_library

HEADER = """
#define KVC_API __attribute__((visibility("default")))
#ifdef __cplusplus
extern "C" {
#endif
/** A comment that says kvc_in_comment(x); */
typedef struct kvc_thing { void (*kvc_callback)(int x); } kvc_thing;
typedef void (*kvc_function)(int);
KVC_API int kvc_one(void);
KVC_API const char *kvc_two(
    int a);   // kvc_other_comment();
#ifdef __cplusplus
}
#endif
"""
SOURCE = """
#define KVC_API __attribute__((visibility("default")))
KVC_API int kvc_one(void) { return 1; }
KVC_API const char *kvc_two(int a) { return a ? "two" : ""; }
"""
MAP = "KVC_1 { global: kvc_one; kvc_two; /* kvc_no; */ local: *; };\n"


class CheckLibrary(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def build(self, source=SOURCE, script=MAP, *flags):
        library = os.path.join(self.folder.name, "libtry.so")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-fvisibility=hidden", self.write("try.c", source),
                        "-o", library, "-Wl,--version-script=" + self.write("link.map", script), *flags], check=True)
        return library

    def symbols(self, source=SOURCE, script=MAP, header=HEADER):
        return check_library.check_symbols(self.build(source, script), self.write("check.map", script),
                                           self.write("kvcache.h", header))

    def test_sound_library_passes(self):
        self.assertEqual(self.symbols(), [])

    def test_function_missing_in_version_script_is_named(self):
        self.assertEqual(self.symbols(script="KVC_1 { global: kvc_one; local: *; };"),
                         ["kvc_two is missing in: version script, library"])

    def test_function_missing_in_library_is_named(self):
        self.assertEqual(self.symbols(source=SOURCE.replace("kvc_two", "kvc_three")),
                         ["kvc_two is missing in: library"])

    def test_function_missing_in_header_is_named(self):
        self.assertEqual(self.symbols(header=HEADER.replace("KVC_API int kvc_one(void);", "")),
                         ["kvc_one is missing in: header"])

    def test_declaration_without_mark_is_named(self):
        self.assertIn("kvc_one is declared without KVC_API",
                      self.symbols(header=HEADER.replace("KVC_API int kvc_one", "int kvc_one")))

    def test_pattern_in_version_script_is_refused(self):
        with self.assertRaises(SystemExit):
            self.symbols(script="KVC_1 { global: kvc_*; local: *; };")

    def test_missing_version_script_is_named(self):
        problems = check_library.check_symbols(self.build(), os.path.join(self.folder.name, "absent.map"),
                                               self.write("kvcache.h", HEADER))
        self.assertEqual(len(problems), 1)
        self.assertIn("is missing", problems[0])

    def test_foreign_dependency_is_named(self):
        self.assertEqual(check_library.check_needed(self.build(SOURCE, MAP, "-Wl,--no-as-needed", "-lc")), [])
        self.write("other.c", "int other(void) { return 3; }")
        other = os.path.join(self.folder.name, "libother.so")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", os.path.join(self.folder.name, "other.c"),
                        "-o", other, "-Wl,-soname,libother.so.7"], check=True)
        self.assertEqual(check_library.check_needed(self.build(SOURCE, MAP, "-Wl,--no-as-needed", other)),
                         ["depends on libother.so.7"])

    def test_build_path_and_search_path_are_named(self):
        self.assertEqual(check_library.check_paths(self.build(), self.folder.name), [])
        source = SOURCE.replace('"two"', '"%s/x.c"' % self.folder.name)
        self.assertEqual(check_library.check_paths(self.build(source), self.folder.name),
                         [f"holds the path {self.folder.name}"])
        self.assertEqual(check_library.check_paths(self.build(SOURCE, MAP, "-Wl,-rpath,/nowhere"), self.folder.name),
                         ["has a run-time search path"])


if __name__ == "__main__":
    unittest.main()
