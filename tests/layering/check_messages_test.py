"""Shows that check_messages.py complains about what it must, and about nothing else."""
import unittest

import check_messages


class CppTest(unittest.TestCase):
    def found(self, text):
        return list(check_messages.in_cpp(text))

    def test_constructors(self):
        for text in (
                'return absl::InternalError("The code names no entry.");',
                'return Invalid(Cat("The file ", path, " is empty."));',
                'return Invalid(absl::StrCat("The bound is ", most[i], "."));',
                'return absl::Status(code, "A name is missing.");',
                'return {BlameOf(code), StrCat("The call ", f(a, b), " fails.")};',
                'return WithFrame(status, "reading a file.");',
                'return UOPD_BUG("slot table lost a buffer.");',
                'UOPD_LOG(kWarn, "The disk is full.", {"path", path});',
                'health = {State::kMemory, "The cache is in memory."};',
                'throw nb::value_error("A size is negative.");',
                'std::fprintf(stderr, "uopd: %s is gone.\\n", path);',
                'std::cerr << "The file " << path << " is gone.\\n";',
                'absl::Status s = why + " has no name.";',
                'out.why = "it is too old.";'):
            self.assertEqual(self.found(text), [1], text)
            self.assertEqual(self.found(text.replace('.")', '")').replace('.\\n', '\\n').replace(
                '.",', '",').replace('.";', '";').replace('."}', '"}')), [], text)

    def test_literals(self):
        self.assertEqual(self.found('f("It is "\n  // why\n  "too old.");'), [3])
        self.assertEqual(self.found('f("It is. "\n  "too old");'), [])
        self.assertEqual(self.found('f(R"(It is "too" old.)");'), [1])
        self.assertEqual(self.found(r'f("It is \"too\" old.");'), [1])
        self.assertEqual(self.found("c = '\"'; f(\"It is old.\"); d = '\"';"), [1])
        self.assertEqual(self.found('// f("It is old.");\n/* g("It is old."); */ h();'), [])

    def test_conditions(self):
        self.assertEqual(self.found('f(a ? "It is." : Cat("It is ", b));'), [1])
        self.assertEqual(self.found('f(Cat("makes no code for ", n, a ? "a." : "."));'), [1, 1])
        self.assertEqual(self.found('f(a ? "It is." : b, c);'), [1])
        self.assertEqual(self.found('f(Cat(a ? "It is." : b, " Not here"));'), [])

    def test_text_that_goes_on(self):
        self.assertEqual(self.found('f(Cat("It is old. ", "Take another one"));'), [])
        self.assertEqual(self.found('f("It is old." + why);'), [])
        self.assertEqual(self.found('f(Cat(Cat("It is ", a, "."), " Take another one"));'), [])
        self.assertEqual(self.found('f((Cat("It is ", a, ".")));'), [1])

    def test_no_messages(self):
        self.assertEqual(self.found('text.Put("mma.sync.m", m, ".row.col.", type, ".", type);'), [])
        self.assertEqual(self.found('f("loading a kernel ..."); g("a.b."); h(part == "." || part == "..");'), [])
        self.assertEqual(self.found('f("usage: uopd [FLAG]...\\n\\nIt compiles graphs.\\n");'), [])
        self.assertEqual(self.found('f(R"(One line.\nAnother one.)");'), [])
        self.assertEqual(self.found('n = a ? "%ctaid." : "%tid.";'), [])
        self.assertEqual(self.found('#include "core/base/a b."\nint a;'), [])


class PythonTest(unittest.TestCase):
    def found(self, text):
        return list(check_messages.in_python(text))

    def test_raise(self):
        self.assertEqual(self.found('raise ValueError("It is old.")'), [1])
        self.assertEqual(self.found('raise ValueError(f"It is {age}.") from None'), [1])
        self.assertEqual(self.found('raise ValueError("It is "\n  "old.")'), [2])
        self.assertEqual(self.found('raise ValueError("It is %d." % age)'), [1])
        self.assertEqual(self.found('raise ValueError("It is {}.".format(age))'), [1])
        self.assertEqual(self.found('raise ValueError("It is." if a else "It " + b + "is.")'), [1, 1])
        self.assertEqual(self.found('HOW = "Take it."\nraise ValueError(f"It is old; {HOW}")'), [1])
        self.assertEqual(self.found('raise ValueError("It is. So it is")\nraise StopIteration'), [])

    def test_calls(self):
        self.assertEqual(self.found('warnings.warn("It is old.")'), [1])
        self.assertEqual(self.found('sys.exit("It is old.")'), [1])
        self.assertEqual(self.found('print("It is old.", file=sys.stderr)'), [1])
        self.assertEqual(self.found('print("It is old.")'), [])

    def test_docstrings(self):
        self.assertEqual(self.found('def f():\n  """It is old."""'), [])


if __name__ == "__main__":
    unittest.main()
