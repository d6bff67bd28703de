"""An answer as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from html import escape
from pathlib import Path
from typing import Final

from context_engine.apps.web.inert import clean, html_table, html_text
from context_engine.apps.web.naming import document_name, heading
from context_engine.apps.web.result_words import (
    BARS,
    DECISIONS,
    STATUS,
    UNVERIFIED,
    cautions,
    passage_facts,
    passage_html,
    source_name,
)
from context_engine.core.models import Confidence, Outcome, RankedChunk, SearchResult, SourceStatus, TrustClass
from context_engine.core.text import counted
from context_engine.service.explaining.words import reason_words

_STYLE: Final = Path(__file__).with_name("answer.css")


def answer_page(result: SearchResult, *, demo: bool = False) -> str:
    """Return a result as one HTML page that loads and runs nothing; text of documents is inert.

    Args:
        result: the answer.
        demo: whether the knowledge is the fictitious bank's; the page then says so.
    """
    from context_engine.evaluation.blocks import html_page

    titles = {source.source_id: source_name(source) for source in result.sources}
    passages = "".join(_passage(chunk, titles.get(chunk.source_id, chunk.source_id), result) for chunk in result.chunks)
    body = (
        f"<header>\n{_head(result, demo=demo)}</header>\n<main>\n"
        f"{f'<ol class=passages>{passages}</ol>' if passages else ''}\n{_left_out(result)}{_sources(result)}"
        f"{_warnings(result)}</main>\n<footer>{_foot(result)}</footer>\n"
    )
    return html_page(clean(result.query), body, style=_STYLE.read_text("utf-8"))


def _head(result: SearchResult, *, demo: bool) -> str:
    counts = f"{counted(len(result.chunks), 'passage')} of {counted(len(result.fates), 'candidate')}"
    decision = f"{DECISIONS[result.decision]}; {STATUS[result.status]}."
    day = f"Asked on {_day(result.now)}" + ("" if result.today else f", as of {_day(result.as_of)}")
    notes = ["DEMO: an invented bank, none of it is true."] * demo + [clean(caution) for caution in cautions(result)]
    return (
        f"<p class=over>{html_text(result.domain)}</p>\n<h1 dir=auto>{html_text(result.query)}</h1>\n"
        f"<p class='lead {result.decision}'><b>{escape(decision)}</b> {counts}, from "
        f"{counted(len(result.sources), 'source')}. {escape(day)}.</p>\n"
        + "".join(f"<p class=note>{escape(note)}</p>\n" for note in notes)
    )


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _passage(chunk: RankedChunk, source: str, result: SearchResult) -> str:
    name, title = document_name(chunk.chunk, chunk.chunk_id)
    link = (
        f"<a href='{escape(chunk.url)}' rel='noreferrer noopener'>{html_text(name)}</a>"
        if chunk.url
        else html_text(name)
    )
    under = [line for line in dict.fromkeys((title, heading(chunk.chunk))) if line and line != name]
    unverified = chunk.trust_class is TrustClass.UNTRUSTED
    kind = "passage untrusted" if unverified else "passage"
    return (
        f"<li><article class='{kind}'>\n<div class=top><span class=rank>{chunk.rank}</span>"
        f"<h2 dir=auto>{link}</h2>{_confidence(chunk.confidence)}</div>\n"
        + (f"<p class=under dir=auto>{' · '.join(map(html_text, under))}</p>\n" if under else "")
        + (f"<p class=caution>{UNVERIFIED}</p>\n" if unverified else "")
        + f"<div class=text dir=auto>{passage_html(chunk.content, result.answered_query)}</div>\n"
        f"<dl>{''.join(f'<div><dt>{label}</dt><dd>{value}</dd></div>' for label, value in _tags(chunk, source))}</dl>\n"
        "</article></li>\n"
    )


def _confidence(confidence: Confidence) -> str:
    filled = BARS[confidence]
    bars = "".join(f"<i{' class=on' if number <= filled else ''}></i>" for number in range(1, len(BARS) + 1))
    return f"<span class='confidence {confidence}'><span aria-hidden=true>{bars}</span>{confidence} confidence</span>"


def _tags(chunk: RankedChunk, source: str) -> Iterator[tuple[str, str]]:
    """Yield label and HTML of each fact about a passage's origin."""
    for label, text in passage_facts(chunk, source):
        yield label, html_text(text)
    if chunk.url:
        yield "Link", f"<a href='{escape(chunk.url)}' rel='noreferrer noopener'>{html_text(chunk.url)}</a>"


def _left_out(result: SearchResult) -> str:
    reasons = Counter(reason_words(fate.reason) for fate in result.fates if fate.outcome is not Outcome.RETURNED)
    if not reasons:
        return ""
    rows = [(why.capitalize(), str(count)) for why, count in reasons.most_common()]
    return _section("What was left out", _cells(("Why", "Passages"), rows))


def _sources(result: SearchResult) -> str:
    rows = [
        (source_name(source), f"{source.authority_tier}", _state(source), f"{source.chunks}")
        for source in result.sources
    ]
    return _section("What was searched", _cells(("Source", "Tier", "Answer", "Candidates"), rows))


def _state(source: SourceStatus) -> str:
    return source.state if source.error is None else f"{source.state}: {source.problem}"


def _warnings(result: SearchResult) -> str:
    if not result.warnings:
        return ""
    items = "".join(f"<li>{html_text(warning)}</li>" for warning in dict.fromkeys(result.warnings))
    return _section("What a reader should know", f"<ul>{items}</ul>")


def _foot(result: SearchResult) -> str:
    asked = f"{result.now:%Y-%m-%d %H:%M} UTC"
    return (
        f"<p>Search {html_text(result.search_id)} · {asked} · Confidence says how well a passage fits the question; "
        "it means the same for every question.</p>"
    )


def _cells(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return html_table(columns, ("".join(f"<td>{html_text(cell)}</td>" for cell in row) for row in rows))


def _section(title: str, inside: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{inside}</section>\n"
