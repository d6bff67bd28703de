"""Globs, and which source takes a file."""

import pytest

from context_engine.ingest.rules import assigned, matches


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("a.md", "*.md", True),
        ("npa/a.md", "*.md", False),
        ("npa/a.md", "npa/*.md", True),
        ("npa/sops/a.md", "npa/*.md", False),
        ("npa/a.md", "npa/**/*.md", True),
        ("npa/x/y/a.md", "npa/**/*.md", True),
        ("npa/x/y/a.md", "**/*.md", True),
        ("a.md", "**/*.md", True),
        ("npa/x/y/a.md", "npa/**", True),
        ("npa/a1.md", "npa/a?.md", True),
        ("npa/a12.md", "npa/a?.md", False),
        ("npa/a+b.md", "npa/a+b.md", True),
        ("npa/aab.md", "npa/a+b.md", False),
        ("npa/a.md", "./npa/*.md", True),
        ("npa/a.markdown", "npa/*.md", False),
    ],
)
def test_matches(path, glob, expected):
    assert matches(path, glob) is expected


def test_the_first_rule_of_a_source_counts_and_every_source_that_includes_a_file_takes_it(source):
    one = source({"npa/templates/*.md": "template_document", "npa/**/*.md": "sop_document"}, "one")
    two = source({"**/*.md": "default"}, "two")
    three = source({"orm/*.md": "default"}, "three")
    found = list(assigned(["npa/templates/a.md"], [one, two, three]))
    assert [(item.source_id, item.rule.doc_type) for item in found] == [
        ("one", "template_document"),
        ("two", "default"),
    ]


def test_a_file_goes_by_the_first_of_its_names_that_matches(source):
    (found,) = assigned(["a.md", "sops/a.md", "npa/sops/a.md"], [source({"npa/*/*.md": "sop_document"})])
    assert found.path == "npa/sops/a.md"
