#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_hooks.py [ROOT]    exit 1 and one line per violation.

A feature of the manager has hooks in the place of those of src/manager/feature.h that it needs. They are not virtual, so the compiler
says nothing of a misspelled one, which nobody would call. Hence: each public method of a feature is a hook, or another file calls it;
and each hook is called.
"""
import pathlib
import re
import sys

METHOD = re.compile(r"^  (?:\[\[nodiscard\]\] )?(?:const )?[\w:]+(?:<[^>]*>)?[ &*]+(\w+)\(", re.M)
CLASS = re.compile(r"^class (\w+) : public Feature \{\n(.*?)^\};", re.M | re.S)


def public_methods(body):
    return METHOD.findall(body.partition(" private:\n")[0])


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[2]
    folder = root / "src" / "manager"
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "src").rglob("*") if path.suffix in (".h", ".cc")}
    hooks = set(METHOD.findall(re.search(r"^class Feature\b.*?^\};", texts[folder / "feature.h"], re.M | re.S).group(0))) - {"Feature"}
    features = violations = 0
    for hook in sorted(hooks):
        if not any(re.search(rf"feature\.{hook}\(", text) for text in texts.values()):
            violations += 1
            print(f"src/manager/feature.h: nobody calls the hook {hook}")
    for path in sorted(folder.glob("*.h")):
        for name, body in CLASS.findall(texts[path]):
            features += 1
            own = (path, path.with_suffix(".cc"))
            for method in public_methods(body):
                called = any(re.search(rf"(?:\.|->){method}\(", text) for other, text in texts.items() if other not in own)
                if method not in hooks and not called:
                    violations += 1
                    print(f"{path.relative_to(root)}: {name}::{method} is no hook of feature.h, and no other file calls it")
    print(f"{features} features read, {violations} violations")
    return 1 if violations or not features else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
