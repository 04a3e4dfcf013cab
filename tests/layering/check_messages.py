"""Checks that messages end without a full stop (docs/errors.md, "Messages"). A message may have one inside.

    check_messages.py ROOT

In C++ every text of prose that an expression ends with is taken for a message. The check joins adjacent literals,
follows the last argument of a function that joins texts (JOINERS), and looks at both branches of a condition. So the
check needs no list of the functions that take messages. A text without a space beside a letter is no prose, "..." is
no full stop, and a text of several lines is a page.

In Python a message is what `raise` raises, and what a call of ENDS is given or a print to sys.stderr.
"""
import ast
import pathlib
import re
import subprocess
import sys

# Functions of C++ whose arguments become one text.
JOINERS = {"Cat", "StrCat", "Append", "StrAppend", "Put", "PutIf", "string", "string_view"}
# Functions of Python that show a message to a person.
ENDS = {"warn", "error", "warning", "exit", "fail", "skip"}

TOKEN = re.compile(r"""
    //[^\n]* | /\*.*?\*/ | ^[ \t]*\#[ \t]*include[^\n]*
  | (?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\((?P<raw>.*?)\)(?P=mark)"
  | (?:u8|[uUL])?"(?P<text>(?:[^"\\\n]|\\.)*)"
  | (?P<char>'(?:[^'\\\n]|\\.)+')
  | (?P<word>[A-Za-z_]\w*|\d(?:'?[\w.])*)
  | (?P<sign>::|<<|->|\S)
""", re.X | re.S | re.M)
CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


class Source:
    """The tokens of a C++ source as (kind, value, line). Kind is "text", "word" or "sign"; adjacent texts are one."""

    def __init__(self, text):
        self.tokens = []
        line, at = 1, 0
        for match in TOKEN.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            literal = match["raw"] if match["raw"] is not None else match["text"]
            if literal is not None:
                last = line + match.group().count("\n")
                before = self.tokens.pop()[1] if self.tokens and self.tokens[-1][0] == "text" else ""
                self.tokens.append(("text", before + literal, last))
            elif match["sign"]:
                self.tokens.append(("sign", match.group(), line))
            elif match["word"] or match["char"]:
                self.tokens.append(("word", match["word"] or "", line))
        self.around = []  # for each token the position of the bracket that it lies in, -1 for none
        open_ = []
        for i, (kind, value, _) in enumerate(self.tokens):
            if kind == "sign" and value in CLOSED_BY.values() and open_:
                open_.pop()
            self.around.append(open_[-1] if open_ else -1)
            if kind == "sign" and value in CLOSED_BY:
                open_.append(i)

    def sign(self, i):
        """The sign at a position, "" for another token; ";" behind the last."""
        if i >= len(self.tokens):
            return ";"
        return self.tokens[i][1] if self.tokens[i][0] == "sign" else ""

    def callee(self, bracket):
        """The name before a "(", "" if there is none, None for another bracket."""
        if bracket < 0 or self.sign(bracket) != "(":
            return None
        kind, value, _ = self.tokens[bracket - 1]
        return value if kind == "word" and value != "return" else ""

    def after_branches(self, i):
        """The position behind the other branches of a condition, if there is a ":" at `i`; else `i`."""
        if self.sign(i) != ":":
            return i
        bracket = self.around[i]
        while not (self.sign(i) == ";" or self.around[i] == bracket and self.sign(i) == ","
                   or bracket >= 0 and self.around[i] == self.around[bracket]):
            i += 1
        return i

    def ends_expression(self, i):
        """The last position of the whole expression that the text at `i` ends; None if more text follows."""
        while True:
            bracket = self.around[i]
            after = self.after_branches(i + 1)
            sign, callee = self.sign(after), self.callee(bracket)
            if sign == "," and callee in JOINERS:
                return None
            if sign == ")" and (callee == "" or callee in JOINERS):
                i = after
            else:
                return i if sign in tuple(",;)}]") else None

    def texts_until(self, i):
        """The texts of the expression that ends at `i`."""
        bracket, first = self.around[i], i
        while first - 1 > bracket and not (
                self.around[first - 1] == bracket
                and (self.sign(first - 1) in tuple(",;={}") or self.tokens[first - 1][1] == "return")):
            first -= 1
        return "|".join(value for kind, value, _ in self.tokens[first:i + 1] if kind == "text")


def stops(text):
    """Whether a text ends with a full stop, and is no page."""
    text = re.sub(r"(\\n|\s)+$", "", text)
    return text.endswith(".") and not text.endswith("..") and "\\n" not in text and "\n" not in text


def in_cpp(text):
    """The lines of a C++ source where a message ends with a full stop."""
    source = Source(text)
    for i, (kind, value, line) in enumerate(source.tokens):
        if kind == "text" and stops(value):
            end = source.ends_expression(i)
            if end is not None and re.search(r"[A-Za-z] | [A-Za-z]", source.texts_until(end)):
                yield line


def tails(node, constants):
    """The literals that an expression of Python may end with, as (line, text). `constants`: the values of names."""
    if isinstance(node, ast.Constant):
        return [(node.end_lineno, node.value)] if isinstance(node.value, str) else []
    if isinstance(node, ast.Name):
        return tails(constants[node.id], {}) if node.id in constants else []
    if isinstance(node, ast.JoinedStr):
        return tails(node.values[-1], constants) if node.values else []
    if isinstance(node, ast.FormattedValue):
        return tails(node.value, constants)
    if isinstance(node, ast.BinOp):
        return tails(node.left if isinstance(node.op, ast.Mod) else node.right, constants)
    if isinstance(node, ast.IfExp):
        return tails(node.body, constants) + tails(node.orelse, constants)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return tails(node.func.value, constants)
    return []


def shows(node):
    """Whether a call of Python shows a message to a person."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    to_stderr = any(k.arg == "file" and ast.unparse(k.value) == "sys.stderr" for k in node.keywords)
    return name in ENDS or name == "print" and to_stderr


def in_python(text):
    """The lines of a Python source where a message ends with a full stop."""
    module = ast.parse(text)
    constants = {target.id: node.value for node in module.body if isinstance(node, ast.Assign)
                 for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(module):
        calls = []
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            calls.append(node.exc)
        if isinstance(node, ast.Call) and shows(node):
            calls.append(node)
        for call in calls:
            yield from (line for a in call.args for line, found in tails(a, constants) if stops(found))


def main(root):
    files = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    checked, found = 0, []
    for file in files:
        path = pathlib.Path(root, file)
        if file.endswith((".h", ".cc", ".def", ".py")) and path.is_file():
            lines = in_python(path.read_text()) if file.endswith(".py") else in_cpp(path.read_text())
            found += [f"{file}:{line}: the message ends with a full stop" for line in sorted(set(lines))]
            checked += 1
    print("\n".join(found) or f"the messages of {checked} files end without a full stop")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
