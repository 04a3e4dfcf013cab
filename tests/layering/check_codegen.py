"""Checks the size of what core/codegen declares, and that few places ask which kind of machine a target is.

    check_codegen.py ROOT

Universal Ctags says what there is.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

MOST_LINES = 500           # of a file
MOST_MEMBERS = 25          # of a class, data and functions together
MOST_FUNCTION_LINES = 80
MOST_PARAMETERS = 6
MOST_BLOCKS = 8            # places in core that ask for Target::blocks
BLOCKS = re.compile(r"\btarget_?(\(\))?\.blocks\b")


def sources(root, folder):
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc"))


def tags(files):
    listed = subprocess.run(["ctags", "--output-format=json", "--fields=+sKSne", "--kinds-C++=+p", "-L", "-", "-f", "-"],
                            input="\n".join(map(str, files)), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in listed.stdout.splitlines()]


def name_of(scope):
    """Without the names that Ctags gives to anonymous namespaces."""
    return re.sub(r"__anon\w+::", "", scope)


def parameters(signature):
    """The number of parameters of "(int a, std::pair<int, int> b) const"."""
    depth, count, text = 0, 0, ""
    for char in signature:
        if char in ")>}]":
            depth -= 1
            if depth == 0:
                break
        if depth == 1 and char == ",":
            count += 1
        if depth >= 1:
            text += char
        if char in "(<{[":
            depth += 1
    return count + 1 if text.strip() not in ("", "void") else 0


def asks(text):
    """How often code, without its comments, asks for Target::blocks."""
    return sum(len(BLOCKS.findall(re.sub(r"//.*", "", line))) for line in text.splitlines())


def of_sizes(files, root):
    for path in files:
        lines = len(path.read_text().splitlines())
        if lines > MOST_LINES:
            yield f"{path.relative_to(root)} has {lines} lines, over {MOST_LINES}"
    members = collections.defaultdict(set)
    for tag in tags(files):
        is_function = tag["kind"] in ("prototype", "function")
        if tag.get("scopeKind") in ("class", "struct") and (is_function or tag["kind"] == "member"):
            members[tag["scope"]].add((tag["name"], tag.get("signature")))
        if not is_function:
            continue
        where = f"{pathlib.Path(tag['path']).relative_to(root)}: {tag['name']}"
        lines = tag.get("end", tag["line"]) - tag["line"] + 1
        if tag["kind"] == "function" and lines > MOST_FUNCTION_LINES:
            yield f"{where} has {lines} lines, over {MOST_FUNCTION_LINES}"
        count = parameters(tag.get("signature", "()"))
        if count > MOST_PARAMETERS:
            yield f"{where} has {count} parameters, over {MOST_PARAMETERS}"
    for name, found in sorted(members.items()):
        if len(found) > MOST_MEMBERS:
            yield f"{name_of(name)} has {len(found)} members, over {MOST_MEMBERS}"


def of_machines(files, root):
    places = {str(p.relative_to(root)): asks(p.read_text()) for p in files}
    if sum(places.values()) > MOST_BLOCKS:
        where = ", ".join(f"{path} ({n})" for path, n in places.items() if n)
        yield f"Target::blocks is asked for in {sum(places.values())} places, over {MOST_BLOCKS}: {where}"


def main():
    root = pathlib.Path(sys.argv[1])
    found = [*of_sizes(sources(root, "core/codegen"), root), *of_machines(sources(root, "core"), root)]
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
