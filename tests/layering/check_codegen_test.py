"""Shows that check_codegen.py complains about what it must, and about nothing else."""
import pathlib
import tempfile
import unittest

import check_codegen


class SizesTest(unittest.TestCase):
    def complaints(self, text):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.cc").write_text(text)
            return list(check_codegen.of_sizes([root / "a.cc"], root))

    def test_files(self):
        self.assertEqual(self.complaints("\n" * 500), [])
        self.assertEqual(self.complaints("\n" * 501), ["a.cc has 501 lines, over 500"])

    def test_classes(self):
        def declared(fields, functions):
            return ("namespace {\nclass One {\n" + "".join(f"  int f{i}_ = 0;\n" for i in range(fields))
                    + "".join(f"  int g{i}() const;\n" for i in range(functions)) + "};\n}\n")
        self.assertEqual(self.complaints(declared(10, 15)), [])
        self.assertEqual(self.complaints(declared(10, 16)), ["One has 26 members, over 25"])

    def test_functions(self):
        def of_lines(n):
            return "int f() {\n" + "  g();\n" * (n - 2) + "}\n"
        self.assertEqual(self.complaints(of_lines(80)), [])
        self.assertEqual(self.complaints(of_lines(81)), ["a.cc: f has 81 lines, over 80"])

    def test_parameters(self):
        six = "int f(int a, std::map<int, int> b, void (*c)(int, int), int d = g(1, 2), int e, int h)"
        self.assertEqual(self.complaints(six + ";\n"), [])
        self.assertEqual(self.complaints(six[:-1] + ", int i) { return 0; }\n"), ["a.cc: f has 7 parameters, over 6"])


class MachinesTest(unittest.TestCase):
    def test_asks(self):
        self.assertEqual(check_codegen.asks("if (target.blocks) f(target_.blocks, view.target().blocks);"), 3)
        self.assertEqual(check_codegen.asks("f(); // target.blocks\nprice.blocks = target.blockers;"), 0)


if __name__ == "__main__":
    unittest.main()
