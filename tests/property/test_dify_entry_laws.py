"""Whatever JSON value stands in whichever field of an entry: a proper answer, or a refusal that names the field.

Never an internal error, and never an answer that a strict JSON reader cannot take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.apps.dify.answer import ToolOutput, search_answer
from context_engine.apps.dify.backend import Engines, answer_retrieval
from context_engine.apps.dify.catalogue import catalogue
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import ToolFailure, guarded_tool
from context_engine.apps.dify.form import flag_field, read_search_form, text_field
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.reranking import rerank_passages
from context_engine.apps.dify.tools import OpenEngine, open_engine
from context_engine.core.models import NOBODY, Caller
from context_engine.errors import ContextEngineError

TOKEN = "t" * 32
QUESTION = "What are the NPA classification criteria?"
EXAMPLES = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def nested(depth: int) -> Any:
    value: Any = "deep"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


ODD = st.sampled_from(
    [
        *(float("nan"), float("inf"), float("-inf"), -0.0, 1e308, 10**400, -(10**400), 2**63, 0, -1, 1, True, False),
        *("", " ", "\x00", "\ud800", "a\udfff", "NaN", "Infinity", "1e400", "-0", "9" * 400, "null", "[]", "{}"),
        *([], {}, [[]], [{}], {"": None}, nested(60), nested(400), None, "{" * 500, "\u202e", "x" * 20_000),
    ]
)
VALUES = ODD | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def opened(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The demo bank, open."""
    home = tmp_path_factory.mktemp("home")
    fields = {"demo_bank": True}
    env = {"HOME": str(home), "CONTEXT_ENGINE_DATA_DIR": str(demo_data)}
    one = open_engine(load_plugin(Credentials.read(fields), root=home, env=env))
    yield one
    one.engine.close()


def outcome(names: tuple[str, ...], call: Callable[[Credentials], ToolOutput]) -> None:
    """Call as a tool is called, and see that the law holds."""
    try:
        answer = guarded_tool({}, call)
    except ToolFailure as error:
        refusal(f"{error}", names)
        assert str(error).startswith(f"{type(error).__name__}: ")
        return
    strict([answer.text, answer.json, answer.variables])


def refusal(told: str, names: tuple[str, ...]) -> None:
    assert not told.startswith("InternalError"), told[:300]
    assert any(name in told for name in names), (names, told[:300])
    told.encode("utf-8")


def strict(value: Any) -> None:
    """What the plugin's process writes is read by a JSON reader that knows no NaN and no lone surrogate."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")


SEARCH = (
    *("query", "domain_name", "domain", "authority", "filter", "as_of", "top_k", "context_budget", "context_form"),
    *("if_source_missing", "register_required", "notice_passage", "on_behalf_of", "persona", "json_detail"),
)


@pytest.mark.slow
@pytest.mark.parametrize("field", SEARCH)
@EXAMPLES
@given(value=VALUES)
def test_the_search_tool(opened: OpenEngine, field: str, value: Any) -> None:
    fields = {"query": QUESTION, "domain_name": "NPA", field: value}

    def search(_: Credentials) -> ToolOutput:
        form = read_search_form(fields, opened.known_to(NOBODY), Caller(), NOBODY)
        return search_answer(opened.engine.search(form.request), form=form.form, notices=form.notices)

    outcome((field, "domain") if "domain" in field else (field,), search)


def node_passage(**fields: Any) -> dict[str, Any]:
    metadata = {"_source": "knowledge", "dataset_id": "d", "dataset_name": "D", "document_id": "doc"}
    metadata |= {"segment_id": "s", "segment_position": 1, "score": 0.5, "doc_metadata": {"authority_tier": 2}}
    return {"content": "A product is classified by two criteria.", "title": "T", "metadata": metadata, **fields}


def rank(opened: OpenEngine, fields: Mapping[str, Any]) -> Callable[[Credentials], ToolOutput]:
    def ranked(_: Credentials) -> ToolOutput:
        result, form = rerank_passages(fields, opened, Caller(), NOBODY, lambda *_: [(0, 0.5)])
        return search_answer(result, form=form)

    return ranked


RERANK = ("query", "passages", "domain_name", "domain", "rerank_model", "unregistered", "top_k", "context_budget")


@pytest.mark.parametrize("field", [*RERANK, "context_form", "notice_passage"])
@EXAMPLES
@given(value=VALUES)
def test_the_rerank_tool(opened: OpenEngine, field: str, value: Any) -> None:
    fields = {"query": QUESTION, "passages": [node_passage()], field: value}
    outcome((field, "domain") if "domain" in field else (field,), rank(opened, fields))


OF_PASSAGE = ("content", "title", "metadata", "_provenance", "score", "relevance_score", "scores", "source_id", "span")
OF_NODE = ("_source", "dataset_id", "document_id", "segment_id", "segment_position", "doc_metadata", "data_source_type")
OF_DOCUMENT = ("authority_tier", "effective_from", "fetched_at", "fetched_at_basis", "search_id", "notice", "sources")
OF_DICT = (
    "chunk_id",
    "authority_tier",
    "trust_class",
    "fetched_at",
    "ttl_seconds",
    "position",
    "heading_path",
    "extra",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "field"),
    [
        *(("passage", one) for one in OF_PASSAGE),
        *(("node", one) for one in OF_NODE),
        *(("document", one) for one in OF_DOCUMENT),
        *(("dict", one) for one in OF_DICT),
    ],
)
@settings(EXAMPLES, max_examples=60)
@given(value=VALUES, trusted=st.booleans())
def test_every_field_of_a_passage(opened: OpenEngine, place: str, field: str, value: Any, trusted: bool) -> None:
    passage = node_passage()
    if place == "passage":
        passage[field] = value
    elif place == "node":
        passage["metadata"][field] = value
    elif place == "document":
        passage["metadata"]["doc_metadata"] = {"authority_tier": 2, "notice": True, field: value}
        passage["metadata"]["data_source_type"] = "external" if field in ("notice", "sources") else "upload_file"
    else:
        passage = {"content": passage["content"], field: value}
    fields = {"query": QUESTION, "passages": [passage, node_passage()]}
    outcome(("passages: passage 1",), rank(opened, {**fields, "unregistered": "metadata" if trusted else None}))


@pytest.mark.parametrize("field", ["domain_name", "check_health"])
@EXAMPLES
@given(value=VALUES)
def test_the_domains_tool(opened: OpenEngine, field: str, value: Any) -> None:
    fields = {"check_health": False, field: value}

    def listed(_: Credentials) -> ToolOutput:
        flag_field(fields, "check_health", True)
        return catalogue(opened, NOBODY, text_field(fields, "domain_name"), check=False)

    outcome((field, "domain"), listed)


FORM = (
    *("dify_base_url", "dify_api_key", "ca_certificate", "proxy", "domains", "variables", "demo_bank"),
    "access_token",
)
MANIFEST = {
    "version": 1,
    "domain": "HR",
    "sources": [{"id": "hr", "type": "bank_sop", "adapter": "dify", "connection": "dify", "dataset_ids": ["x"]}],
}


@pytest.mark.parametrize("field", FORM)
@EXAMPLES
@given(value=VALUES)
def test_the_providers_form(tmp_path: Path, field: str, value: Any) -> None:
    """Every value of the form is read; nothing is asked."""
    form = {"dify_base_url": "http://127.0.0.1:9/v1", "dify_api_key": "dataset-0123", "domains": json.dumps(MANIFEST)}

    def opened_form(fields: Credentials) -> ToolOutput:
        open_engine(load_plugin(fields, root=tmp_path, env={"HOME": str(tmp_path)})).engine.close()
        return ToolOutput(text="", json={}, variables={})

    try:
        guarded_tool({**form, field: value}, opened_form)
    except ToolFailure as error:
        alias = {"demo_bank": "demo bank", "dify_base_url": "base_url", "dify_api_key": "api_key"}.get(field, field)
        refusal(str(error), (field, alias, "no domain is configured") if field == "domains" else (field, alias))


BODY = ("knowledge_id", "query", "retrieval_setting", "top_k", "score_threshold", "metadata_condition")
OF_CONDITION = ("logical_operator", "conditions", "condition", "name", "comparison_operator", "value", "values")


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    home = tmp_path_factory.mktemp("home")
    return Engines(lambda given: open_engine(load_plugin(given, root=home, env={"HOME": str(home)})))


def asked(field: str, value: Any) -> dict[str, Any]:
    setting: Any = {"top_k": 3, "score_threshold": 0.0}
    condition: Any = {"name": "version", "comparison_operator": "is", "value": "3.2"}
    if field == "values":
        condition |= {"comparison_operator": "in", "value": value}
    else:
        condition = value if field == "condition" else {**condition, **({field: value} if field in condition else {})}
    within: Any = {"logical_operator": "and", "conditions": [condition]}
    within |= {field: value} if field in within else {}
    setting |= {field: value} if field in setting else {}
    body = {"knowledge_id": "NPA", "query": QUESTION, "retrieval_setting": setting, "metadata_condition": within}
    return {**body, field: value} if field in body else body


@pytest.mark.slow
@pytest.mark.parametrize("field", [*BODY, *OF_CONDITION])
@EXAMPLES
@given(value=VALUES)
def test_the_endpoints_body(engines: Engines, field: str, value: Any) -> None:
    settings_of = {"demo_bank": True, "access_token": TOKEN}
    raw = json.dumps(asked(field, value)).encode()
    answer = answer_retrieval(settings_of, f"Bearer {TOKEN}", raw, engines.use)
    body = json.loads(answer.encoded().decode("utf-8"), parse_constant=pytest.fail)
    if answer.status == 400:
        refusal(body["error_msg"], ("metadata_condition",) if field in OF_CONDITION else (field,))
        return
    assert answer.status == 200
    for record in body["records"]:
        assert isinstance(record["metadata"], dict)
        assert "failed inside" not in record["content"], record["content"]


@pytest.mark.slow
@pytest.mark.parametrize("field", [*FORM, "notice_records", "persona"])
@EXAMPLES
@given(value=VALUES)
def test_the_endpoints_settings(engines: Engines, field: str, value: Any) -> None:
    """Settings that cannot be used are told in a record; another token than the header's lets nobody in."""
    given_settings = {"demo_bank": True, "access_token": TOKEN, field: value}
    answer = answer_retrieval(given_settings, f"Bearer {TOKEN}", json.dumps(asked("", None)).encode(), engines.use)
    body = json.loads(answer.encoded().decode("utf-8"), parse_constant=pytest.fail)
    if field == "access_token" and value != TOKEN:
        assert answer.status == 403
        return
    assert answer.status == (424 if field == "notice_records" and "error_msg" in body else 200)
    assert "failed inside" not in json.dumps(body)


@pytest.mark.parametrize("raw", [b'{"top_k": 1e400}', b"1" * 10_000, b"[" * 100_000, b"\xff\xfe", b"NaN", b'"\\ud800"'])
@pytest.mark.usefixtures("collector_off")
def test_a_body_that_is_no_object(engines: Engines, raw: bytes) -> None:
    body = b'{"knowledge_id": "NPA", "query": "q", "retrieval_setting": %s}' % raw
    answer = answer_retrieval({"demo_bank": True, "access_token": TOKEN}, f"Bearer {TOKEN}", body, engines.use)
    assert answer.status == 400
    assert any(word in answer.body["error_msg"] for word in ("body must be", "retrieval_setting", "top_k"))


@pytest.mark.parametrize(
    ("number", "shown"), [("Infinity", "inf"), ("NaN", "nan"), ("1e400", "inf"), ("9" * 5000, "inf")]
)
@pytest.mark.parametrize("field", ["top_k", "score_threshold"])
def test_a_number_that_is_none_is_named(engines: Engines, field: str, number: str, shown: str) -> None:
    body = f'{{"knowledge_id": "NPA", "query": "q", "retrieval_setting": {{"{field}": {number}}}}}'
    answer = answer_retrieval({"demo_bank": True, "access_token": TOKEN}, f"Bearer {TOKEN}", body.encode(), engines.use)
    assert answer.status == 400 and answer.body["error_msg"].endswith(f"got {shown}")
    assert answer.body["error_msg"].startswith(field)


@pytest.mark.parametrize("name", ["chunk_id", "title", "document_id"])
def test_a_passages_own_words_are_written_as_utf8(opened: OpenEngine, name: str) -> None:
    result, _ = rerank_passages(
        {"query": QUESTION, "passages": [{"content": "Criteria of NPA classification.", name: "a\udfffb"}]},
        opened,
        Caller(),
        NOBODY,
        lambda *_: (),
    )
    strict(search_answer(result).json)
    assert getattr(result.chunks[0].chunk, name) == "a?b"


def test_metadata_that_is_a_list_is_named(opened: OpenEngine) -> None:
    fields = {"query": QUESTION, "passages": [node_passage(), node_passage(metadata=[1])]}
    with pytest.raises(ContextEngineError, match="passage 2 has a 'metadata' that is not an object but list"):
        rank(opened, fields)(Credentials())
