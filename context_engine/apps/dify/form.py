"""The fields of the tools' forms, and the search request read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, cast, get_args

from context_engine.apps.dify.answer import JsonDetail
from context_engine.apps.dify.credentials import read_flag
from context_engine.apps.dify.dify_json import plain_text, unusable
from context_engine.apps.dify.reader_texts import AUTOMATIC, LANGUAGE_CHOICES, Tongue, tongue_of
from context_engine.core.context.render import Form
from context_engine.core.models import (
    And,
    Caller,
    Condition,
    DomainSpec,
    Filter,
    FilterOp,
    Principal,
    Registry,
    SearchRequest,
    to_date,
)
from context_engine.core.policy.filters import parse_filter
from context_engine.core.query.follow_up import needs_subject
from context_engine.errors import InvalidFilter, InvalidRequest, nearest


def query_field(fields: Mapping[str, Any]) -> str:
    """Return the question, or "" if it is absent.

    Raises:
        InvalidRequest: not a text.
    """
    value = fields.get("query")
    return "" if value is None else checked_type(value, "query", str, "a text")


def text_field(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field's text, or None if it is absent or blank; a number counts as text.

    Raises:
        InvalidRequest: neither text nor number, or not UTF-8.
    """
    value = fields.get(name)
    if value is None:
        return None
    problem = unusable(value)
    if problem is not None:
        raise InvalidRequest(f"{name} {problem}")
    text = str(checked_type(value, name, str | int | float, "a text")).strip()
    if "\x00" in text or plain_text(text) != text:
        raise InvalidRequest(f"{name} holds binary data (NUL or lone surrogates): send UTF-8 text")
    return text or None


def checked_type(value: Any, name: str, kind: Any, expected: str) -> Any:
    """Return a value if it has the type; a bool never has.

    Raises:
        InvalidRequest: a value of another type.
    """
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InvalidRequest(f"{name} must be {expected}, got {type(value).__name__}")
    return value


def flag_field(fields: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    """Return whether a box is ticked, or `otherwise` if the field is absent or blank.

    Raises:
        InvalidRequest: not a boolean.
    """
    value = fields.get(name)
    if isinstance(value, list | Mapping):
        raise InvalidRequest(f"{name} must be true or false, got {type(value).__name__}")
    return read_flag(value, otherwise)


def whole_field(fields: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Return a field's whole number, or None if it is absent or blank.

    Raises:
        InvalidRequest: not a whole number, or out of range.
    """
    value = fields.get(name)
    if isinstance(value, bool):
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    text = text_field(fields, name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not (number.is_integer() and least <= number <= most):
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}, got {text[:40]!r}")
    return int(number)


def choice_field(fields: Mapping[str, Any], name: str, allowed: tuple[str, ...], otherwise: str) -> str:
    """Return a field's choice, or `otherwise` if it is absent or blank.

    Raises:
        InvalidRequest: an unknown choice; the message names the nearest.
    """
    value = text_field(fields, name) or otherwise
    if value not in allowed:
        raise InvalidRequest(f"{name} has no choice {value[:40]!r}.{nearest(value, allowed)}")
    return value


GIVEN: Final = "given"
"""Stands for a conversation of which only its presence is told."""

AUTHORITY: Final = {
    "system_of_record": 1,
    "bank_sop": 2,
    "industry_standard": 3,
    "external_official": 4,
    "everything": 5,
}
"""Each choice and the lowest tier that it admits."""

_MOST_CHUNKS: Final = 100
_LEAST_BUDGET: Final = 64
_MOST_BUDGET: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchForm:
    """The parsed search form.

    Attributes:
        form: of the context.
        fail_if_missing: whether a source that does not answer fails the search.
        register_required: whether the decision is `incomplete` if a tier-1 source failed.
        notices: whether `result` begins with a passage about missing sources.
        json_detail: what the output `json` contains.
        tongue: of the sentences for the reader.
        needs_subject: whether the question is a turn of the given conversation without a subject of its own.
    """

    request: SearchRequest
    form: Form
    fail_if_missing: bool
    register_required: bool
    notices: bool
    json_detail: JsonDetail
    tongue: Tongue
    needs_subject: bool


def read_search_form(fields: Mapping[str, Any], registry: Registry, caller: Caller, principal: Principal) -> SearchForm:
    """Read the fields; an absent, None or empty field takes its default.

    Args:
        fields: of the form; none of them identifies the caller, because anyone may have filled them in.
        registry: with only what the principal may know.

    Raises:
        InvalidRequest: an invalid field; the message says which, and what is allowed.
        ConfigError: the domain lacks a variable.
    """
    name = chosen_domain(fields, registry)
    tier = AUTHORITY[choice_field(fields, "authority", tuple(AUTHORITY), "everything")]
    overrides: dict[str, Any] = whole_fields(fields)
    namespaces = _listed(text_field(fields, "namespaces"))
    if namespaces:
        overrides["sources"] = namespaces
    if tier < 5 and name in registry.names:  # the engine refuses and records an unknown domain
        overrides["sources"] = _sources_within(registry.domain(name), tier, namespaces)
    request = SearchRequest(
        query=query_field(fields),
        domain=name,
        caller=_on_behalf(caller, text_field(fields, "on_behalf_of")),
        principal=principal,
        as_of=_day(text_field(fields, "as_of")),
        filters=_narrowed(_filter(text_field(fields, "filter")), tier),
        persona=text_field(fields, "persona"),
        overrides=overrides,
    )
    return SearchForm(
        request=request,
        form=context_form(fields),
        fail_if_missing=choice_field(fields, "if_source_missing", ("continue", "fail"), "continue") == "fail",
        register_required=flag_field(fields, "register_required", True),
        notices=flag_field(fields, "notice_passage", True),
        json_detail=cast(JsonDetail, choice_field(fields, "json_detail", get_args(JsonDetail), "full")),
        tongue=tongue_of(request.query, choice_field(fields, "language", tuple(LANGUAGE_CHOICES), AUTOMATIC)),
        needs_subject=_is_later_turn(text_field(fields, "history")) and needs_subject(request.query),
    )


def _is_later_turn(history: str | None) -> bool:
    """Return whether there are earlier turns: a text of them, or Dify's `sys.dialogue_count`, which begins with 1."""
    return history is not None and history not in ("0", "1")


def chosen_domain(fields: Mapping[str, Any], registry: Registry) -> str:
    """Return the domain: `domain_name` if set, else `domain`.

    Raises:
        InvalidRequest: both are empty; the message lists the domains.
    """
    name = text_field(fields, "domain_name") or text_field(fields, "domain")
    if name is None:
        have = ", ".join(registry.names) or "none is configured"
        raise InvalidRequest(f"no domain is given: fill in 'Domain name' or 'Domain'. Domains: {have}.")
    return name


def whole_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings from `top_k` and `context_budget`.

    Raises:
        InvalidRequest: not a whole number, or out of range.
    """
    values = {
        "stage2_top_k": whole_field(fields, "top_k", 1, _MOST_CHUNKS),
        "context_max_tokens": whole_field(fields, "context_budget", _LEAST_BUDGET, _MOST_BUDGET),
    }
    return {key: value for key, value in values.items() if value is not None}


def context_form(fields: Mapping[str, Any]) -> Form:
    """Return the form of the context.

    Raises:
        InvalidRequest: an unknown form.
    """
    return cast(Form, choice_field(fields, "context_form", ("markdown", "text"), "markdown"))


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, (text or "").split(","))))


def _sources_within(domain: DomainSpec, tier: int, namespaces: Sequence[str]) -> tuple[str, ...]:
    """Return the sources that can have chunks of that authority; the others need not be searched.

    Args:
        namespaces: only sources of these namespaces or ids; an unknown one is left for the engine to refuse. (): all.
    """
    unknown = tuple(name for name in namespaces if name not in domain.names)
    sources = domain.named(namespaces) if namespaces else domain.sources
    allowed = tuple(source.id for source in sources if source.tier <= tier or source.trust_document_metadata)
    if not allowed and not unknown:
        best = min(source.tier for source in sources)
        where = f"domain {domain.domain!r}" + (f" in {', '.join(namespaces)}" if namespaces else "")
        raise InvalidRequest(
            f"{where} has no source of tier {tier} or better; its best is tier {best}: choose a wider 'Authority'"
        )
    return (*allowed, *unknown)


def _filter(text: str | None) -> Filter | None:
    try:
        return parse_filter(text)
    except InvalidFilter as error:
        raise InvalidFilter(f"filter: {error}") from None


def _narrowed(filters: Filter | None, tier: int) -> Filter | None:
    if tier == 5:
        return filters
    within = Condition("tier", FilterOp.LTE, tier)
    return within if filters is None else And((within, filters))


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    day = to_date(text)
    if day is None:
        raise InvalidRequest(f"as_of must be a date such as 2025-06-30, got {text[:40]!r}")
    return day


def _on_behalf(caller: Caller, name: str | None) -> Caller:
    return Caller(
        principal=caller.principal,
        app=caller.app,
        conversation=caller.conversation,
        message=caller.message,
        on_behalf_of=name,
    )
