"""Shows that check_mirror.py finds unit tests without a source, and nothing else."""
import unittest

import check_mirror

SOURCES = ["core/base/text.h", "core/base/text.cc", "core/base/machine/pidfd.h", "core/rules/index.cc", "docs/rules.md"]


class MirrorTest(unittest.TestCase):
    def found(self, *tests):
        return check_mirror.without_source(SOURCES + list(tests))

    def test_sources(self):
        self.assertEqual(self.found("tests/unit/core/base/text_test.cc", "tests/unit/core/base/machine/pidfd_test.cc",
                                    "tests/unit/core/rules/index_test.cc"), [])
        self.assertEqual(self.found("tests/unit/core/base/texts_test.cc"), ["tests/unit/core/base/texts_test.cc"])
        self.assertEqual(self.found("tests/unit/core/base/pidfd_test.cc"), ["tests/unit/core/base/pidfd_test.cc"])
        self.assertEqual(self.found("tests/unit/docs/rules_test.cc"), ["tests/unit/docs/rules_test.cc"])

    def test_folders(self):
        self.assertEqual(self.found("tests/unit/core/base/machine_test.cc", "tests/unit/core/rules_test.cc"), [])
        self.assertEqual(self.found("tests/unit/machine_test.cc"), ["tests/unit/machine_test.cc"])

    def test_other_files(self):
        self.assertEqual(self.found("tests/unit/core/base/fixture.h", "tests/unit/core/base/fake.cc",
                                    "tests/integration/core/base/all_test.cc", "tests/e2e/all_test.cc"), [])


if __name__ == "__main__":
    unittest.main()
