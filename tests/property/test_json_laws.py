"""However a JSON text is cut into blocks, what is read of it is what the standard library reads as a whole."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders.json_file import load_json
from context_engine.ingest.loaders.json_stream import JsonReader, JsonStream
from context_engine.ingest.loaders.source_file import SourceFile

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.lists(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), VALUES, max_size=4))


def texts(value):
    return st.sampled_from(
        [json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2), json.dumps(value, separators=(",", ":"))]
    )


@given(data=st.data(), value=st.lists(VALUES, max_size=6), block=st.integers(1, 40))
def test_a_list_read_piece_by_piece_is_the_list(data, value, block):
    text = data.draw(texts(value))
    stream = JsonStream(io.StringIO(text), block=block)
    assert stream.sign() == "["
    assert list(stream.elements()) == json.loads(text)
    assert (stream.sign(), stream.taken) == ("", len(text))


def test_a_number_cut_behind_its_point_or_its_exponent_is_one_number():
    for cut in range(1, len("[12.5e-3,7]")):
        stream = JsonStream(io.StringIO("[12.5e-3,7]"), block=cut)
        assert stream.sign() == "["
        assert list(stream.elements()) == [0.0125, 7]


@given(data=st.data(), value=st.dictionaries(st.text(max_size=5), VALUES, max_size=6), block=st.integers(1, 40))
def test_an_object_read_member_by_member_is_the_object(data, value, block):
    text = data.draw(texts(value))
    stream = JsonStream(io.StringIO(text), block=block)
    assert stream.sign() == "{"
    assert {key: stream.value() for key in stream.members()} == json.loads(text)


@given(value=VALUES)
def test_a_value_alone_keeps_its_types(value):
    text = json.dumps(value)
    found = JsonReader().read(text)
    assert (found.end, found.repairs) == (len(text), ())
    assert json.dumps(found.value) == text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


@given(records=RECORDS, block=st.integers(1, 64))
def test_the_records_of_a_file_do_not_depend_on_how_it_is_read(folder, records, block):
    (folder / "a.json").write_text(json.dumps(records), encoding="utf-8")
    found = list(load_json(SourceFile(folder / "a.json", "a.json"), block=block))
    read = [dict(one.fields) for one in found if isinstance(one, LoadedDocument)]
    whole = json.loads(json.dumps(records))
    assert read == [one for one in whole if one in read]
    assert len(found) == max(len(records), 1), "a record, or a line that says why it is none"
