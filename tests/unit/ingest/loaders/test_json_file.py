"""JSON: lists, envelopes, objects of like objects, single records, records by line; each read piece by piece."""

import json
import subprocess
import sys

import pytest

from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.json_file import load_json
from context_engine.ingest.loaders.source_file import SourceFile

TWO = [{"entity_id": "A", "desk": "Rates"}, {"entity_id": "B", "desk": "Credit"}]


@pytest.fixture
def pieces(folder):
    """Read a JSON file in small blocks, holding no value longer than `most`."""

    def run(content, most=1_000, block=16):
        root = folder({"a.json": content})
        return list(load_json(SourceFile(root / "a.json", "a.json"), most=most, block=block))

    return run


@pytest.mark.parametrize(
    "content", [json.dumps(TWO), "\n".join(map(json.dumps, TWO)), json.dumps(TWO, indent=2).encode("utf-16")]
)
def test_records(read, content):
    found = read(content, "a.json")
    assert [(one.line, one.text) for one in found] == [(1, "A\ndesk: Rates"), (2, "B\ndesk: Credit")]


def test_what_stands_beside_the_one_list_of_an_object_is_a_record_of_its_own(read):
    found = read(json.dumps({"as_of": "2026-01-31", "items": TWO, "unit": "USD m"}), "a.json")
    assert [(one.line, one.stem, one.text) for one in found] == [
        (1, "a:1", "A\ndesk: Rates"),
        (2, "a:2", "B\ndesk: Credit"),
        (None, "a", "as of: 2026-01-31\nunit: USD m"),
    ]


def test_an_object_is_one_record(one):
    loaded = one('{"id": 7, "limits": [{"kind": "spot", "amount": 5}]}', "a.json")
    assert loaded.text == "7\nid: 7\nlimits 1 kind: spot\nlimits 1 amount: 5"


def test_an_object_of_like_objects_is_a_list_and_the_key_is_the_id_of_a_record_without_one(read):
    accounts = {"ACC-1": {"desk": "Rates", "limit": 5}, "ACC-2": {"desk": "Credit"}, "ACC-3": {"id": "X", "desk": "FX"}}
    first, second, third = read(json.dumps(accounts), "a.json")
    assert first.fields == {"entity_id": "ACC-1", "desk": "Rates", "limit": 5}
    assert (first.text, first.line) == ("ACC-1\ndesk: Rates\nlimit: 5", 1)
    assert second.fields == {"entity_id": "ACC-2", "desk": "Credit"}
    assert third.fields == {"key": "ACC-3", "id": "X", "desk": "FX"}, "the key is not lost beside an id"


@pytest.mark.parametrize(
    "value",
    [
        {"server": {"port": 1, "host": "a"}, "log": {"level": "b", "file": "c"}},  # 4 of 8 cells: not alike
        {"only": {"port": 1}},
        {"name": "Harbour", "address": {"city": "Aldermere"}},
        {"borrower": {"name": "A"}, "terms": [{"name": "B"}]},
    ],
)
def test_any_other_object_is_one_record(one, value):
    assert one(json.dumps(value), "a.json").fields == value


def test_a_flat_object_of_many_keys_is_one_record(one):
    fields = {f"key_{number}": number for number in range(2_000)}
    assert one(json.dumps(fields), "a.json").fields == fields


def test_an_object_too_long_to_be_held_is_cut_between_its_fields(pieces):
    fields = {f"key_{number}": "x" * 80 for number in range(30)}  # 30 fields of 88 characters and more
    accounts = [{"id": number, "desk": "Rates"} for number in range(40)]
    found = pieces(json.dumps({**fields, "accounts": accounts, "note": "y"}))
    assert [one for one in found if isinstance(one, Skipped)] == []
    listed = [one.fields for one in found if "id" in one.fields]
    assert listed == accounts
    rest = [one for one in found if "id" not in one.fields]
    assert len(rest) == 3
    assert {key: value for one in rest for key, value in one.fields.items()} == {**fields, "note": "y"}
    assert len({one.stem for one in found}) == len(found)


def test_a_record_too_long_to_be_held_is_an_error_of_its_own(pieces):
    first, second, third = pieces(json.dumps([{"a": 1}, {"b": "x" * 2_000}, {"c": '}"\\'}]))
    assert (first.fields, third.fields) == ({"a": 1}, {"c": '}"\\'})
    assert (second.line, second.reason) == (2, "the record has over 1,000 characters")


def test_an_element_that_is_no_record_is_an_error_of_its_own(read):
    first, second, third = read('[{"id": 1, "a": 2}, 3, {"id": 4, "a": 5}]', "a.json")
    assert (first.line, third.line) == (1, 3)
    assert (second.line, second.reason) == (2, "the record is not an object with fields")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"a": 1 "b": 2}', "the record is not JSON: Expecting ',' delimiter (line 2)"),
        ("{'a': 1}", "the record is not JSON: Expecting property name enclosed in double quotes (line 2)"),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "the record is nested too deep"),
        ("[" * 5_000 + "]" * 5_000, "the record is nested too deep"),
        ("nope", "the record is not JSON: Expecting value (line 2)"),
    ],
)
@pytest.mark.usefixtures("collector_off")
def test_an_element_that_cannot_be_read_leaves_the_others_unharmed(read, bad, says):
    first, second, third = read(f'[{{"id": 1}},\n{bad},\n{{"id": 3}}]', "a.json")
    assert (first.fields, third.fields) == ({"id": 1}, {"id": 3})
    assert (second.line, second.reason) == (2, says)


@pytest.mark.parametrize(
    ("given", "fields", "says"),
    [
        ('{"a": 1, "a": 2}', {"a": 1, "a (2)": 2}, "the key 'a' appears twice in an object: both values are kept"),
        ('{"a": NaN}', {"a": "NaN"}, "NaN is not a JSON number: kept as text"),
        ('{"a": -Infinity}', {"a": "-Infinity"}, "-Infinity is not a JSON number: kept as text"),
        ('{"a": 1e400}', {"a": "1e400"}, "1e400 is too large for a number: kept as text"),
        ('{"a": ' + "9" * 5_000 + "}", {"a": "9" * 5_000}, f"{'9' * 40}… is too large for a number: kept as text"),
        (
            '{"a": "x\\ud800", "\\udc00": 1}',
            {"a": "x\ufffd", "\ufffd": 1},
            "a lone surrogate (\\ud800-\\udfff), which is not a character, became U+FFFD",
        ),
    ],
)
@pytest.mark.wording
def test_what_is_no_json_to_the_letter_is_read_and_said(read, given, fields, says):
    first, second = read(f'[{{"id": 0}}, {given}]', "a.json")
    assert (dict(first.fields), dict(second.fields)) == ({"id": 0}, fields)
    assert second.warnings == (f"record 2: {says}",)
    (line,) = read(given, "b.jsonl")
    assert (dict(line.fields), line.warnings) == (fields, (f"line 1: {says}",))


def test_a_pair_of_surrogates_is_a_character_and_numbers_are_exact(one):
    loaded = one('{"a": "\\ud83d\\ude00", "b": 12345678901234567890123, "c": 0.1, "d": 1E5, "e": -0}', "a.json")
    assert loaded.fields == {"a": "😀", "b": 12345678901234567890123, "c": 0.1, "d": 100000.0, "e": 0}
    assert [type(value) for value in loaded.fields.values()] == [str, int, float, float, int]
    assert loaded.warnings == ()


@pytest.mark.wording
def test_the_same_is_said_once_and_very_much_is_counted(read):
    content = json.dumps([{"a": "NUMBER"} for _ in range(50)]).replace('"NUMBER"', "NaN")
    found = read(content, "a.json")
    assert len(found) == 50
    assert sum(len(one.warnings) for one in found) == 21
    assert found[-1].warnings[-1] == "and 30 more of such lines"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": 1,}', "the file is not JSON"),
        ('{"a"', "the file is not JSON"),
        ('{"a": 1', "the file is not JSON"),
        ("{}", "the record is not an object with fields"),
        ("5", "the record is not an object with fields"),
        ("nope", "the file is not JSON: Expecting value (line 1)"),
    ],
)
def test_what_holds_no_record(refused, content, says):
    assert refused(content, "a.json").startswith(says)


@pytest.mark.parametrize(("content", "says"), [("[]", "holds no record"), ("   ", "is empty")])
def test_a_list_of_nothing_was_read(empty, content, says):
    assert empty(content, "a.json") == says


@pytest.mark.parametrize("start", ["[", '{"as_of": 1, "items": ['])
def test_records_before_the_end_of_a_file_that_is_cut_off_are_read(read, start):
    first, cut = read(start + '{"a": 1},\n{"b', "a.json")
    assert first.fields == {"a": 1}
    assert cut.reason.startswith("the file is not JSON: Unterminated string")
    assert cut.reason.endswith("(line 2): nothing is read after record 1")


def test_what_follows_the_first_value_is_said(read):
    first, said = read('[{"a": 1}] [{"a": 2}]', "a.json")
    assert first.fields == {"a": 1}
    reason = "the file has more text after its first value, which is not JSON: nothing is read after record 1"
    assert said.reason == reason


def test_a_line_without_end_is_no_record_file(refused):
    assert refused(b"x" * (17 << 20), "a.jsonl").startswith("has a line of over 16,777,216 characters")


def test_lines_are_read_in_any_encoding(read):
    (loaded,) = read('{"entity_id": "A", "name": "Zürich"}\r\n'.encode("utf-16"), "a.jsonl")
    assert isinstance(loaded, LoadedDocument)
    assert loaded.fields["name"] == "Zürich"


def test_a_list_of_records_may_be_larger_than_a_document(read):
    content = json.dumps(TWO)
    assert len(read(content, "a.json", most_bytes=4)) == 2


MEASURE = """
import resource, sys
from pathlib import Path
from context_engine.ingest.loaders import load
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in load(path, path.parent))
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
def test_a_quarter_of_a_million_objects_are_read_in_little_memory(tmp_path):
    path = tmp_path / "accounts.json"
    with path.open("w") as file:
        for number in range(250_000):
            file.write(("," if number else "[") + f'{{"entity_id": "AC-{number}", "limit": {number / 7}}}')
        file.write("]")
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    count, grown_mb = map(int, done.stdout.split())
    assert count == 250_000
    assert grown_mb < 100  # 25 in blocks, 195 where every record is kept
