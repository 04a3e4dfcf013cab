"""Shows that check_links.py complains about what it must, and about nothing else."""
import pathlib
import tempfile
import unittest

import check_links

FILES = {"core/ir/op.h", "docs/ir.md", "tests/a_test.cc"}
NAMES = {f.split("/")[-1] for f in FILES}


class FilesTest(unittest.TestCase):
    def complaints(self, path, text):
        return check_links.check_files(path, text, FILES, NAMES)

    def test_files_that_exist(self):
        self.assertEqual(self.complaints("a.h", "// See core/ir/op.h, ir/op.h (op.h) and docs/ir.md."), [])
        self.assertEqual(self.complaints("docs/x.md", "`core/ir/op.h` says it."), [])

    def test_files_that_are_gone(self):
        for text in ("// See core/ir/ops.h.", "// (opp.h)", "  // docs/gone.md has it"):
            self.assertEqual(len(self.complaints("a.h", text)), 1, text)
        self.assertEqual(len(self.complaints("docs/x.md", "`core/ir/ops.h` says it.")), 1)

    def test_code_is_no_comment(self):
        self.assertEqual(self.complaints("a.cc", '#include "uopd/v1/gone.h"\nOpen("gone.md");'), [])
        self.assertEqual(self.complaints("docs/x.md", "```\ncat gone.md\n```"), [])


class PagesTest(unittest.TestCase):
    def test_anchors(self):
        self.assertEqual(check_links.anchors_of("# A page\n## What `it` does\n"), {"a-page", "what-it-does"})

    def test_names_before_links(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.h").write_text("class Engine {\n  void Execute();\n};\n")
            page = root / "page.md"
            page.write_text("`Engine::Execute` ([a.h](a.h)), `Execute()` in [a](a.h), `Gone` ([a.h](a.h)),\n"
                            "`Engine::Exec`\n([a.h](a.h)), `Nowhere` ([b.h](b.h)), `Other`, and ([a.h](a.h))")
            found, bad = check_links.check_names(root, page)
            self.assertEqual(found, 4)
            self.assertEqual(bad, ["page.md: a.h has no Gone", "page.md: a.h has no Engine::Exec"])

    def test_words_that_nobody_uses(self):
        text = "| word | meaning |\n|---|---|\n| slot | a number |\n| gone | nothing |\n"
        words, unused = check_links.check_glossary(text, "A slot.")
        self.assertEqual(words, ["slot", "gone"])
        self.assertEqual(len(unused), 1)


if __name__ == "__main__":
    unittest.main()
