"""Checks that tests/unit mirrors the sources: tests/unit/X/Y_test.cc tests X/Y.h, X/Y.cc or the folder X/Y.

    check_mirror.py ROOT

A test of what several sources do together lies in tests/integration. Other files beside the tests are free: fixtures, fakes, data.
"""
import pathlib
import subprocess
import sys

UNIT, END = "tests/unit/", "_test.cc"


def without_source(files):
    """The unit tests among `files` that have no source among them."""
    sources = set()
    for file in map(pathlib.PurePosixPath, files):
        if file.suffix in (".h", ".cc"):
            sources.add(str(file.with_suffix("")))
            sources.update(map(str, file.parents))
    return [file for file in files
            if file.startswith(UNIT) and file.endswith(END) and file[len(UNIT):-len(END)] not in sources]


def main(root):
    files = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    files = [file for file in files if pathlib.Path(root, file).is_file()]
    found = without_source(files)
    for file in found:
        path = file[len(UNIT):-len(END)]
        print(f"{file}: there is no {path}.h, {path}.cc or folder {path}; a test across sources lies in tests/integration")
    tests = sum(file.startswith(UNIT) and file.endswith(END) for file in files)
    if not found:
        print(f"{tests} unit tests have a source")
    return 1 if found or not tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
