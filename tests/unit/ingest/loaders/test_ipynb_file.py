"""Notebooks: texts and code in order, outputs left out."""

import json

import pytest


def notebook(*cells, **more):
    return json.dumps({"cells": list(cells), "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, **more})


@pytest.mark.wording
def test_texts_and_code_are_read_in_order(one):
    cells = [
        {"cell_type": "markdown", "source": ["# Limit model\n", "\n", "Cash costs 5 USD."]},
        {"cell_type": "code", "source": "x = 5\nprint(x)", "outputs": [{"text": ["secret"]}]},
        {"cell_type": "code", "source": [], "outputs": []},
        {"cell_type": "code", "source": 'y = """```"""', "outputs": []},
    ]
    loaded = one(notebook(*cells), "a.ipynb")
    assert loaded.text == (
        '# Limit model\n\nCash costs 5 USD.\n\n```python\nx = 5\nprint(x)\n```\n\n````python\ny = """```"""\n````'
    )
    assert loaded.warnings == ("outputs of code are not read: 1",)


def test_the_older_format(one):
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Fees"},
        {"cell_type": "code", "input": ["x = 5"], "language": "python"},
    ]
    assert one(json.dumps({"worksheets": [{"cells": cells}]}), "a.ipynb").text == "## Fees\n\n```\nx = 5\n```"


@pytest.mark.usefixtures("collector_off")
def test_what_is_no_notebook(refused, empty):
    assert refused('{"a": 1}', "a.ipynb") == "is JSON, but no notebook: it has no list of cells"
    assert refused("[1]", "a.ipynb").startswith("is JSON, but no notebook")
    assert refused("{", "a.ipynb").startswith("is not valid JSON")
    assert refused("[" * 100_000, "a.ipynb") == "is JSON nested too deeply to be a notebook"
    assert empty(notebook(), "a.ipynb") == "has no text"
