# SPDX-License-Identifier: Apache-2.0
"""calls.py: the texts of the classes that scripts/generate writes for Java, one below each class of OWNERS: methods for calls that only have ids and
numbers, and a number or a struct as result, records of such structs, and enumerations. What another file of the package has is not written."""

import pathlib
import re
import textwrap

import interface

HERE = pathlib.Path(__file__).resolve().parent / "src" / "main" / "java" / "io" / "kvcache"
OWNERS = {"kvc_manager": "Manager", "kvc_index": "Index", "kvc_offload": "Offload", "kvc_publisher": "Publisher", "kvc_scheduler": "Scheduler",
          "kvc_sizer": "Sizer", "kvc_workload": "Workload", "kvc_tier": "Tier"}
NUMBERS = {"uint64_t": "long", "uint32_t": "int", "int64_t": "long", "int32_t": "int", "double": "double", "float": "float", "size_t": "long"}
ARRAYS = {"char": "String", "uint8_t": "byte[]"}
# Any bits are allowed: ids, numbers that the caller chose, and times of clocks that begin anywhere.
ANY = {"namespace_id", "request", "pin", "worker", "medium", "next_sequence", "number", "now_ns"}
RECORDS = {"kvc_curve_info": ("Manager", "CurveInfo"), "kvc_log_info": ("Manager", "LogInfo"), "kvc_quota_info": ("Manager", "QuotaInfo"),
           "kvc_pool_info": ("Manager", "PoolInfo"), "kvc_lost_reuse": ("Manager", "LostReuse"), "kvc_block_info": ("Manager", "BlockInfo"),
           "kvc_probe_info": ("Manager", "ProbeInfo"), "kvc_request_info": ("Request", "Info"), "kvc_index_stats": ("Index", "Stats"),
           "kvc_index_applied": ("Index", "Applied"), "kvc_offload_info": ("Offload", "Info"), "kvc_offload_stats": ("Offload", "Stats"),
           "kvc_offload_tier_stats": ("Offload", "TierStats"), "kvc_publisher_stats": ("Publisher", "Stats"), "kvc_scheduled_info": ("Scheduler", "Info"),
           "kvc_scheduler_stats": ("Scheduler", "Stats"), "kvc_sizing_decision": ("Sizer", "Decision"), "kvc_workload_info": ("Workload", "Info"),
           "kvc_tier_stats": ("Tier", "Stats"), "kvc_tier_counts": ("Tier", "Counts"), "kvc_device_info": ("Manager", "DeviceInfo"),
           "kvc_replay_info": ("Manager", "LogReplay"), "kvc_latency": ("Metrics", "LatencyInfo"), "kvc_memory_profile": ("Metrics", "MemoryProfile"),
           "kvc_memory_estimate": ("Model", "Estimate"), "kvc_quant_metrics": ("Storage", "Metrics"), "kvc_attention_info": ("Attention", "Info")}
ENUMERATIONS = {"Tier": {"Kind": "KVC_TIER_EXISTS"}, "Metrics": {"Latency": "KVC_LATENCY_ADMIT"}, "Offload": {"State": "KVC_OFFLOAD_NONE", "Reason": "KVC_OFFLOAD_NOTHING"}, "Publisher": {"Hash": "KVC_PUBLISHER_DIGEST"},
                "Scheduler": {"Policy": "KVC_SCHEDULE_FCFS", "Admission": "KVC_ADMIT_CHUNK", "Reason": "KVC_ENDED_STOPPED", "State": "KVC_SCHEDULED_NOT_READY"},
                "Config": {"Policy": "KVC_POLICY_LRU"}, "RequestOptions": {"Headroom": "KVC_HEADROOM_NONE"},
                "Sizer": {"Mode": "KVC_SIZING_REACTIVE", "Action": "KVC_SIZING_KEEP", "Basis": "KVC_SIZING_BY_LAST", "Reason": "KVC_SIZING_NEED"}}
WITH_CODES = {"Status": "KVC_OK", "PageResult": "KVC_PAGE_WAITING"}  # files of their own
MORE = {"Status": "An engine handles OK, NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, FILLING and SKIPPED; any other is a bug in it. "}
CODE = """
  /** Its number in C. */
  public final int code;

  {0}(int code) {{
    this.code = code;
  }}

  private static final {0}[] ALL = values();

  /** Returns the one with this number. */
  public static {0} of(int code) {{
    for ({0} one : ALL) {{
      if (one.code == code) {{
        return one;
      }}
    }}
    throw Sizes.invalid("%d is not a {0} of this version", code);
  }}
}}
"""
# Fields and parameters that are members of an enumeration, whose first number is that behind the name.
TYPED = {"kvc_offload_info.state": ("State", 0), "kvc_offload_info.reason": ("Reason", 0), "kvc_scheduled_info.state": ("State", 1),
         "kvc_scheduler_stats.policy": ("Policy", 0), "kvc_sizing_decision.action": ("Action", 0), "kvc_sizing_decision.reason": ("Reason", 0),
         "kvc_sizing_decision.basis": ("Basis", 0), "kvc_sizing_decision.mode": ("Mode", 0), "kvc_tier_read_counts.kind": ("Kind", 0),
         "kvc_manager_expected_tokens.headroom": ("RequestOptions.Headroom", 0)}
OF_REQUESTS = {"kvc_manager_reserve_tokens": "reserve", "kvc_manager_truncate_request": "truncate", "kvc_manager_preempt_request": "preempt",
               "kvc_manager_end_session": "endSession", "kvc_manager_request_info": "info"}
NAMES = {"kvc_manager_unpin_prefix": "unpin", "kvc_manager_curve_info": "curve", "kvc_scheduler_request_info": "info", "kvc_workload_read_info": "read",
         "kvc_sizer_read_log": "readLog"}
STRUCTS = {"kvc_manager_config": "Config", "kvc_stats": "Stats", "kvc_request_config": "RequestOptions"}  # by hand
SKIPPED = {"kvc_offload_load", "kvc_offload_lookup", "kvc_manager_free_request"}  # the layer has other arguments, or more to do


def camel(name):
    """min_blocks -> minBlocks"""
    return re.sub(r"_(\w)", lambda it: it[1].upper(), name)


def wrapped(head, items, tail, indent):
    """Lines that break between items alone."""
    text = head + ", ".join(it.replace(" ", "\0") for it in items) + tail.replace(" ", "\0")
    return [line.replace("\0", " ") for line in textwrap.wrap(text, 146, initial_indent=indent, subsequent_indent=indent + "    ")]


class Calls:
    def __init__(self, headers, folder=HERE):
        self.headers = headers
        sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.java")) if not path.stem.endswith("Calls")}
        self.by_hand = "\n".join(sources.values())
        self.methods = {}  # what has a call: Class.method
        for stem, text in sources.items():
            for method, body in re.findall(r"^  public (?:static )?(?:synchronized )?[\w<>\[\].]+ (\w+)\([^;{]*\{\n(.*?)^  \}", text, re.M | re.S):
                for function in re.findall(r"Native(?:::|\.)(kvc_\w+)", body):
                    self.methods.setdefault(function, f"{stem}.{method}")
        self.forwards = [it for it in headers.functions.values() if self.is_forward(it)]
        self.methods |= {it.name: ".".join(self.owner_and_name(it)) for it in self.forwards}

    def is_forward(self, function):
        """Whether the method follows from the parameters, and no other file calls the function."""
        if function.result != "kvc_status" or not function.parameters or function.parameters[0].kind not in OWNERS or function.name in SKIPPED:
            return False
        if re.search(rf"Native(?:::|\.){function.name}\b", self.by_hand):
            return False
        rest = function.parameters[1:]
        if rest and rest[-1].stars == 1 and not rest[-1].const and (rest[-1].kind == "uint64_t" or rest[-1].kind in RECORDS):
            rest = rest[:-1]
        return all(not it.stars and it.kind in NUMBERS for it in rest)

    def owner_and_name(self, function):
        if function.name in OF_REQUESTS:
            return "Request", OF_REQUESTS[function.name]
        return OWNERS[function.parameters[0].kind], NAMES.get(function.name) or camel(re.sub(r"^kvc_[a-z]+_(?:read_)?", "", function.name))

    def words(self, text):
        """A comment of C in Java's names."""
        text = re.sub(r"\bKVC_ERROR_", "", " ".join(text.split())).replace("UINT64_MAX", "-1")  # what a long has of it
        text = re.sub(r"\bkvc_\w+", lambda it: self.methods.get(it[0]) or STRUCTS.get(it[0]) or ".".join(RECORDS.get(it[0], (it[0],))), text)
        text = re.sub(r"`?\b(?!kvc_)([a-z]+(?:_[a-z0-9]+)+)\b`?", lambda it: camel(it[1]), text)
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    def comment(self, lines, indent="  "):
        """Javadoc of paragraphs; those behind an empty one have an indentation where they go on."""
        wrapped = [line for text in lines for line in textwrap.wrap(text, 144 - len(indent), subsequent_indent="    " * text.startswith("@"), break_on_hyphens=False) or [""]]
        if len(wrapped) == 1:
            return [f"{indent}/** {wrapped[0]} */"]
        return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in wrapped), f"{indent} */"]

    def enumeration(self, name, first):
        members, comments = interface.members(self.headers, first)
        lines = self.comment([f"{interface.MEANINGS[first]}."]) + [f"  public enum {name} {{"]
        if name == "Reason" and first == "KVC_OFFLOAD_NOTHING":
            lines += ["    /** It is not ready. */", "    NONE,"]
        for constant, member in members.items():
            lines += self.comment([self.words(comments[constant])], "    ") + [f"    {member},"]
        return [*lines[:-1], lines[-1][:-1], "  }", ""]

    def with_codes(self, name, first):
        members, comments = interface.members(self.headers, first)
        lines = ["// SPDX-License-Identifier: Apache-2.0", "package io.kvcache;", "",
                 *self.comment([f"{interface.MEANINGS[first]}. {MORE.get(name, '')}Written by scripts/generate."], ""), f"public enum {name} {{"]
        for constant, member in members.items():
            lines += self.comment([self.words(comments[constant])]) + [f"  {member}(Native.{constant}),"]
        return "\n".join([*lines[:-1], lines[-1][:-1] + ";"]) + "\n" + CODE.format(name)

    def record(self, kind, name):
        struct = self.headers.structs[kind]
        taken, read, told = [], [], []
        for text, fields in struct.declarations:
            for it in fields:
                if it.name == "struct_size" or (it.name, it.kind) == ("reserved", "uint32_t"):
                    continue
                plain = "boolean" if interface.is_truth(text) else (ARRAYS if it.length or it.stars else NUMBERS)[it.kind]
                typed, first = TYPED.get(f"{kind}.{it.name}", (plain, 0))
                value = f"i.get{it.name[0].upper()}{it.name[1:]}()"
                read.append(f"{value} != 0" if typed == "boolean" else f"{typed}.values()[(int) {value}{f' - {first}' if first else ''}]" if typed in ENUMERATIONS.get(RECORDS[kind][0], ())
                            else f"(int) {value}" if typed == "int" else value)
                taken.append(f"{typed} {camel(it.name)}")
                said = self.words(text) or "as in C"
                told.append(f"@param {camel(it.name)} {said.replace('1 = ', 'true = ').replace('0 = ', 'false = ') if typed == 'boolean' else said}")
        lines = self.comment([f"{self.words(struct.doc).rstrip('.')}: {kind}.", "", *told])
        lines += wrapped(f"public record {name}(", taken, ") {", "  ") + [f"    static {name} read({kind} i) {{"]
        lines += wrapped(f"return new {name}(", read, ");", "      ")
        return [*lines, "    }", "  }", ""]

    def method(self, function):
        owner, name = self.owner_and_name(function)
        result = function.parameters[-1] if function.parameters[-1].stars and len(function.parameters) > 1 else None
        parameters = function.parameters[1:-1] if result else function.parameters[1:]
        taken, given, checks = [], [], []
        for it in parameters:
            one = {"namespace_id": "namespace"}.get(it.name, camel(it.name))
            if it.name == "request" and owner in ("Request", "Offload"):
                given.append("id()" if owner == "Request" else "request.id()")
                taken += ["Request request"] if owner == "Offload" else []
                continue
            typed = TYPED.get(f"{function.name}.{it.name}")
            given.append(f"{one}.ordinal()" if typed else one)
            taken.append(f"{typed[0] if typed else NUMBERS[it.kind]} {one}")
            if it.kind[0] == "u" and not typed and (it.name not in ANY or (owner, it.name) == ("Manager", "now_ns")):
                checks.append(f'    Sizes.count("{one}", {one});')
        told, throws, (text, _, rest) = [], [], " ".join(function.doc.split()).partition(" @")
        for part in re.split(r"\s*@(?=param|return)", "@" + rest):
            if found := re.match(r"param\S* (\w+) (.*)", part):
                wanted = {"namespace_id": "namespace"}.get(found[1], camel(found[1]))
                told += [f"@param {wanted} {self.words(found[2])}"] if any(it.endswith(f" {wanted}") for it in taken) else []
                said = found[2].replace("May be NULL.", "").strip()
                if result and said and found[1] == result.name and result.kind not in self.headers.structs:
                    told.append(f"@return {self.words(said)}")
            elif part.startswith("return"):
                also, errors, more = interface.outcome(part)
                throws = [f"@throws KvCacheException {self.words(errors)}"] if errors else []
                text = " ".join(it for it in (text, also, more) if it)
        lines = self.comment([self.words(text), *[""][:len(told) + len(throws)], *told, *throws])
        kind = "void" if result is None else RECORDS[result.kind][1] if result.kind in RECORDS else "long"
        lines += [f"  public {kind} {name}({', '.join(taken)}) throws KvCacheException {{", *checks]
        call = f"call(c -> Native.{function.name}({', '.join(['c', *given])}"
        if result is None:
            lines += [f"    {call}));"]
        elif result.kind in RECORDS:
            lines += [f"    try ({result.kind} info = new {result.kind}()) {{", f"      {call}, info));", f"      return {kind}.read(info);", "    }"]
        else:
            lines += ["    long[] out = new long[1];", f"    {call}, out));", "    return out[0];"]
        return [*lines, "  }", ""]

    def texts(self):
        """{path: text}"""
        files = {f"{name}.java": self.with_codes(name, first) for name, first in WITH_CODES.items() if first in self.headers.constants}
        for owner in sorted({*OWNERS.values(), "Request", *ENUMERATIONS, *(of for of, _ in RECORDS.values())}):
            functions = [it for it in self.forwards if self.owner_and_name(it)[0] == owner]
            lines = ["// SPDX-License-Identifier: Apache-2.0", "package io.kvcache;", "", f"/** What {{@link {owner}}} has that follows from the C headers. Written by scripts/generate. */",
                     f"public abstract class {owner}Calls {{", f"  {owner}Calls() {{}}", "", *["  abstract void call(Manager.Call call) throws KvCacheException;", ""] * bool(functions),
                     *["  abstract long id();", ""] * (owner == "Request")]
            for name, first in ENUMERATIONS.get(owner, {}).items():
                lines += self.enumeration(name, first) if first in self.headers.constants else []
            for kind, (of, name) in RECORDS.items():
                lines += self.record(kind, name) if of == owner and kind in self.headers.structs else []
            lines += [line for function in functions for line in self.method(function)]
            files[f"{owner}Calls.java"] = "\n".join(lines[:-1]) + "\n}\n"
        return files
