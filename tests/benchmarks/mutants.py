"""Every small change to a source file that its tests ought to notice: a comparison or its boundary, `and` for `or`, a
dropped or added `not`, a constant one higher or lower, another operator, a returned None or 0, a deleted statement, a
call replaced by its first argument."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, NamedTuple

COMPARISON = re.compile(r"[<>=!]+|\bis not\b|\bis\b|\bnot in\b|\bin\b")
COMPARED = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
COMPARED |= {"is not": ["is"], "is": ["is not"], "not in": ["in"], "in": ["not in"]}
ARITHMETIC = re.compile(r"\*\*|//|[-+*/%|&]")
COMPUTED = {
    "+": ["-"],
    "-": ["+"],
    "*": ["/"],
    "/": ["*"],
    "//": ["*"],
    "%": ["*"],
    "**": ["*"],
    "|": ["&"],
    "&": ["|"],
}
COMPUTED |= {f"{sign}=": [f"{new[0]}="] for sign, new in COMPUTED.items()}
UNWRAPPED = {"sorted", "max", "min", "reversed", "abs", "round", "ceil", "floor"}
UNWRAPPED_METHODS = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold"}
UNTOUCHED = {"isinstance", "cast", "TypeVar", "NewType", "logger", "_logger", "log", "_log"}  # types and log lines
NOTHING = {"int": "0", "float": "0.0", "bool": "False"}


class Mutant(NamedTuple):
    """A file of which the bytes from `start` to `end` are replaced by `new`."""

    path: Path
    line: int
    start: int
    end: int
    new: str
    kind: str

    def text(self) -> bytes:
        text = self.path.read_bytes()
        return text[: self.start] + self.new.encode() + text[self.end :]

    def difference(self, root: Path) -> str:
        text, grown = self.path.read_bytes(), len(self.new.encode()) - (self.end - self.start)
        begin, end = text.rfind(b"\n", 0, self.start) + 1, text.find(b"\n", self.end)
        old, new = (b" ".join(lines.split()).decode() for lines in (text[begin:end], self.text()[begin : end + grown]))
        return f"{self.path.relative_to(root)}:{self.line} ({self.kind})\n  - {old}\n  + {new}"


class Mutants:
    """Collects every mutant of one source file in `found`."""

    def __init__(self, path: Path) -> None:
        self._path, self._text = path, path.read_bytes()
        self._starts = [0]
        for line in self._text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.found: list[Mutant] = []
        self._visit(ast.parse(self._text), None)

    def _span(self, node: Any) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _code(self, node: Any) -> str:
        return self._text[slice(*self._span(node))].decode()

    def _replace(self, node: Any, kind: str, *new: str) -> None:
        self.found.extend(Mutant(self._path, node.lineno, *self._span(node), text, kind) for text in new)

    def _between(self, left: Any, right: Any, kind: str, sign: re.Pattern[str], swaps: dict[str, list[str]]) -> None:
        """Replace the operator that stands between two operands."""
        start = self._span(left)[1]
        match = sign.search(self._text[start : self._span(right)[0]].decode())
        if match:
            line = left.end_lineno + match.string.count("\n", 0, match.start())
            span = start + match.start(), start + match.end()
            self.found.extend(Mutant(self._path, line, *span, new, kind) for new in swaps.get(match[0], []))

    def _visit(self, node: ast.AST, returns: str | None) -> None:
        """Mutate a node and all below it; `returns` is the declared type of the function around, None outside one."""
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Expr(value=ast.Constant()) | ast.JoinedStr():
                return
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name))) if name in UNTOUCHED:
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                returns = ast.unparse(node.returns) if node.returns else ""
        self._mutate(node, returns)
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "bases"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self._visit(child, returns)

    def _mutate(self, node: ast.AST, returns: str | None) -> None:
        match node:
            case ast.Compare():
                for left, right in zip([node.left, *node.comparators], node.comparators):
                    self._between(left, right, "comparison", COMPARISON, COMPARED)
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:]):
                    swaps = {"and": ["or"], "or": ["and"]}
                    self._between(left, right, "and/or", re.compile(r"\b(and|or)\b"), swaps)
            case ast.UnaryOp(op=ast.Not()):
                self._replace(node, "not", f"({self._code(node.operand)})")
            case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
                self._replace(test, "not", f"(not {self._code(test)})")
            case ast.IfExp(test=ast.Name() | ast.Attribute() | ast.Call() as test):
                self._replace(test, "not", f"(not {self._code(test)})")
            case ast.Constant(value=bool()):
                self._replace(node, "constant", str(not node.value))
            case ast.Constant(value=int() | float() as value):
                self._replace(node, "constant", repr(value + 1), f"({value - 1!r})")
            case ast.BinOp() if returns is not None:  # outside functions `|` joins types
                self._between(node.left, node.right, "arithmetic", ARITHMETIC, COMPUTED)
            case ast.AugAssign():
                self._between(node.target, node.value, "arithmetic", re.compile(ARITHMETIC.pattern + "="), COMPUTED)
            case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "0", "0.0", "False"):
                self._replace(value, "return", NOTHING.get(returns or "", "None"))
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in UNWRAPPED:
                if not isinstance(first, ast.Starred | ast.GeneratorExp):
                    self._replace(node, "call", f"({self._code(first)})")
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in UNWRAPPED_METHODS:
                self._replace(node, "call", self._code(value))
        match node:  # names bound by an assignment stay: without them every test fails
            case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                self._replace(node, "statement", "pass")
            case ast.Expr(value=ast.Call(func=func)) if (
                returns is not None and ast.unparse(func).split(".")[0] not in UNTOUCHED
            ):
                self._replace(node, "statement", "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                self._replace(node, "statement", "pass")
