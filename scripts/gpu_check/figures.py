# SPDX-License-Identifier: Apache-2.0
"""`gpu-check figures`: what the device reaches by itself, then each benchmark, and the tables of them."""
import json
import re

from gpu_check.rows import KINDS, ROWS
from gpu_check.run import counts, outcome

SLOWEST = 5  # so many times as long as was estimated: then something hangs
LEAST_SECONDS = 30
CEILINGS = {"bench": "ceilings", "kind": "ceilings", "estimate": 8}
SMALL = {"--batch": 2, "--context": 64, "--queries": 8, "--layers": 1, "--replays": 1}  # an emulated device: that it runs, not how fast


def chosen(only):
    return [row for row in ROWS if re.search(only, row.name)]


def plan_text(only):
    rows = chosen(only)
    lines = [f"{row.name:<48}{row.seconds:>5.0f} s  {'gpu_bench graph' if row.program == 'graph' else 'kvcache bench'} {row.options}" for row in rows]
    return "\n".join(lines) + f"\n{len(rows)} benchmarks, {sum(row.seconds for row in rows) + CEILINGS['estimate']:.0f} s estimated, the ceilings included"


def json_in(output):
    """What a command says in JSON, behind whatever others have said, or None."""
    try:
        return json.loads(output[output.index("{"):])
    except ValueError:
        return None


def small(words):
    """The same with no more than SMALL of anything."""
    words = list(words)
    for option, most in SMALL.items():
        if option in words:
            at = words.index(option) + 1
            words[at] = str(min(int(words[at]), most))
        elif option in ("--layers", "--context"):
            words += [option, str(most)]
    if "--block-size" in words:  # of which a copy needs two
        at = words.index("--block-size") + 1
        words[at] = str(min(int(words[at]), SMALL["--context"] // 2))
    return words


class Figures:
    def __init__(self, run, only):
        self.run, self.free_bytes = run, None
        self.ceilings_row = run.plan(dict(CEILINGS))
        self.planned = [(row, run.plan({"bench": row.name, "kind": row.kind, "estimate": row.seconds})) for row in chosen(only)]

    def execute(self):
        run = self.run
        run.write()
        program = run.program(f"gpu_bench_{run.vendor}")
        steps = ["--bytes", "65536", "--steps", "2"] if run.emulated else []
        self.measure(self.ceilings_row, program and [program, "ceilings", *steps])
        run.known["ceilings"] = self.ceilings_row.get("measured", {})
        self.free_bytes = run.known["ceilings"].get("free_bytes")
        print(json.dumps(run.known["ceilings"], indent=1), flush=True)
        for row, planned in self.planned:
            words = row.options.split()
            if run.emulated:
                words = small(words)
            elif self.free_bytes is not None and self.free_bytes < (row.gib() + 2) * 2**30:
                run.finish(planned, result="skipped", output=f"it needs {row.gib():.0f} GiB of memory, and {self.free_bytes / 2**30:.0f} are free")
                continue
            if row.program == "graph":
                replays = ["--replays", "1"] if run.emulated and "--replays" not in words else []
                self.measure(planned, program and [program, "graph", *words, *replays, "--check"])
            else:
                self.measure(planned, [run.program("kvcache"), "bench", *words, "--device", run.device, "--check", "--json"])

    def measure(self, row, command):
        """Finishes the row with what a command says in JSON."""
        run = self.run
        if not command:
            run.finish(row, output=f"there is no gpu_bench_{run.vendor} in {run.build / 'bin'}")
            return
        row["command"] = " ".join([command[0].rpartition("/")[2], *command[1:]])
        if run.left() < min(row["estimate"], LEAST_SECONDS) or run.ended:
            run.finish(row, output="the time was used up")
            return
        most = run.left() if run.emulated else max(LEAST_SECONDS, SLOWEST * row["estimate"])
        left = run.left()
        code, output, seconds = run.execute(command, min(left, most))
        row["seconds"] = round(seconds, 1)
        measured = json_in(output)
        check = (measured or {}).get("check")
        if check and not check["right"] and code == 1:
            run.finish(row, result="wrong", measured=measured)
        elif code == 0 and check:
            run.finish(row, result="ok", measured=measured)
        elif code == 0:
            run.finish(row, result="failed", output=f"it has compared nothing: {output[-2000:]}")
        else:
            run.finish(row, **outcome(code, output[-2000:], run.ended or code is None and left < most))


def number(value, places):
    return "-" if value is None else f"{value:.{places}f}"


def rate_and_ceiling(row, ceilings):
    """GB/s, and what of it would be all: bytes that are read; read and written, both counted; or sent by the link."""
    found = row["measured"]
    copied = ceilings.get("copy_gb_per_s")
    if row["kind"] == "swap":
        return found["gb_per_s"], ceilings.get("device_to_host_gb_per_s" if "out" in found["bench"] else "host_to_device_gb_per_s")
    if "traffic_gb_per_s" in found:
        return found["traffic_gb_per_s"], 2 * copied if copied else None
    return found["gb_per_s"], ceilings.get("read_gb_per_s")


def line(row, ceilings):
    if "measured" not in row:
        lines = row.get("output", "").strip().splitlines()
        return f"{row['bench']:<46}{row['result']}: {lines[-1] if lines else 'its turn has not come'}"
    found = row["measured"]
    rate, ceiling = rate_and_ceiling(row, ceilings)
    teraflops = found["gflops"] / 1000 if "gflops" in found else None
    row["memory_ratio"] = rate / ceiling if ceiling else None
    row["product_ratio"] = teraflops / ceilings["mma_tflops"] if teraflops and "mma_tflops" in ceilings else None
    error = found["check"]["max_error"]
    return (f"{row['bench']:<46}{found['us_per_layer']:>10.1f}{found['enqueue_us_per_layer']:>9.1f}{rate:>9.1f}{number(row['memory_ratio'], 2):>7}"
            f"{number(teraflops, 2):>9}{number(row['product_ratio'], 3):>7}{number(found.get('nodes_per_call'), 1):>7}{error if isinstance(error, str) else f'{error:.1g}':>9}"
            f"{'' if row['result'] == 'ok' else '  WRONG'}")


def table(run):
    ceilings = run.known.get("ceilings", {})
    parts = []
    for kind, title in KINDS.items():
        rows = [row for row in run.rows if row["kind"] == kind]
        if rows:
            parts.append(f"\n{title:<46}{'us/layer':>10}{'enqueue':>9}{'GB/s':>9}{'ratio':>7}{'TFLOP/s':>9}{'ratio':>7}{'nodes':>7}{'error':>9}")
            parts += [line(row, ceilings) for row in rows]
    if ceilings:
        parts.append(f"\nRatios, to what kernels and copies that do nothing else reached first: attention to reading {ceilings['read_gb_per_s']:.1f} GB/s and to "
                     f"mma.sync bf16 {ceilings.get('mma_tflops', 0):.2f} TFLOP/s; rows and blocks (bytes read and written) to copying "
                     f"{2 * ceilings['copy_gb_per_s']:.1f} GB/s; swaps to the link, {ceilings.get('device_to_host_gb_per_s', 0):.1f} GB/s out and "
                     f"{ceilings.get('host_to_device_gb_per_s', 0):.1f} GB/s in.\nError: of the worst row that was compared with the CPU's, relative (L2).\n"
                     "Nodes: kernels and copies of a call in a graph.")
    parts += [f"{row['bench']}: {row['result']}: {row.get('output', '')[-500:]}" for row in run.rows if row["kind"] == "ceilings" and row["result"] != "ok"]
    parts.append(f"\n{len(run.rows)} measurements: {counts(run.rows)}")
    return "\n".join(parts) + "\n"


def main(run, only):
    """Whether all is well."""
    run.table = lambda: table(run)
    Figures(run, only).execute()
    return all(row["result"] in ("ok", "skipped") for row in run.rows) and not run.ended
