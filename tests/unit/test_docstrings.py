"""The examples in docstrings are true."""

import doctest
import importlib
import re
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
