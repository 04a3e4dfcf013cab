"""Checks that every local link of README.md and docs/ leads to a file that exists."""
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def main(root):
    root = pathlib.Path(root)
    missing, links = [], 0
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:|#", target):
                continue
            links += 1
            if not (page.parent / target.split("#")[0]).exists():
                missing.append(f"{page.relative_to(root)}: {target} does not exist")
    print("\n".join(missing) or f"{links} local links resolve")
    return 1 if missing or not links else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
