"""Counts, for what is there, the files that an addition touches, as docs/adding_things.md promises.

    check_additions.py ROOT

  an opt      its file, opt.h and opt_table.cc: nobody else names its kind, but those who choose opts (heuristics, searches)
              and the rows of passes that exist for it
  a pass      its .h and .cc and pass_table.cc: nobody else runs it, but trials.cc, which tries the rows behind it
  an RPC      at most 7 files of proto, server/rpc and client name a query
  a metric    metrics.def and the places that count: no other C++ says the exported name
  a device    outside its folder only the registry and devices.cmake name it

An exception is a line below, with its reason.
"""
import pathlib
import re
import sys

MOST_OF_RPC = 7

# Those who choose opts may name each of them; passes may belong to opts.
CHOOSERS = ("core/codegen/opts/", "core/codegen/cpu/heuristic/", "core/codegen/gpu/heuristic/", "core/codegen/attention/",
            "core/search/", "core/codegen/pass_table.cc", "core/codegen/trials.cc")
OPTS = {
    ("core/codegen/launch_facts.cc", "kTensorCore"): "the estimate of a launch's time depends on matrix instructions",
    ("core/codegen/gpu/machine.cc", "kLocal"): "blocks of threads are made of LOCAL",
}
# The roofs of a report are kernels whose opts are written by hand.
OPTS_BY_HAND = {"server/engine/report/roofs.cc"}
PASSES = {
    ("ApplyOpts", "core/codegen/opts/choose/draft_opts.cc"): "a draft must add up in the order of the kernel that replaces it",
    ("ApplyOpts", "server/engine/kept/sum_forms.cc"): "says in which order a kernel adds up",
    ("PrepareStages", "server/engine/kept/sum_forms.cc"): "says in which order a kernel adds up",
    ("PrepareStages", "core/search/moves.cc"): "moves count the loads and reads behind it",
    ("MapThreads", "core/codegen/gpu/machine.cc"): "a block of threads that is too large is refused by a trial",
    ("MapThreads", "core/codegen/opts/opt_plan.cc"): "what a block shares is found out by a trial",
    ("HoistShared", "core/codegen/gpu/passes/pipeline/role_plan.cc"): "roles are made of lines, and then what they share is moved in front",
}


def read(path):
    return path.read_text(errors="replace")


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".def", ".proto") and "_pb2" not in path.name:
                yield path


def of_opts(root):
    kinds = re.findall(r"^  (k\w+),?$", read(root / "core/codegen/opts/opt.h").split("enum class OptKind")[1].split("};")[0], re.M)
    found = re.compile(r"\bOptKind::(k\w+)")
    for path in sources(root, "core", "devices", "server"):
        name = path.relative_to(root).as_posix()
        if name.startswith(CHOOSERS) or name in OPTS_BY_HAND:
            continue
        for kind in sorted(set(found.findall(read(path)))):
            if kind in kinds and (name, kind) not in OPTS:
                yield f"{name} names the opt {kind}"
    defined = {}
    for path in sources(root, "core/codegen/opts/kinds"):
        for kind in re.findall(r"\.kind = OptKind::(k\w+)", read(path)):
            defined.setdefault(kind, set()).add(path.name)
    for kind, files in sorted(defined.items()):
        if len(files) > 1:
            yield f"the opt {kind} has rows in {', '.join(sorted(files))}"


def of_passes(root):
    table = read(root / "core/codegen/pass_table.cc")
    # The function that a row, or the function of the row above the table, hands the root to.
    functions = set(re.findall(r"\b(\w+)\(w\.ctx, w\.root\b", table)) - {"Verify", "Simplify"}
    if not functions:
        yield "core/codegen/pass_table.cc has no passes"
    own = {"core/" + name for name in re.findall(r'"([\w/]+\.cc)",$', table, re.M)} | {"core/codegen/pass_table.cc"}
    for function in sorted(functions):
        used = re.compile(rf"\b{function}\(")
        for path in sources(root, "core", "server/engine"):
            user = path.relative_to(root).as_posix()
            if path.suffix != ".cc" or not used.search(read(path)) or (function, user) in PASSES:
                continue
            if user not in own:
                yield f"{user} runs the pass {function}"


def of_rpcs(root):
    texts = {path: read(path) for path in sources(root, "proto", "server/rpc", "client")}
    queries = re.findall(r"^UOPD_QUERY\((\w+),", read(root / "proto/methods.def"), re.M)
    if not queries:
        yield "proto/methods.def has no queries"
    for name in queries:
        word = re.compile(rf"\b{name}(Request|Response)?\b")
        files = [p.relative_to(root).as_posix() for p, text in texts.items() if word.search(text)]
        if len(files) > MOST_OF_RPC:
            yield f"the RPC {name} is in {len(files)} files: {', '.join(files)}"


def of_metrics(root):
    names = re.findall(r'^UOPD_METRIC\(\w+, \w+, "(\w+)"', read(root / "core/base/telemetry/metrics.def"), re.M)
    if not names:
        yield "core/base/telemetry/metrics.def has no metrics"
    for path in sources(root, "core", "devices", "cache", "server"):
        text = read(path)
        for name in names:
            if f'"uopd_{name}' in text:
                yield f"{path.relative_to(root)} says the name of the metric {name}"


def of_devices(root):
    rooms = {"api", "gpu", "dl", "llvm_ir"}
    for folder in sorted(p for p in (root / "devices").iterdir() if p.is_dir() and p.name not in rooms):
        for path in sources(root, "core", "devices", "cache", "server"):
            name = path.relative_to(root).as_posix()
            if name.startswith(f"devices/{folder.name}/") or name == "devices/registry.cc":
                continue
            if f'#include "devices/{folder.name}/' in read(path):
                yield f"{name} includes the device {folder.name}"


def check(root):
    for part in (of_opts, of_passes, of_rpcs, of_metrics, of_devices):
        yield from part(root)


def main():
    root = pathlib.Path(sys.argv[1])
    bad = list(check(root))
    for line in bad:
        print(line)
    if not bad:
        print("opts, passes, RPCs, metrics and devices are where docs/adding_things.md says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
