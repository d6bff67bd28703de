from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from context_engine.core.models import SearchResult
from context_engine.core.policy.tag_forms import read_tagged
from context_engine.errors import InvalidRequest

TAG = {
    "source_id": "s",
    "source_type": "bank_sop",
    "authority_tier": 2,
    "trust_class": "TRUSTED",
    "fetched_at": "2026-01-01T00:00:00Z",
    "ttl_seconds": 60,
    "extra": {"chunk_id": "c", "rag_score": 0.5},
}
CHUNK = {"content": "A rule.", "_provenance": TAG}
FLAT = {**{key: value for key, value in TAG.items() if key != "extra"}, "chunk_id": "c", "rag_score": 0.5}


@pytest.mark.parametrize(
    "data",
    [
        [CHUNK],
        CHUNK,
        {"chunks": [CHUNK]},
        {"records": [CHUNK]},
        {"result": [CHUNK]},
        {"text": "", "files": [], "json": [{"chunks": [CHUNK]}]},
        {"outputs": {"result": [CHUNK]}},
        {"result": json.dumps([CHUNK])},
        [{"chunks": [CHUNK]}],
        {"result": [{"content": "A rule.", "metadata": {"_provenance": TAG}}]},
        {"result": [{"content": "A rule.", "metadata": {"_provenance": json.dumps(TAG)}}]},
        {"result": [{"content": "A rule.", "metadata": {"score": 0.9, "doc_metadata": {"_provenance": TAG}}}]},
    ],
)
def test_every_form_gives_the_text_and_its_whole_tag(data: Any) -> None:
    (text,) = read_tagged(data).texts
    assert (text.content, text.tag) == ("A rule.", TAG)


@pytest.mark.parametrize("prefix", ["", "_provenance.", "_provenance_", "provenance_"])
@pytest.mark.parametrize("at", ["metadata", "doc_metadata"])
def test_a_tag_spread_out_over_the_metadata_is_gathered(prefix: str, at: str) -> None:
    spread = {f"{prefix}{key}": value for key, value in FLAT.items()}
    metadata = spread if at == "metadata" else {"doc_metadata": spread}
    (text,) = read_tagged({"result": [{"content": "A rule.", "metadata": metadata}]}).texts
    assert text.tag == TAG


def test_numbers_of_a_spread_out_tag_may_be_text_and_extra_may_be_json() -> None:
    spread = {**TAG, "authority_tier": "2", "ttl_seconds": "60", "extra": json.dumps(TAG["extra"])}
    (text,) = read_tagged([{"content": "A rule.", "metadata": spread}]).texts
    assert text.tag == TAG


def test_the_nearest_tag_counts() -> None:
    (text,) = read_tagged([{**CHUNK, "metadata": {"_provenance": {"source_id": "other"}}}]).texts
    assert text.tag == TAG


def test_without_a_tag_there_is_none() -> None:
    assert read_tagged([{"content": "A rule."}]).texts[0].tag is None


def test_a_tag_that_is_no_mapping_is_an_empty_one() -> None:
    assert read_tagged([{"content": "A rule.", "_provenance": "yes"}]).texts[0].tag == {}


def test_the_settings_of_a_result_are_read(ask: Callable[..., SearchResult], chunk_of: Callable[..., Any]) -> None:
    published = ask([(2, [chunk_of("a", 0.9)])], relevance_weight=0.5, authority_weight=0.5).to_dict()
    reading = read_tagged(json.loads(json.dumps(published)))
    assert reading.settings_known
    assert (reading.settings.relevance_weight, reading.settings.authority_weight) == (0.5, 0.5)
    assert not read_tagged(published["chunks"]).settings_known


def test_an_empty_answer_has_no_texts() -> None:
    assert read_tagged({"chunks": []}).texts == read_tagged([]).texts == ()


@pytest.mark.parametrize("data", [None, 3, "text", {}, {"answer": "42"}, [1, 2], {"result": {"a": 1}}])
def test_what_holds_no_texts_is_refused(data: Any) -> None:
    with pytest.raises(InvalidRequest, match="holds no chunks"):
        read_tagged(data)


def test_settings_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="settings"):
        read_tagged({"chunks": [CHUNK], "settings": {"relevance_weight": {"value": 7}}})


def test_nesting_without_end_is_refused() -> None:
    data: Any = [CHUNK]
    for _ in range(50):
        data = {"outputs": data}
    with pytest.raises(InvalidRequest, match="holds no chunks"):
        read_tagged(data)


@pytest.mark.parametrize("data", [TAG, [TAG], {"_provenance": TAG}, {"outputs": TAG}])
def test_a_tag_alone_is_read_and_its_text_is_not_at_hand(data: Any) -> None:
    (text,) = read_tagged(data).texts
    assert (text.content, text.tag, text.tag_alone) == (None, TAG, True)


def test_chunks_are_looked_for_six_levels_down() -> None:
    data: Any = [CHUNK]
    for _ in range(6):
        data = {"outputs": data}
    assert read_tagged(data).texts[0].tag == TAG
    with pytest.raises(InvalidRequest, match="holds no chunks"):
        read_tagged({"outputs": data})


def test_five_of_the_seven_keys_make_a_mapping_a_tag() -> None:
    five = {key: TAG[key] for key in list(TAG)[:5]}
    assert read_tagged(five).texts[0].tag == five
    with pytest.raises(InvalidRequest, match="holds no chunks"):
        read_tagged({key: TAG[key] for key in list(TAG)[:4]})


def test_of_several_answers_the_first_with_texts_counts() -> None:
    """An answer without texts but with settings does not; of none with texts the first does."""
    empty = {"chunks": [], "settings": {"relevance_weight": {"value": 0.5}, "authority_weight": {"value": 0.5}}}
    assert read_tagged([empty, [CHUNK]]).texts[0].tag == TAG
    assert read_tagged([empty, {"chunks": []}]).settings_known


@pytest.mark.parametrize("holder", ["chunks", "result", "records", "json", "outputs", "output", "data", "body"])
def test_chunks_may_stand_under_each_name_of_a_nodes_output(holder: str) -> None:
    assert read_tagged({holder: [CHUNK]}).texts[0].tag == TAG


def test_lists_count_as_levels() -> None:
    data: Any = [CHUNK]
    for _ in range(6):
        data = [data]
    assert read_tagged(data).texts[0].tag == TAG
    with pytest.raises(InvalidRequest, match="holds no chunks"):
        read_tagged([data])


@pytest.mark.parametrize("prefix", ["extra.", "extra_", ""])
def test_other_keys_of_a_spread_out_tag_are_its_extra(prefix: str) -> None:
    spread = {key: value for key, value in TAG.items() if key != "extra"}
    spread |= {f"{prefix}chunk_id": "c", f"{prefix}rag_score": 0.5}
    assert read_tagged([{"content": "A rule.", "metadata": spread}]).texts[0].tag == TAG


@pytest.mark.parametrize("missing", ["source_type", "fetched_at"])
def test_metadata_without_a_type_or_a_time_of_fetching_is_no_tag(missing: str) -> None:
    spread = {key: value for key, value in FLAT.items() if key != missing}
    assert read_tagged([{"content": "A rule.", "metadata": spread}]).texts[0].tag is None
