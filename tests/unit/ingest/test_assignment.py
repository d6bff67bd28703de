"""Globs, and which source takes a file."""

import pytest
from pydantic import ValidationError

from context_engine.ingest import ingest
from context_engine.ingest.assignment import assign, matches


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
    found = list(assign(["npa/templates/a.md"], [one, two, three]))
    assert [(item.source_id, item.rule.doc_type) for item in found] == [
        ("one", "template_document"),
        ("two", "default"),
    ]


def test_a_file_goes_by_the_first_of_its_names_that_matches(source):
    (found,) = assign(["a.md", "sops/a.md", "npa/sops/a.md"], [source({"npa/*/*.md": "sop_document"})])
    assert found.path == "npa/sops/a.md"


def test_a_rule_for_the_rest_takes_what_no_other_rule_of_any_source_includes(source):
    rest = source({"**/*": "default"}, "web", "general_web", otherwise=True)
    sops = source({"sops/*.md": "sop_document"}, "sops")
    assert [found.source_id for found in assign(["sops/a.md"], [rest, sops])] == ["sops"]
    (found,) = assign(["notes/a.md"], [rest, sops])
    assert (found.source_id, found.rule.doc_type, found.rule.tier) == ("web", "default", 5)


def test_a_rule_may_lower_authority_and_never_raise_it(source):
    (lower,) = source({"drafts/*.md": "default"}, tier=4).documents
    assert lower.tier == 4
    with pytest.raises(ValidationError, match="a rule may lower authority, never raise it"):
        source({"drafts/*.md": "default"}, tier=1)


@pytest.mark.parametrize(("claimed", "ruled", "counts"), [(None, 4, 4), (3, 4, 4), (5, 4, 5), (3, None, 3)])
def test_front_matter_may_only_lower_what_the_rule_gives(folder, source, sink, claimed, ruled, counts):
    front = f"---\nauthority_tier: {claimed}\n---\n" if claimed else ""
    ingest(folder({"a.md": f"{front}Text."}), source({"*.md": "default"}, tier=ruled), sink)
    (chunk,) = sink.chunks("a")
    assert chunk.authority_tier == counts
