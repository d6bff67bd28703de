"""The fields of the search tool, as Dify hands them over."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from context_engine.apps.dify.form import read_search_form
from context_engine.core.models import NOBODY, And, Caller, Condition, DomainSpec, FilterOp, Registry
from context_engine.errors import InvalidFilter, InvalidRequest

WHO = Caller(principal="user-1", app="app", conversation="c", message="m")
TIER_2 = Condition("tier", FilterOp.LTE, 2)


def registry(*types: str, domain: str = "NPA", **fields: Any) -> Registry:
    sources = [{"id": f"s_{one}", "type": one, **fields} for one in types or ("system_of_record", "general_web")]
    return Registry(domains={domain: DomainSpec(version=1, domain=domain, sources=sources)})


def read(given: Registry | None = None, **fields: Any) -> Any:
    return read_search_form({"query": "q", "domain": "NPA", **fields}, given or registry(), WHO, NOBODY)


def test_only_query_and_domain_are_needed() -> None:
    form = read()
    assert (form.request.query, form.request.domain, form.request.caller) == ("q", "NPA", WHO)
    assert (form.request.overrides, form.request.filters, form.request.as_of) == ({}, None, None)
    assert (form.form, form.fail_if_missing) == ("markdown", False)


def test_a_persona_is_named_and_its_number_of_passages_holds_where_the_form_has_none() -> None:
    request = read(persona=" researcher ", top_k=None).request
    assert (request.persona, request.overrides) == ("researcher", {})


def test_empty_fields_have_their_defaults() -> None:
    names = ("authority", "namespaces", "filter", "as_of", "persona", "top_k", "context_budget", "on_behalf_of")
    empty = dict.fromkeys(names, "")
    none = dict.fromkeys(("context_form", "if_source_missing", "domain_name"))
    assert read(**empty, **none) == read()


def test_namespaces_narrow_the_search_as_the_authority_does() -> None:
    rows = [
        {"id": "sheets", "namespace": "products", "type": "bank_sop"},
        {"id": "web", "namespace": "products", "type": "general_web"},
        {"id": "rules", "type": "bank_sop"},
    ]
    given = Registry(domains={"NPA": DomainSpec(version=1, domain="NPA", sources=rows)})
    assert read(given, namespaces=" products , rules,").request.overrides == {"sources": ("products", "rules")}
    own = read(given, namespaces="products", authority="bank_sop").request
    assert (own.overrides, own.filters) == ({"sources": ("sheets",)}, TIER_2)
    unknown = read(given, namespaces="web, product", authority="bank_sop").request
    assert unknown.overrides == {"sources": ("product",)}, "the engine refuses it"
    with pytest.raises(InvalidRequest, match="'NPA' in web has no source of tier 2 or better; its best is tier 5"):
        read(given, namespaces="web", authority="bank_sop")


@pytest.mark.parametrize(
    "fields",
    [
        {"domain_name": "NPA", "domain": "OTHER"},
        {"domain_name": " NPA ", "domain": ""},
        {"domain_name": None, "domain": "NPA"},
    ],
)
def test_the_name_wins_over_the_choice(fields: dict[str, Any]) -> None:
    assert read_search_form({"query": "q", **fields}, registry(), WHO, NOBODY).request.domain == "NPA"


def test_no_domain_lists_the_domains() -> None:
    with pytest.raises(InvalidRequest, match=r"no domain is given.*Domains: NPA\."):
        read(domain=" ")


@pytest.mark.parametrize("authority", ["everything", "system_of_record"])
def test_an_unknown_domain_is_left_to_the_engine_which_refuses_and_records_it(authority: str) -> None:
    asked = read(domain_name="npa", authority=authority).request
    assert (asked.domain, dict(asked.overrides)) == ("npa", {})


@pytest.mark.parametrize("value", [5, 5.0, "5", "5.0", " 5 "])
def test_a_number_in_any_form(value: Any) -> None:
    assert read(top_k=value, context_budget=value * 100 if not isinstance(value, str) else 500).request.overrides == {
        "stage2_top_k": 5,
        "context_max_tokens": 500,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_k", 0),
        ("top_k", 101),
        ("top_k", 2.5),
        ("top_k", "many"),
        ("top_k", "inf"),
        ("top_k", "nan"),
        ("top_k", True),
        ("context_budget", 63),
        ("context_budget", 100_001),
    ],
)
def test_a_number_out_of_range_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"{field} must be a whole number from"):
        read(**{field: value})


def test_authority_asks_only_who_can_answer() -> None:
    given = registry("system_of_record", "bank_sop", "general_web")
    form = read(given, authority="bank_sop")
    assert form.request.overrides == {"sources": ("s_system_of_record", "s_bank_sop")}
    assert form.request.filters == TIER_2


def test_authority_and_filter_both_hold() -> None:
    form = read(registry("bank_sop"), authority="bank_sop", filter="version=3.2")
    assert form.request.filters == And((TIER_2, Condition("version", FilterOp.EQ, "3.2")))


def test_a_source_whose_documents_speak_for_themselves_is_asked() -> None:
    form = read(registry("general_web", trust_document_metadata=True), authority="system_of_record")
    assert form.request.overrides == {"sources": ("s_general_web",)}


def test_an_authority_that_no_source_has() -> None:
    with pytest.raises(InvalidRequest, match="domain 'NPA' has no source of tier 1 or better; its best is tier 2"):
        read(registry("bank_sop"), authority="system_of_record")


def test_days_filters_and_choices() -> None:
    form = read(
        as_of="2025-06-30", filter="version=3.2; date>=2025-01-01", if_source_missing="fail", context_form="text"
    )
    assert form.request.as_of == date(2025, 6, 30)
    assert isinstance(form.request.filters, And) and len(form.request.filters.parts) == 2
    assert (form.fail_if_missing, form.form) == (True, "text")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("as_of", "30.6.2025", "as_of must be a date such as 2025-06-30"),
        ("authority", "bank", "authority has no choice 'bank'. Did you mean 'bank_sop'"),
        ("if_source_missing", "stop", "if_source_missing has no choice 'stop'"),
        ("context_form", "html", "context_form has no choice 'html'"),
    ],
)
def test_what_cannot_be_used(field: str, value: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        read(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("query", ["q"], "query must be a text, got list"),
        ("domain_name", {"a": 1}, "domain_name must be a text, got dict"),
        ("domain_name", True, "domain_name must be a text, got bool"),
        ("filter", ["version=1"], "filter must be a text, got list"),
        ("on_behalf_of", "a\x00", "on_behalf_of holds binary data"),
        ("top_k", float("inf"), "top_k must be a whole number from 1 to 100, got 'inf'"),
        ("top_k", float("nan"), "top_k must be a whole number from 1 to 100, got 'nan'"),
        ("top_k", [8], "top_k must be a text, got list"),
        pytest.param("context_budget", 10**5000, "context_budget holds a number of thousands", id="huge"),
        ("register_required", [], "register_required must be true or false, got list"),
        ("notice_passage", {}, "notice_passage must be true or false, got dict"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(field: str, value: Any, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        read(**{field: value})


def test_the_register_is_required_and_notices_are_given_unless_told_otherwise() -> None:
    assert (read().register_required, read().notices) == (True, True)
    form = read(register_required="false", notice_passage=0)
    assert (form.register_required, form.notices) == (False, False)


def test_json_is_whole_unless_told_otherwise() -> None:
    assert (read().json_detail, read(json_detail="").json_detail) == ("full", "full")
    assert read(json_detail="outcome").json_detail == "outcome"
    with pytest.raises(InvalidRequest, match=r"json_detail has no choice 'outcom'\. Did you mean 'outcome'"):
        read(json_detail="outcom")


def test_a_filter_that_cannot_be_read() -> None:
    with pytest.raises(InvalidFilter, match="cannot read 'version'"):
        read(filter="version")


def test_on_behalf_of_changes_nothing_else() -> None:
    caller = read(on_behalf_of="a.meyer").request.caller
    assert caller == Caller(principal="user-1", app="app", conversation="c", message="m", on_behalf_of="a.meyer")
