"""JSON: arrays, envelopes, single records, records by line."""

import json

import pytest

from context_engine.ingest import LoadedDocument

TWO = [{"entity_id": "A", "desk": "Rates"}, {"entity_id": "B", "desk": "Credit"}]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(TWO),
        json.dumps({"as_of": "2026-01-31", "items": TWO}),
        "\n".join(map(json.dumps, TWO)),
        json.dumps(TWO, indent=2).encode("utf-16"),
    ],
)
def test_records(read, content):
    found = read(content, "a.json")
    assert [(one.line, one.text) for one in found] == [(1, "A\ndesk: Rates"), (2, "B\ndesk: Credit")]


def test_an_object_is_one_record(one):
    loaded = one('{"id": 7, "limits": [{"kind": "spot", "amount": 5}]}', "a.json")
    assert loaded.text == "7\nid: 7\nlimits 1 kind: spot\nlimits 1 amount: 5"


def test_an_element_that_is_no_record_is_an_error_of_its_own(read):
    first, second, third = read('[{"id": 1, "a": 2}, 3, {"id": 4, "a": 5}]', "a.json")
    assert (first.line, third.line) == (1, 3)
    assert (second.line, second.reason) == (2, "the record is not an object with fields")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": 1,}', "the file is not JSON"),
        ('[{"a": 1}, {"b"', "the file is not JSON"),
        ("[]", "holds no record"),
        ("{}", "the record is not an object with fields"),
        ("5", "the record is not an object with fields"),
        ('{"a": NaN}', "the file is not JSON: NaN is no JSON number"),
        ("   ", "is empty"),
    ],
)
def test_what_holds_no_record(refused, content, says):
    assert refused(content, "a.json").startswith(says)


def test_a_line_without_end_is_no_record_file(refused):
    assert refused(b"x" * (17 << 20), "a.jsonl").startswith("has a line of over 16,777,216 characters")


def test_lines_are_read_in_any_encoding(read):
    (loaded,) = read('{"entity_id": "A", "name": "Zürich"}\r\n'.encode("utf-16"), "a.jsonl")
    assert isinstance(loaded, LoadedDocument)
    assert loaded.fields["name"] == "Zürich"
