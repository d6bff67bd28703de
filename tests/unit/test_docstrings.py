"""The examples in docstrings are true, and a text about a constant stands directly below it."""

import ast
import doctest
import importlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

import context_engine

ROOT = Path(context_engine.__file__).parent
MODULES = sorted(
    ".".join(("context_engine", *file.relative_to(ROOT).with_suffix("").parts))
    for file in ROOT.rglob("*.py")
    if re.search(r"^\s*>>> ", file.read_text("utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried > 0


@pytest.mark.slow
def test_a_text_in_a_module_follows_the_constant_that_it_is_about():
    apart = []
    for file in sorted(ROOT.rglob("*.py")):
        statements = ast.parse(file.read_text("utf-8")).body
        for before, text in pairwise(statements):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                constant = isinstance(before, ast.Assign | ast.AnnAssign)
                if not constant or text.lineno != (before.end_lineno or 0) + 1:
                    apart.append(f"{file.relative_to(ROOT)}:{text.lineno}")
    assert apart == []
