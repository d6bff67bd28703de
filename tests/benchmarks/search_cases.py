"""Random searches as values: a question, its settings, and a pool of passages with edited copies."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from search_pools import BASE, CHECKOUT, POOL, TIERS, Passages, as_dict

DEMO_DOMAINS = ("NPA", "ORM", "DCE", "DESK")
MOMENTS = ("2026-03-02T10:00:00+00:00", "2025-06-30T23:30:00+00:00", "2031-01-01T00:00:00+00:00")
PERSONAS = ("educator", "researcher", "creator", "builder")


class Cases:
    """Makes random searches.

    Args:
        collections: where questions and passages come from; the demo's questions are always there.
        rng: decides everything.
        base: whether the first collection is searched in an embedded base too.
    """

    def __init__(self, collections: Sequence[Passages], rng: random.Random, *, base: bool) -> None:
        demo = CHECKOUT / "context_engine" / "demo"
        self.rng, self.collections = rng, collections
        self.demo = [json.loads(line) for line in (demo / "questions.jsonl").read_text("utf-8").splitlines()]
        self.demo_texts = [
            {"tier": f"T{1 + place % 5}", "id": f"demo-{place}", "doc": file.stem, "title": file.stem, "section": ""}
            | {"passage_id": "", "text": text}
            for file in sorted((demo / "bank").rglob("*.md"))
            for place, text in enumerate(file.read_text("utf-8").split("\n\n"))
            if len(text) > 40
        ]
        self.kinds = ["demo", "pool", "pool", "rag"] + (["base"] if base and collections else [])

    def made(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the searches."""
        for number in range(count):
            kind = self.kinds[number % len(self.kinds)]
            case = {"number": number, "kind": kind, **self.question(kind), "overrides": self.overrides(kind)}
            case |= {"moment": self.rng.choice(MOMENTS), "filters": self.filters(kind), **self.narrowed(case)}
            if kind in ("pool", "rag"):
                case["chunks"] = self.pool(case.pop("found"))
            if kind == "rag":
                case["by"] = self.rng.choice(("rerank", "adapter", "pipeline"))
            yield case

    def question(self, kind: str) -> dict[str, Any]:
        rng = self.rng
        if kind == "demo" or (not self.collections and kind == "base"):
            one = rng.choice(self.demo)
            domain = one["domain"] if rng.random() < 0.8 else rng.choice(DEMO_DOMAINS)
            return {"domain": domain, "query": self.reworded(one["query"])}
        if not self.collections:
            found = [as_dict(row, rng.uniform(0.1, 20)) for row in rng.sample(self.demo_texts, 40)]
            return {"domain": POOL, "query": self.reworded(rng.choice(self.demo)["query"]), "found": found}
        collection = self.collections[0] if kind == "base" else rng.choice(self.collections)
        query = rng.choice(collection.queries)
        case = {"domain": BASE if kind == "base" else POOL, "query": self.reworded(query)}
        return case if kind == "base" else {**case, "found": collection.best(query, rng.choice((12, 40, 40, 60, 90)))}

    def reworded(self, query: str) -> str:
        """Quote a part, name a clause or a code, ask two things at once, or leave it."""
        rng, words = self.rng, query.split()
        start = rng.randrange(max(len(words) - 2, 1))
        return rng.choice(
            (
                query,
                query,
                query,
                query.upper(),
                " ".join([*words[:start], f'"{" ".join(words[start : start + 2])}"', *words[start + 2 :]]),
                f"{query} under {rng.choice(('4.2.1', '7.3(b)', 'NPA-SOP-001', 'section 12', 'Rule 3.4.2'))}",
                f"{query} And {rng.choice(self.demo)['query']}",
                " ".join(words[start : start + 4]),
                f"{query} 新产品审批",
            )
        )

    def overrides(self, kind: str) -> dict[str, Any]:
        rng = self.rng
        possible: dict[str, Callable[[], Any]] = {
            "dedup_method": lambda: rng.choice(("near", "near", "exact", "off")),
            "dedup_threshold": lambda: rng.choice((0.5, 0.7, 0.8, 0.9, 0.95, 1.0)),
            "max_per_document": lambda: rng.randint(1, 4),
            "mmr_lambda": lambda: rng.choice((0.0, 0.3, 0.5, 0.7, 1.0)),
            "min_relevance_score": lambda: rng.choice((0.0, 0.05, 0.3, 0.5)),
            "scope_threshold": lambda: rng.choice((0.0, 0.2, 0.4, 0.6)),
            "min_chunks": lambda: rng.randint(0, 10),
            "stage1_top_k": lambda: rng.choice((5, 20, 40, 80)),
            "stage2_top_k": lambda: rng.choice((1, 3, 8, 8, 20, 50)),
            "authority_weight": lambda: rng.choice((0.0, 0.1, 0.4)),
            "relevance_weight": lambda: rng.choice((0.0, 0.3, 0.6)),
            "exact_first": lambda: False,
            "expired": lambda: rng.choice(("flag", "demote", "refuse")),
            "query_expansion": lambda: False,
            "multi_query": lambda: True,
            "similarity_threshold": lambda: rng.choice((0.2, 0.5, 0.7)),
        }
        out = {name: possible[name]() for name in rng.sample(list(possible), rng.choice((0, 0, 1, 2, 3, 5)))}
        if "similarity_threshold" in out:
            out["similarity_kind"] = "bm25" if kind in ("demo", "base") else rng.choice(("cosine", "bm25", "rerank"))
        return out

    def filters(self, kind: str) -> Any:
        rng = self.rng
        if rng.random() < 0.75:
            return None
        own = "region" if kind in ("pool", "rag") else "document_id"
        return rng.choice(
            (
                f"authority_tier <= {rng.randint(1, 4)}",
                {"source_type": rng.choice(TIERS)},
                f"{own} != r1; authority_tier >= 2",
                {"classification": "public"},
                f"{own} = r{rng.randint(0, 2)}",
            )
        )

    def narrowed(self, case: dict[str, Any]) -> dict[str, Any]:
        rng, out = self.rng, dict[str, Any]()
        if rng.random() < 0.25:
            out["as_of"] = (date(2022, 1, 1) + timedelta(days=rng.randrange(2000))).isoformat()
        if case["kind"] != "pool" and rng.random() < 0.1:
            out["persona"] = rng.choice(PERSONAS)
            out["overrides"] = {"similarity_kind": "bm25"} | case["overrides"]
        if rng.random() < 0.1:
            out["require_tiers"] = [rng.randint(1, 5)]
        return out

    def pool(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the passages with scores, dates and edited copies."""
        rng = self.rng
        scored, dated = rng.choice(("none", "none", "bm25", "cosine", "relevance", "rerank", "mixed")), rng.random()
        copied = rng.choice((0.0, 0.1, 0.4))
        out = []
        for one in found:
            out.append(one)
            while rng.random() < copied:
                number = len(out)
                copy = {
                    **rng.choice(out),
                    "chunk_id": f"{one['chunk_id']}~{number}",
                    "source": f"tier_{1 + number % 5}",
                }
                copy["content"] = edited(copy["content"], rng)
                out.append(copy)
        for one in out:
            one["scores"] = self.scores(one.pop("score", rng.random()), scored)
            one["metadata"] = {"region": f"r{rng.randrange(3)}"}
            if dated < 0.3:
                one |= self.dates(found)
        rng.shuffle(out)
        return out

    def scores(self, score: float, kind: str) -> list[list[Any]]:
        rng = self.rng
        kinds = ("cosine", "bm25", "relevance", "unknown", "weighted", "rerank") if kind == "mixed" else (kind,)
        values = {"bm25": score, "unknown": score, "cosine": rng.uniform(-0.1, 0.9), "rerank": rng.uniform(-6, 6)}
        scorers = {"cosine": "model", "rerank": "cross"}
        return [
            [one, values.get(one, rng.random()), scorers.get(one)]
            for one in kinds
            if one != "none" and (kind != "mixed" or rng.random() < 0.5)
        ]

    def dates(self, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rng, out = self.rng, dict[str, Any]()
        start = date(2021, 1, 1) + timedelta(days=rng.randrange(2000))
        if rng.random() < 0.4:
            out["effective_from"] = start.isoformat()
        if rng.random() < 0.3:
            out["effective_to"] = (start + timedelta(days=rng.randrange(1, 900))).isoformat()
        if rng.random() < 0.2:
            out["superseded_by"] = rng.choice(found)["document_id"]
        if rng.random() < 0.5:
            out |= {"fetched_at": f"{start.isoformat()}T06:00:00+00:00", "ttl_seconds": rng.choice((3600, 10**8))}
        return out | {"document_version": str(rng.randint(1, 3))}


def edited(text: str, rng: random.Random) -> str:
    """Return a copy with one or two edits, some that a reader would not see and some that change what it says."""
    for _ in range(rng.randint(1, 2)):
        text = rng.choice(EDITS)(text, rng)
    return text


def _sentences(text: str, change: Callable[[list[str]], None]) -> str:
    parts = text.split(". ")
    change(parts)
    return ". ".join(parts)


def _words(text: str, change: Callable[[list[str]], None]) -> str:
    parts = text.split(" ")
    change(parts)
    return " ".join(parts)


EDITS: Sequence[Callable[[str, random.Random], str]] = (
    lambda text, rng: text,
    lambda text, rng: "  " + text.replace(" ", "\u00a0", 2).replace(". ", ".\n") + "\n",
    lambda text, rng: text.upper(),
    lambda text, rng: text.replace("-", "\u2011").replace("'", "’"),
    lambda text, rng: f"Document No.: MHB-SOP-{rng.randrange(9)}\nVersion: {rng.randrange(5)}.0\n\n{text}",
    lambda text, rng: f"{rng.choice(('4.2.1', '(a)', 'Section 3:', '## 7.3', '12.'))} {text}",
    lambda text, rng: re.sub(r"\d+", lambda found: str(int(found[0][:9]) + 1), text, count=1),
    lambda text, rng: text.replace("must", "may", 1).replace("shall", "should", 1),
    lambda text, rng: text.replace(" not ", " ", 1),
    lambda text, rng: _sentences(text, rng.shuffle),
    lambda text, rng: _sentences(text, lambda parts: parts.pop(rng.randrange(len(parts))) if len(parts) > 1 else None),
    lambda text, rng: _words(text, lambda parts: parts.insert(rng.randrange(len(parts) + 1), "relevant")),
    lambda text, rng: _words(text, lambda parts: parts.pop(rng.randrange(len(parts))) if len(parts) > 1 else None),
    lambda text, rng: _words(text, lambda parts: parts.insert(rng.randrange(len(parts) + 1), "£5 –3 % ½ 不得")),
    lambda text, rng: text[: max(len(text) * 9 // 10, 1)],
    lambda text, rng: f"{text} {text[: len(text) // 8]}",
)
