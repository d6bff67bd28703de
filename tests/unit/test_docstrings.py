"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import context_engine

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(context_engine.__path__, "context_engine.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
