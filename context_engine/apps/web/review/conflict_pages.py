"""The page of contradictions between documents, for operators: they read every source, and settle what they find."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from context_engine.apps.server.service import service_of
from context_engine.apps.web.addresses import document_address, with_query
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import chunk_name
from context_engine.apps.web.rendering import Page, html_response, respond
from context_engine.apps.web.review.state import ConflictRuns
from context_engine.apps.web.site_state import site_of
from context_engine.core.models import Authenticated
from context_engine.errors import AuditError, AuditOff, InvalidRequest, NotPermitted
from context_engine.service.deployment import Deployment

if TYPE_CHECKING:
    from context_engine.insight.domain_conflicts import SideAnswers
    from context_engine.insight.radar import RadarFinding, RadarSide
    from context_engine.insight.settled import Settled


CONFLICTS: Final = "/review/conflicts"
KINDS: Final = ("number", "unit", "currency", "date", "bound", "modal", "negation", "opposite")
MOST_SHOWN: Final = 100
_FORMS: Final = {
    "must": r"must|shall|ha(?:s|ve) to|needs? to|(?:is|are|be) required to",
    "may": r"may|can|(?:is|are|be) (?:allowed|permitted|entitled|able) to",
    "should": "should|ought to",
    "before": "before|prior to|in advance of|ahead of",
    "after": "after|following|subsequent to",
}
"""How a text may write what the comparison names."""
_DENIED: Final = r"\b(?:not|never|no|cannot|neither|nor|without)\b(?:\W+\w+){{0,2}}?\W+{0}\w*|\b{0}\w*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictFilters:
    """What the page lists.

    Attributes:
        kind: one of `KINDS`; "" for all.
        parallel: also differences of parallel documents.
    """

    domain: str
    kind: str = ""
    parallel: bool = False

    @classmethod
    def of(cls, query: Mapping[str, str], domains: Collection[str]) -> Self:
        """Return the filters of an address or a form; without a domain the first one.

        Raises:
            InvalidRequest: a value is not of its kind.
        """
        kind, domain = query.get("kind", ""), query.get("domain", "") or next(iter(domains), "")
        if kind and kind not in KINDS:
            raise InvalidRequest(f"kind is {kind[:40]!r}: choose one of {', '.join(KINDS)}")
        if domain not in domains:
            raise InvalidRequest(f"domain is {domain[:40]!r}: choose one of {', '.join(domains)}")
        return cls(domain=domain, kind=kind, parallel=query.get("parallel") == "1")

    def address(self, **changes: Any) -> str:
        """Return the address of the page with these filters, some of them changed."""
        changed = replace(self, **changes)
        parallel = "1" if changed.parallel else ""
        return with_query(CONFLICTS, {"domain": changed.domain, "kind": changed.kind, "parallel": parallel})

    def admit(self, finding: RadarFinding) -> bool:
        """Return whether a finding is listed."""
        return (self.parallel or not finding.parallel) and (
            not self.kind or any(each.code == self.kind for each in finding.differences)
        )


class ConflictSide(NamedTuple):
    """A side of a finding.

    Attributes:
        text: HTML of the sentence, the words that differ marked.
        document: address of its page, with the sentence marked.
        answers, records: how many records showed the passage, and the address of their list; None without a ledger.
    """

    side: RadarSide
    name: str
    text: Markup
    document: str
    yields: bool
    answers: int | None
    records: str


class ShownFinding(NamedTuple):
    """A finding.

    Attributes:
        kinds, pairs: what differs, and the words of both sides as they are written; "" where a side has none.
        answers: how many records showed a side; None without a ledger.
        settled: None as long as nobody decided.
    """

    finding: RadarFinding
    pairs: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    sides: tuple[ConflictSide, ConflictSide]
    answers: int | None
    settled: Settled | None


def shown_findings(
    domain: str,
    findings: Iterable[RadarFinding],
    answers: Mapping[str, SideAnswers] | None,
    settled: Mapping[str, Settled],
) -> Iterator[ShownFinding]:
    """Yield what the page shows of findings.

    Args:
        answers: the records that showed each side, by finding id; None without a ledger.
    """
    for finding in findings:
        counts = None if answers is None else answers[finding.finding_id]
        first = _side(domain, finding, "first", None if counts is None else len(counts.first))
        second = _side(domain, finding, "second", None if counts is None else len(counts.second))
        yield ShownFinding(
            finding=finding,
            pairs=tuple(
                (_as_written(finding.first.text, each.first), _as_written(finding.second.text, each.second))
                for each in finding.differences
            ),
            kinds=tuple(dict.fromkeys(each.code for each in finding.differences)),
            sides=(first, second),
            answers=None if counts is None else counts.either,
            settled=settled.get(finding.finding_id),
        )


def kind_counts(findings: Iterable[RadarFinding]) -> dict[str, int]:
    """Return how many findings have a difference of each kind, in the order of `KINDS`."""
    counts = Counter(kind for finding in findings for kind in {each.code for each in finding.differences})
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _side(domain: str, finding: RadarFinding, place: str, answers: int | None) -> ConflictSide:
    side: RadarSide = getattr(finding, place)
    chunk = side.chunk
    address = document_address(
        domain,
        side.source_id,
        chunk.document_id,
        chunk_id=chunk.chunk_id,
        version=chunk.document_version or "",
        quoted=side.text,
    )
    return ConflictSide(
        side=side,
        name=chunk_name(chunk, chunk.chunk_id),
        text=marked_words(side.text, [getattr(each, place) for each in finding.differences]),
        document=address,
        yields=finding.yields == place,
        answers=answers,
        records=with_query("/review", {"passage": f"{side.source_id}/{chunk.chunk_id}"}),
    )


def marked_words(text: str, words: Iterable[str]) -> Markup:
    """Return a sentence as HTML, with some words marked.

    Args:
        words: as a `ConflictDifference` has them: "must" may be written "shall", "not report" is "shall not report".

    >>> marked_words("It shall not report.", ["not report"])
    Markup('It shall <mark>not report</mark>.')
    """
    plain = clean(" ".join(text.split()))
    patterns = [_pattern(word) for phrase in words for word in phrase.split(", ") if word]
    if not patterns:
        return escape(plain)
    out, end = Markup(), 0
    for match in re.finditer("|".join(patterns), plain, re.IGNORECASE):
        out += escape(plain[end : match.start()]) + Markup("<mark>{}</mark>").format(match[0])
        end = match.end()
    return out + escape(plain[end:])


def _as_written(text: str, word: str) -> str:
    """Return how a sentence writes a word of a difference."""
    match = re.search(_pattern(word), " ".join(text.split()), re.IGNORECASE) if word else None
    return match[0] if match else word


def _pattern(word: str) -> str:
    if word.startswith("not "):
        return _DENIED.format(re.escape(word.removeprefix("not ")))
    return rf"(?<!\w)(?:{_FORMS.get(word, re.escape(word))})(?!\w)"


router = APIRouter(prefix=CONFLICTS, include_in_schema=False)
_LONGEST_REASON: Final = 500


@router.get("")
async def conflicts_page(request: Request) -> Response:
    """Show the contradictions of a domain."""
    query, runs = dict(request.query_params), site_of(request).conflicts
    return await respond(request, lambda deployment, caller: _page(runs, deployment, caller, query))


@router.post("/compare")
async def compare_again(request: Request) -> Response:
    """Compare the documents of a domain again, in the background, and show the page."""
    fields, runs = await _fields(request), site_of(request).conflicts

    def work(deployment: Deployment, caller: Authenticated) -> str:
        filters = _filters(deployment, caller, fields)
        runs.of(deployment, filters.domain).start(deployment, filters.domain)
        return filters.address()

    return html_response("", 303, {"Location": await service_of(request).call(request, work)})


@router.post("/settle")
async def settle_conflict(request: Request) -> Response:
    """Keep a decision with its reason and the name of the caller, and show the page."""
    fields, runs = await _fields(request), site_of(request).conflicts
    address = await service_of(request).call(
        request, lambda deployment, caller: _settled(runs, deployment, caller, fields)
    )
    return html_response("", 303, {"Location": f"{address}#settled"})


async def _fields(request: Request) -> Mapping[str, str]:
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[0].strip() for name, values in parse_qs(body).items()}


def _filters(deployment: Deployment, caller: Authenticated, query: Mapping[str, str]) -> ConflictFilters:
    """Return the filters of an operator.

    Raises:
        NotPermitted: the caller is none.
        InvalidRequest: a value is not of its kind.
    """
    if not caller.operator:
        raise NotPermitted("contradictions are looked for in every source of a domain: the page is for operators")
    return ConflictFilters.of(query, deployment.setup.registry.names)


def _page(runs: ConflictRuns, deployment: Deployment, caller: Authenticated, query: Mapping[str, str]) -> Page:
    from context_engine.insight.settled import settled_conflicts

    filters = _filters(deployment, caller, query)
    run = runs.of(deployment, filters.domain)
    run.wait()
    settled = settled_conflicts(_file(deployment))
    report = None if run.result is None else run.result.report
    listed = () if report is None else [each for each in report.findings if filters.admit(each)]
    open_, closed = ([each for each in listed if (each.finding_id in settled) is known] for known in (False, True))
    shown = [*open_[:MOST_SHOWN], *closed[:MOST_SHOWN]]
    findings = list(shown_findings(filters.domain, shown, _answers(deployment, shown), settled))
    every = () if report is None else [each for each in report.findings if filters.parallel or not each.parallel]
    values = {
        "active": "review",
        "filters": filters,
        "domains": deployment.setup.registry.names,
        "kinds": KINDS,
        "counts": kind_counts(each for each in every if each.finding_id not in settled),
        "run": run,
        "open": [each for each in findings if each.settled is None],
        "closed": [each for each in findings if each.settled is not None],
        "more": max(len(open_) - MOST_SHOWN, 0),
        "hidden": 0 if report is None else sum(each.parallel for each in report.findings) * (not filters.parallel),
    }
    return Page("review/conflicts.html", values)


def _settled(runs: ConflictRuns, deployment: Deployment, caller: Authenticated, fields: Mapping[str, str]) -> str:
    """Keep a decision; return the address of the page.

    Raises:
        NotPermitted: the caller is no operator.
        InvalidRequest: there is no reason, or no such contradiction.
    """
    from context_engine.insight.settled import settle

    filters = _filters(deployment, caller, fields)
    finding_id, reason = fields.get("id", ""), " ".join(fields.get("reason", "").split())
    result = runs.of(deployment, filters.domain).result
    if result is None or finding_id not in {each.finding_id for each in result.report.findings}:
        raise InvalidRequest(f"there is no contradiction {finding_id[:40]!r} now: load the page again")
    if not 0 < len(reason) <= _LONGEST_REASON:
        raise InvalidRequest(f"a decision needs a reason of at most {_LONGEST_REASON} characters")
    by = caller.principal.id or "anybody on this machine"
    settle(_file(deployment), finding_id, reason=reason, by=by, now=datetime.now(UTC))
    return filters.address()


def _answers(deployment: Deployment, findings: Sequence[RadarFinding]) -> Mapping[str, SideAnswers] | None:
    """Return the records that showed each side, by finding id; None if nothing is recorded."""
    from context_engine.insight.domain_conflicts import answers_that_showed

    try:
        ledger = deployment.ledger.opened()
        if ledger is None:
            return None
        ledger.integrate()
        return answers_that_showed(ledger, findings)
    except (AuditOff, AuditError):
        return None


def _file(deployment: Deployment) -> Path:
    from context_engine.insight.settled import FILE

    return deployment.setup.data_dir(deployment.data_dir) / FILE
