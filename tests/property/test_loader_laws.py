"""Whatever the bytes of a file are, loading it ends in documents or in errors of ours, and soon."""

import io
import random
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.ingest.loaded_document import LoadedDocument, Skipped, page_at
from context_engine.ingest.loaders import LOADERS, load
from context_engine.ingest.loaders.source_file import EMPTY
from tests.outlook_file import compound_file, outlook_message

DOCUMENTS = Path(__file__).parents[1] / "data" / "documents"
REAL = {path.suffix: path.read_bytes() for path in DOCUMENTS.iterdir() if path.suffix in LOADERS}
REAL[".md"] = b"---\nversion: '3.2'\n---\n# 1 Scope\n\nVersion: 3.2\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
REAL[".json"] = b'{"as_of": "2026-01-31", "items": [{"entity_id": "A", "limits": [{"amount": 5}]}, {"id": 7}]}'
REAL[".jsonl"] = b'{"entity_id": "A", "desk": "Rates"}\n{"entity_id": "B", "limit": [1, {"x": null}]}\n'
REAL[".msg"] = compound_file(
    outlook_message(
        {0x0037: "Limits", 0x1000: "Cash costs 5 USD."},
        data={0x1013: b"<p>Cash <b>costs</b> 5 USD.</p>"},
        attachments=[outlook_message({0x3707: "a.txt"}, data={0x3701: b"words"}, head=8)],
    )
)
_TAGS = "div p table tr td th ul ol li b pre h1 h2 br nav dl dt dd main"
TAGS = _TAGS.split()
MOST_SECONDS = 20  # of CPU time for a file of a few kilobytes: no law of speed, but of ending
FEW = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["set", "cut", "copy", "insert", "number"]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=8,
)


def mutated(data, edits):
    """Return bytes with single bytes, ranges and numbers changed."""
    out = bytearray(data)
    for kind, where, length, value in edits:
        if not out:
            break
        at = int(where * (len(out) - 1))
        size = 1 + int(length * min(200, len(out) - at - 1))
        if kind == "set":
            out[at] = value
        elif kind == "cut":
            del out[at : at + size]
        elif kind == "copy":
            out[at:at] = out[at : at + size] * (1 + value % 20)
        elif kind == "insert":
            out[at:at] = bytes([value]) * size
        else:
            digit = next((index for index in range(at, len(out)) if 48 <= out[index] <= 57), None)
            if digit is not None:
                out[digit : digit + 1] = str(10 ** (value % 12)).encode()
    return bytes(out)


def rezipped(data, edits, pick):
    """Return a zip archive in which one part is mutated and its checksum is right again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        names = [name for name in source.namelist() if name.endswith((".xml", ".rels"))]
        chosen = names[pick % len(names)]
        for name in source.namelist():
            part = source.read(name)
            target.writestr(name, mutated(part, edits) if name == chosen else part)
    return out.getvalue()


NOTHING_THERE = ("hidden", "has no text", "holds no record", "no cell with a value", "gives no passage")


def check(folder, suffix, data):
    path = folder / f"a{suffix}"
    path.write_bytes(data)
    start = time.process_time()
    found = list(load(path, folder))
    assert time.process_time() - start < MOST_SECONDS
    assert found or suffix in (".csv", ".jsonl"), "nothing was said about the file"
    read_or_error = any(isinstance(one, LoadedDocument) or one.error for one in found)
    reasons = [one.reason for one in found if isinstance(one, Skipped)]
    nothing_there = all(reason == EMPTY or any(words in reason for words in NOTHING_THERE) for reason in reasons)
    assert read_or_error or nothing_there, "a line that is no error stands beside what was read"
    for one in found:
        assert isinstance(one, (LoadedDocument, Skipped))
        if isinstance(one, LoadedDocument):
            assert one.text.strip()
            one.text.encode()
            assert list(one.pages) == sorted(one.pages)
            assert all(0 <= start <= len(one.text) for start, _ in one.pages)
        else:
            assert len(str(one)) < (11_000 if "set aside" in str(one) or "hidden text" in str(one) else 600), (
                "what is set aside is quoted"
            )
            assert "\n" not in one.reason


@pytest.mark.parametrize("suffix", sorted(REAL))
@FEW
@given(edits=EDITS)
def test_real_files_with_bytes_changed(tmp_path, suffix, edits):
    check(tmp_path, suffix, mutated(REAL[suffix], edits))


@pytest.mark.parametrize("suffix", [".docx", ".xlsx"])
@settings(FEW, max_examples=10)
@given(edits=EDITS, pick=st.integers(0, 1_000))
def test_office_files_with_the_xml_of_a_part_changed(tmp_path, suffix, edits, pick):
    check(tmp_path, suffix, rezipped(REAL[suffix], edits, pick))


@pytest.mark.parametrize("suffix", sorted(LOADERS))
@settings(FEW, max_examples=8)
@given(data=st.binary(min_size=1, max_size=400))
def test_bytes_that_are_no_file_at_all(tmp_path, suffix, data):
    check(tmp_path, suffix, data)


@FEW
@given(
    rows=st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=5), max_size=8),
    sign=st.sampled_from(",;\t|"),
)
def test_rows_of_any_text(tmp_path, rows, sign):
    text = "\n".join(sign.join(f'"{cell}"' if '"' not in cell else cell for cell in row) for row in rows)
    check(tmp_path, ".csv", text.encode() or b"\n")


@FEW
@given(tags=st.lists(st.sampled_from(TAGS), max_size=40))
def test_tags_in_any_order(tmp_path, tags):
    rng = random.Random(len(tags))
    check(
        tmp_path,
        ".html",
        "".join(f"<{rng.choice(['', '/'])}{tag}> word{n} " for n, tag in enumerate(tags)).encode() + b".",
    )


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20), data=st.data())
def test_every_character_stands_on_one_page(sizes, data):
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    pages = tuple(zip(starts, range(1, len(sizes) + 1)))
    offset = data.draw(st.integers(0, sum(sizes) - 1))
    page = page_at(pages, offset)
    assert starts[page - 1] <= offset < starts[page - 1] + sizes[page - 1]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", sorted(REAL))
@settings(FEW, max_examples=150)
@given(edits=EDITS, pick=st.integers(0, 1_000), inside=st.booleans())
def test_real_files_changed_many_times(tmp_path, suffix, edits, pick, inside):
    office = suffix in (".docx", ".xlsx") and inside
    check(tmp_path, suffix, rezipped(REAL[suffix], edits, pick) if office else mutated(REAL[suffix], edits))
