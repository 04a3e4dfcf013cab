"""Checks what pages and comments refer to: links, files, and the words of the glossary.

  - A local link of README.md or docs/ leads to a file that exists, and its anchor to a heading of that page.
  - A file that a comment or a page names exists: by its whole path (core/ir/op.h), or by its name (op.h).
  - A name that stands before the link to a source file, as in `RunCalls::Execute` ([run_calls.h](../server/engine/run_calls.h)),
    is in that file: its last part, for a member.
  - A word of docs/glossary.md is used somewhere else.
"""
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(r"(?<![\w/.<$*-])((?:[\w-]+/)*[\w-]+\.(?:h|cc|def|md|proto|py|cmake|uop))\b(?![\w(*])")
NAMED = re.compile(r"`(~?[A-Za-z_][\w:~]*)(?:\(\))?`\s+(?:in\s+)?\(?\[[^\]]*\]\(([^)\s#]+\.(?:h|cc|py|def))\)")
SOURCES = (".h", ".cc", ".def", ".py", ".cmake", ".proto")
# Names of files that are made, or not ours.
FOREIGN = re.compile(r"\.pb\.h$|^train\.py$|\bfoo\b|^(graph|kernel|GRAPH)\.uop$")


def comments_of(path, text):
    """The comments of a source file; everything of a page but its blocks of code."""
    if path.endswith(".md"):
        return re.sub(r"```.*?```", "", text, flags=re.S)
    mark = "#" if path.endswith((".py", ".cmake")) else "//"
    return "\n".join(line.split(mark, 1)[1] for line in text.splitlines() if line.lstrip().startswith(mark))


def anchors_of(text):
    heads = re.findall(r"^#+ +(.*)$", text, flags=re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def check_links(root, page):
    found, bad = 0, []
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        found += 1
        name, _, anchor = target.partition("#")
        to = page.parent / name if name else page
        if not to.exists():
            bad.append(f"{page.relative_to(root)}: {target} does not exist")
        elif anchor and to.suffix == ".md" and anchor not in anchors_of(to.read_text()):
            bad.append(f"{page.relative_to(root)}: {name} has no heading {anchor}")
    return found, bad


def check_names(root, page):
    """How many names stand before links to source files, and which of them are not there."""
    found, bad = 0, []
    for name, target in NAMED.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
        to = page.parent / target
        if not to.is_file():
            continue
        found += 1
        if not re.search(rf"\b{re.escape(name.split('::')[-1])}\b", to.read_text()):
            bad.append(f"{page.relative_to(root)}: {target} has no {name}")
    return found, bad


def check_files(path, text, files, names):
    """What of the files that `text` names is not there: paths in `files`, last parts of them in `names`."""
    out = []
    for name in FILE.findall(comments_of(path, text)):
        known = name in files or ("/" not in name and name in names) or any(f.endswith("/" + name) for f in files)
        if not known and not FOREIGN.search(name):
            out.append(f"{path}: there is no {name}")
    return out


def check_glossary(text, others):
    words = [w.split(" (")[0] for w in re.findall(r"^\| ([^|]+?) \|", text, flags=re.M)]
    words = [w.strip("`") for w in words if w not in ("word", "---")]
    return words, [f"docs/glossary.md: nothing else uses the word {w}" for w in words
                   if not re.search(rf"\b{re.escape(w)}", others, flags=re.I)]


def main(root):
    root = pathlib.Path(root)
    files = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    files = {f for f in files if (root / f).is_file()}
    names = {f.split("/")[-1] for f in files}
    complaints, links, named, others = [], 0, 0, []
    for path in sorted(files):
        if not path.endswith(SOURCES + (".md",)):
            continue
        text = (root / path).read_text()
        complaints += check_files(path, text, files, names)
        if path != "docs/glossary.md":
            others.append(text)
        if path.endswith(".md"):
            found, bad = check_links(root, root / path)
            links += found
            complaints += bad
            found, bad = check_names(root, root / path)
            named += found
            complaints += bad
    words, unused = check_glossary((root / "docs/glossary.md").read_text(), "\n".join(others))
    complaints += unused
    print("\n".join(complaints) or f"{links} local links resolve, {named} names are where pages say, "
          f"{len(words)} words are used")
    return 1 if complaints or not links or not named or not words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
