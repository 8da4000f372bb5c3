#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sizes.py counts what it says, in made-up code, and this tree is within its limits."""
import contextlib
import io
import os
import tempfile
import unittest

import check_sizes

CLASS = """
// class Comment { void f(); }
template <typename T = std::array<int, 3>>
class alignas(64) Outer final : public Base {
 public:
  Outer() = default;
  Outer(const Outer&) = delete;
  explicit Outer(int a) : a_{a}, b_(a) {
    if (a) { f(); }
  }
  ~Outer();
  bool operator()(int x) const { return x == 1; }
  Outer& operator=(Outer&& other);
  virtual void pure() = 0;
  template <typename U>
  void made(U (*call)(int), std::function<void()> other = {}) const;
  struct Inner {
    int only() { return '{'; }
    const char* text = "}} void g();";
  };

 private:
  friend class Peer;
  static_assert(sizeof(int) == 4);
  using Call = void (*)(int);
  void (*pointer_)(int) = nullptr;
  std::function<void(int)> function_;
  Part part_{*this, value()};
  int start_ = value(1);
  enum class Kind { kOne, kTwo };
  uint8_t bits_ : 7;
};
"""


def lines_of(count):
    return "int f(int a,\n      int b) {\n" + "  // a line\n" * (count - 3) + "}\n"


class CheckSizes(unittest.TestCase):
    def test_this_tree_is_within_its_limits(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(check_sizes.main([]), 0, out.getvalue())

    def test_methods_are_counted(self):
        classes, functions = check_sizes.read(CLASS)
        self.assertEqual(dict(classes), {"Inner": 1, "Outer": 6})
        self.assertEqual([name for name, _, _ in functions], ["Outer", "operator", "only"])

    def test_lines_of_functions_are_counted(self):
        text = "namespace kvc {\nnamespace {\n\n" + lines_of(60) + "}\n\nconst int kTable[] = {f(1), g()};\n" + \
            "kvc_status Type::method(Span<int> a) const {\n  const auto call = [&] {\n    return 1;\n  };\n}\n}\n"
        self.assertEqual(check_sizes.read(text)[1], [("f", 4, 60), ("Type::method", 67, 5)])

    def test_what_is_no_function_is_none(self):
        self.assertEqual(check_sizes.read("#define F(x) \\\n  { x(\nint x = f(2);\nstruct X { int a[2]{g(), 1}; } x{f()};\n"), ([("X", 0)], []))

    def test_braces_must_match(self):
        for text in ("void f() {\n", "}\n"):
            with self.assertRaises(ValueError):
                check_sizes.read(text)

    def count(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                code = check_sizes.main([root])
            return [number for number, _ in check_sizes.count_tree(root)[0]], code, out.getvalue()

    def test_conditions_and_parameters_are_counted(self):
        text = "// has_fills()\nvoid f(uint32_t ns, const uint32_t group = 0, uint32_t pool_size) {\n" \
               "  for (uint32_t pool = 0; has_fills() && shape.state_groups != 0;) caches();\n\n  uint32_t cls;\n}\n"
        self.assertEqual(self.count({"src/manager/x.cc": text})[0], [0, 0, 0, 5, 3, 2])
        self.assertEqual(self.count({"src/pool/x.h": text})[0][4:], [0, 2])
        self.assertEqual(self.count({check_sizes.DEFINITIONS: text})[0][4:], [0, 2])

    def test_what_a_feature_says_of_itself_is_no_condition(self):
        text = "class A {\n  bool on() const { return shape_.has_fills(); }\n  bool caches() const { return caches_; }\n" \
               "  BitsOf groups() const { return bits_of(shape_.cross_groups); }\n" \
               "  bool has(uint32_t g) const { return kind_ == KVC_GROUP_STATE && (shape_.state_groups >> g & 1) != 0; }\n};\n"
        self.assertEqual(self.count({"src/manager/x.h": text})[0][4], 2)

    def test_a_number_that_grows_is_named(self):
        limits = dict((name, limit) for name, limit, _ in check_sizes.LIMITS)
        name = "conditions on features in src/manager"
        text = lambda number: f"void f() {{ {'has_fills(); ' * number}}}\n"
        self.assertEqual(self.count({"src/manager/x.cc": text(limits[name])})[1], 0)
        _, code, out = self.count({"src/manager/x.cc": text(limits[name] + 1)})
        self.assertEqual(code, 1)
        self.assertIn(f"{name}: {limits[name] + 1}, and the limit is {limits[name]}; ", out)
        self.assertIn("1 files read, 1 numbers above their limits", out)

    def test_nothing_read_is_a_fault(self):
        self.assertEqual(self.count({"docs/x.md": ""})[1], 1)


if __name__ == "__main__":
    unittest.main()
