# SPDX-License-Identifier: Apache-2.0
"""kvcache_headers.py: the one parser of the public C headers, for scripts/generate and for every script and test that asks what they declare.

It understands what the headers use (C99 prototypes, typedef'd structs, unnamed enumerations, #define of constants) and raises ValueError for a
declaration that it does not know, so that nothing is overlooked. Comments belong to what they stand before, or behind on the same line (/**<)."""

import dataclasses
import pathlib
import re

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"
VARIABLE = re.compile(r"(?P<const>const )?(?:struct )?(?P<kind>\w+) ?(?P<stars>\* ?const ?\*|\**) ?(?P<name>\w+) ?(?:\[(?P<length>.*)\])?")
CALLBACK = re.compile(r".*?\(\*(?P<name>\w+)\) ?\(.*\)")
SIZES = {"char": 1, "uint8_t": 1, "int32_t": 4, "uint32_t": 4, "float": 4, "uint16_t": 2}  # others have 8 bytes


@dataclasses.dataclass
class Variable:
    """A parameter or a field: `const kind *name[length]`. A pointer to a function has the kind "" and one star."""
    name: str
    kind: str
    stars: int
    const: bool = False
    length: str = None

    def __str__(self):
        return f"{'const ' if self.const else ''}{self.kind} {'*' * self.stars}{self.name}"


@dataclasses.dataclass
class Function:
    name: str
    result: str
    parameters: list
    header: str  # kvcache/x.h
    experimental: bool
    doc: str
    text: str  # the declaration without comments, mark and semicolon


@dataclasses.dataclass
class Struct:
    name: str
    declarations: list  # (comment, [Variable])
    header: str
    text: str
    doc: str

    @property
    def fields(self):
        return [field for _, fields in self.declarations for field in fields]


@dataclasses.dataclass
class Headers:
    functions: dict = dataclasses.field(default_factory=dict)  # those that the library exports: name -> Function
    unmarked: set = dataclasses.field(default_factory=set)  # names of functions without KVC_API
    structs: dict = dataclasses.field(default_factory=dict)
    aliases: dict = dataclasses.field(default_factory=dict)  # typedef of a scalar or of a pointer to a function ("")
    constants: dict = dataclasses.field(default_factory=dict)  # enumerations and #define, in order: name -> text of the value
    enumerations: list = dataclasses.field(default_factory=list)  # of each {name: comment}

    @property
    def version(self):
        return ".".join(self.constants[f"KVC_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))

    def value(self, text):
        """A constant, or an expression of constants, as a number."""
        text = re.sub(r"U?INT(8|16|32|64)_MAX", lambda it: str(2 ** (int(it[1]) - (it[0][0] == "I")) - 1), text)
        text = re.sub(r"\bKVC_\w+", lambda it: str(self.value(self.constants[it[0]])), text)
        return eval(re.sub(r"(?<=\d)u\b", "", text).replace("/", "//"), {"__builtins__": {}})  # pylint: disable=eval-used

    def size(self, field):
        """(bytes, alignment) of a field in the layout that Linux gives it on 64 bits."""
        count = self.value(field.length) if field.length else 1
        kind = self.aliases.get(field.kind, field.kind)
        if not field.stars and kind in self.structs:
            end, alignment = self.layout(kind)[1:]
            return end * count, alignment
        alone = 8 if field.stars else SIZES.get(kind, 8)
        return alone * count, alone

    def layout(self, struct):
        """([(field, offset)], size, alignment) of a struct."""
        at, widest, offsets = 0, 1, []
        for field in self.structs[struct].fields:
            size, alignment = self.size(field)
            at += -at % alignment
            offsets.append((field.name, at))
            at, widest = at + size, max(widest, alignment)
        return offsets, at + -at % widest, widest


def variables(text):
    """The variables of one declaration: `const int32_t *a, b[4]`."""
    text = " ".join(text.split())
    if callback := CALLBACK.fullmatch(text):
        return [Variable(callback["name"], "", 1)]
    found, shared = [], ""
    for part in text.split(","):
        it = VARIABLE.fullmatch(f"{shared} {part}".strip())
        if it is None:
            raise ValueError(f"not understood: {text}")
        shared = shared or (it["const"] or "") + it["kind"]
        found.append(Variable(it["name"], it["kind"], it["stars"].count("*"), bool(it["const"]), it["length"]))
    return found


def parameters(text):
    """Those of a function, from the text between its parentheses."""
    parts = re.split(r",(?![^()]*\))", text)
    return [] if text.strip() in ("", "void") else [variables(part)[0] for part in parts]


def parse(text, header="", into=None):
    """The declarations of the text of a header, added to `into`."""
    headers, docs = into or Headers(), []

    def keep(comment):
        docs.append(re.sub(r"\n\s*\* ?", "\n", comment[0][3:-2]))
        return f"\x01{len(docs) - 1}\x02" if comment[0].startswith("/**") else ""

    def split(piece):
        """(a declaration without comments, the comment before it, that of the declaration before it)"""
        found = [docs[int(number)] for number in re.findall("\x01(\\d+)\x02", piece)]
        before = [doc for doc in found if not doc.startswith("<")]
        behind = [doc[1:] for doc in found if doc.startswith("<")]
        return re.sub("\x01\\d+\x02", "", piece).strip(), before[-1] if before else "", behind[0] if behind else ""

    text = re.sub(r"/\*.*?\*/|//[^\n]*", keep, text, flags=re.S).replace("\\\n", " ")
    experimental = re.search(r"^KVC_EXPERIMENTAL$", text, re.M) is not None
    text = re.sub(r"^[ \t]*#[ \t]*define (\w+) ([^\n\x01]+)", r"#\1 = \2;", text, flags=re.M)
    text = re.sub(r'^[ \t]*#[ \t]*[a-z][^\n\x01]*|^KVC_EXPERIMENTAL$|extern\s+"C"\s*\{|^\}[ \t]*$', "", text, flags=re.M)
    for statement in re.findall(r"(?:[^;{}]|\{(?:[^{}]|\{[^{}]*\})*\})*;", text):
        said, doc, _ = split(statement[:-1].partition("{")[0])
        body = statement.partition("{")[2].rpartition("}")[0]
        if said.startswith("#"):
            name, value = said[1:].split(" = ", 1)
            if name != "KVC_API":
                headers.constants[name] = value.strip()
        elif re.fullmatch(r"(typedef )?enum", said):
            comments, before = {}, ""
            for mark, name, value in re.findall("\x01(\\d+)\x02|(\\w+)\\s*(?:=\\s*([^,\x01]+))?", body):
                if mark and docs[int(mark)].startswith("<"):
                    comments[next(reversed(comments))] = docs[int(mark)][1:]
                elif mark:
                    before = docs[int(mark)]
                elif not value:
                    raise ValueError(f"{header}: a constant without a value: {body}")
                else:
                    headers.constants[name] = value.strip()
                    comments[name], before = before, ""
            headers.enumerations.append(comments)
        elif body and (named := re.fullmatch(r"typedef struct (\w+)", said)):
            declarations = []
            for part in re.split(r";", body):
                field, before, behind = split(part)
                if behind and declarations and not declarations[-1][0]:
                    declarations[-1] = (behind, declarations[-1][1])
                if field:
                    declarations.append((before, variables(field)))
            whole = re.sub("\x01\\d+\x02", "", statement).strip()
            headers.structs[named[1]] = Struct(named[1], declarations, header, whole, doc)
        elif re.fullmatch(r"(typedef )?struct \w+( \w+)?", said):
            pass
        elif named := re.fullmatch(r"typedef .*?\(\*(\w+)\)\s*\(.*\)", said, re.S):
            headers.aliases[named[1]] = ""
        elif not body and (named := re.fullmatch(r"typedef (\w+) (\w+)", said)):
            headers.aliases[named[2]] = named[1]
        elif named := re.fullmatch(r"(KVC_API )?((?:const )?\w+[ *]+?)\s*(\w+)\s*\((.*)\)", said, re.S):
            if named[1]:
                headers.functions[named[3]] = Function(named[3], named[2].strip(), parameters(named[4]), header, experimental, doc, said[len("KVC_API "):])
            else:
                headers.unmarked.add(named[3])
        elif said:
            raise ValueError(f"{header}: not understood: {said}")
    return headers


def read(include=INCLUDE):
    """All headers of a folder, or one."""
    include, headers = pathlib.Path(include), Headers()
    for path in sorted(include.rglob("*.h")) if include.is_dir() else [include]:
        parse(path.read_text(encoding="utf-8"), path.relative_to(include).as_posix() if include.is_dir() else path.name, headers)
    return headers
