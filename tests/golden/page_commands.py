#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the commands that pages show and compares what they print.

  page_commands.py SOURCE_FOLDER BIN_FOLDER PAGE...

A block of code that begins with "$ " is a session of one shell: commands of a line each, with what they print. The sessions of a page
run in its order, in a temporary folder that has the tree's `docs`. A line "..." stands for any lines. The numbers of lines of sources are
not compared, nor the checkout that a cached object was compiled in. Not run: sessions that need a daemon or show times, and those for
programs of LLVM that the machine does not have. UOPD_ACCEPT=1 writes anew what differs and has no "...".
"""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SESSION = re.compile(r"^```\n(\$ .*?)^```$", flags=re.M | re.S)
NOT_RUN = re.compile(r"^\$ .*\buopctl (run|profile)\b|^ts=|match ms", flags=re.M)
PROGRAM = re.compile(r"\b(?:opt|llc)-\d+\b")
MARK = "end of a command, exit status"
LIMIT_S = 60


def steps_of(session):
    """Pairs of a command and what the page shows of it."""
    parts = re.split(r"^\$ (.*)\n", session, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2]))


def plain(text):
    return re.sub(r"(\.cc):\d+", r"\1:N", text)


def is_excerpt(shown, printed):
    """Whether the lines of `printed` are those of `shown`, where "..." stands for any lines."""
    lines, at = plain(printed).splitlines(), 0
    pieces = [piece.strip("\n").splitlines() for piece in re.split(r"^\.\.\.$", plain(shown), flags=re.M)]
    if len(pieces) == 1:
        return pieces[0] == lines
    for number, piece in enumerate(pieces):
        last = len(lines) - len(piece)
        starts = (last,) if number == len(pieces) - 1 else range(at, last + 1) if number else (0,)
        found = next((i for i in starts if i >= at and lines[i:i + len(piece)] == piece), None)
        if found is None:
            return False
        at = found + len(piece)
    return True


def run(commands, folder, bin_folder):
    """What each command prints."""
    script = "".join(f"{command}\nprintf '\\n{MARK} %d\\n' $?\n" for command in commands)
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=folder, env=environment, text=True, timeout=LIMIT_S,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    parts = re.split(rf"\n{MARK} (\d+)\n", re.sub(r"/\S*/(core/\S*\.cc:\d+)", r"\1", done.stdout))
    return [text.rstrip("\n") + "\n" * bool(text.strip()) + (f"exit status {status}\n" if status not in ("0", "141") else "")
            for text, status in zip(parts[::2], parts[1::2])]


def check(page, root, bin_folder):
    """Returns the number of commands that ran, and complaints."""
    path, count, complaints = root / page, 0, []
    text = path.read_text()
    with tempfile.TemporaryDirectory(prefix="uopd-page-") as folder:
        (pathlib.Path(folder) / "docs").symlink_to(root / "docs")
        for session in SESSION.findall(text):
            if NOT_RUN.search(session) or not all(shutil.which(name) for name in PROGRAM.findall(session)):
                continue
            steps, written = steps_of(session), ""
            for (command, shown), printed in zip(steps, run([command for command, _ in steps], folder, bin_folder), strict=True):
                count += 1
                same = is_excerpt(shown, printed)
                written += f"$ {command}\n{shown if same or '...' in shown.splitlines() else printed}"
                if not same:
                    difference = "".join(difflib.unified_diff(shown.splitlines(True), printed.splitlines(True), "page", "printed", n=1))
                    complaints.append(f"{page}: $ {command}\n{difference}")
            if os.environ.get("UOPD_ACCEPT"):
                text = text.replace(session, written)
    if os.environ.get("UOPD_ACCEPT"):
        path.write_text(text)
    if not count:
        complaints.append(f"{page} has no commands")
    return count, complaints


def main():
    root, bin_folder, pages = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    counts, complaints = zip(*(check(page, root, bin_folder) for page in pages))
    for complaint in sum(complaints, []):
        print(complaint)
    print(f"{sum(counts)} commands of {len(pages)} pages")
    return 1 if any(complaints) else 0


if __name__ == "__main__":
    sys.exit(main())
