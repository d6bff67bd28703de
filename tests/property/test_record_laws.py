"""Laws of records over random searches: what was recorded comes out the same, in another process too.

As a program this file replays a batch of records: `python test_record_laws.py BATCH`.
"""

import base64
import hashlib
import json
import os
import random
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from context_engine.adapters.rerankers import CallableReranker
from context_engine.audit.record.candidates import mentions_of
from context_engine.audit.record.drafts import search_draft
from context_engine.audit.record.parts import load_result, save_result
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.record.restored import restore
from context_engine.audit.review.replay import replay
from context_engine.audit.values import MOST_ENTRY_BYTES, Addendum
from context_engine.core.engine import stage_two_bytes
from context_engine.core.models import (
    AccessRecord,
    Caller,
    Chunk,
    Condition,
    EffectiveSettings,
    FilterOp,
    Not,
    Or,
    Principal,
    ScopeCalibration,
    Score,
    ScoreKind,
    SearchRequest,
    Settings,
    SourceAnswer,
    TermStatistics,
    UnknownWord,
    canonical_json,
)
from context_engine.errors import AllSourcesFailed, SourceError

SECRET = Pseudonyms(b"s" * 32)
WORDS = [
    *("approval", "rule", "limit", "committee", "desk", "product", "risk", "must", "not"),
    *("5", "7", "USD", "EUR", "before", "after", "NPA-001", "4.2.1(b)", "审批", "é", "𝄞"),
]
QUERIES = [
    *("approval rule", "NPA-001 limit", '"product risk" committee', "aproval comittee", "审批 rule", "4.2.1(b)"),
    *("risk limit of the desk before approval; who must sign?", "NPA"),
]
GLOSSARY = {"NPA": "New Product Approval", "risk": ["hazard", "exposure"]}


def some_text(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 14)))


def some_scores(rng):
    kinds = (
        Score(ScoreKind.RELEVANCE, rng.random()),
        Score(ScoreKind.COSINE, rng.uniform(-1, 1), rng.choice([None, "e5"])),
        Score(ScoreKind.BM25, rng.uniform(0, 40), "index"),
        Score(ScoreKind.UNKNOWN, rng.uniform(-5, 5)),
    )
    return tuple(rng.sample(kinds, rng.randint(0, 2)))


def some_chunk(rng):
    maybe = {
        "source_id": rng.choice(["desk", "t1"]),
        "document_id": rng.choice("DE"),
        "document_version": rng.choice(["1", "v2", "2.10"]),
        "title": some_text(rng),
        "section": "4.2.1(b)",
        "heading_path": ("Chapter 4", some_text(rng)),
        "position": rng.randint(0, 9),
        "span": (rng.randint(0, 9), rng.randint(10, 99)),
        "source_type": "bank_sop",
        "authority_tier": rng.randint(1, 5),
        "trust_class": rng.choice(["TRUSTED", "UNTRUSTED"]),
        "classification": "internal",
        "effective_from": date(2025, 6, 1) + timedelta(days=rng.randint(0, 400)),
        "effective_to": date(2026, 2, 1) + timedelta(days=rng.randint(0, 400)),
        "superseded_by": "2",
        "fetched_at": datetime(2026, 3, 2, rng.randint(0, 9), tzinfo=UTC),
        "ttl_seconds": rng.choice([0, 3600, 10**9]),
        "metadata": {
            "year": rng.choice([2024, 2024.5, "2024"]),
            "day": date(2026, 1, 1),
            "tags": ["a", {"$b": None}],
            "odd": rng.choice([float("nan"), float("inf"), True, 10**30, ""]),
        },
        "extra": {"domain": "NPA", "url": "https://policies.example/a"},
    }
    return Chunk(
        content=some_text(rng),
        chunk_id=rng.choice(["", *"abcdefgh"]),
        scores=some_scores(rng),
        **{key: value for key, value in maybe.items() if rng.random() < 0.25},
    )


class SomeSource:
    """Answers alike each time; what it knows of the question, its notes and failures are random."""

    score_kinds = frozenset(ScoreKind)

    def __init__(self, source_id, rng):
        self.source_id = source_id
        self.fails = rng.random() < 0.1
        self.answer = SourceAnswer(
            chunks=[some_chunk(rng) for _ in range(rng.randint(0, 12))],
            notes=("a remark",) if rng.random() < 0.2 else (),
            cut=rng.randint(0, 3),
            by_keywords=rng.random() < 0.2,
            failures=(SourceError("a part is away", source_id=source_id),) if rng.random() < 0.1 else (),
            statistics=None
            if rng.random() < 0.5
            else TermStatistics(collection="base", chunks=99, document_frequency={"approv": 5, "rule": 40}),
            unknown_words=(UnknownWord("aproval", "approval"), UnknownWord("comittee", "committee"))
            if rng.random() < 0.4
            else None,
            filter_fields=("year", "tags") if rng.random() < 0.3 else None,
            calibration=ScopeCalibration(threshold=0.2, strong=0.5, signal="1") if rng.random() < 0.2 else None,
        )

    def search(self, query):
        if self.fails:
            raise SourceError(f"cannot answer {query.text}", source_id=self.source_id)
        return self.answer

    def close(self):
        pass


FILTERS = [
    None,
    Condition("tier", FilterOp.LTE, 3),
    Or((Condition("year", FilterOp.IN, ("2024", 2024)), Not(Condition("tags", FilterOp.EMPTY)))),
    Condition("fetched_at", FilterOp.GTE, date(2026, 3, 2)),
    Condition("colour", FilterOp.EQ, "red"),
]
SETTINGS = {
    "stage2_top_k": lambda rng: rng.randint(1, 12),
    "min_relevance_score": lambda rng: rng.random(),
    "scope_threshold": lambda rng: rng.choice([None, "auto", rng.random()]),
    "min_chunks": lambda rng: rng.randint(0, 9),
    "dedup_method": lambda rng: rng.choice(["near", "exact", "off"]),
    "dedup_threshold": lambda rng: rng.uniform(0.3, 1),
    "expired": lambda rng: rng.choice(["flag", "demote", "refuse"]),
    "similarity_threshold": lambda rng: rng.uniform(-1, 1),
    "relevance_weight": lambda rng: rng.uniform(0, 0.6),
    "rerank_weight": lambda rng: rng.random(),
    "rerank_top_n": lambda rng: rng.randint(1, 5),
    "max_per_document": lambda rng: rng.randint(1, 3),
    "mmr_lambda": lambda rng: rng.random(),
    "exact_first": lambda rng: rng.random() < 0.5,
    "multi_query": lambda rng: True,
}


def _fail(_query, _texts):
    raise ValueError("broken")


RERANKERS = [
    None,
    None,
    CallableReranker(lambda _query, texts: [len(text) % 11 / 11 for text in texts]),
    CallableReranker(lambda _query, _texts: None),
    CallableReranker(_fail),
]


def some_result(make_engine, spec_of, seed):
    """The result of a random search; one in which every source failed too."""
    rng = random.Random(seed)
    sources = [
        (spec_of(tier, trust_document_metadata=rng.random() < 0.3, url=rng.choice([None, TEMPLATE])), None)
        for tier in rng.sample(range(1, 6), rng.randint(1, 4))
    ]
    request = SearchRequest(
        query=rng.choice(QUERIES),
        domain="NPA",
        caller=Caller(principal=rng.choice([None, "p"]), app=rng.choice([None, "desk"])),
        principal=Principal(id=rng.choice(["", "u"]), roles=frozenset(rng.sample("abc", 2)), clearance="internal"),
        request_id=rng.choice([None, "r"]),
        as_of=rng.choice([None, date(2025, 12, 31)]),
        filters=rng.choice(FILTERS) if rng.random() < 0.4 else None,
        overrides={key: make(rng) for key, make in SETTINGS.items() if rng.random() < 0.25},
        require_tiers=rng.choice([(), (1,)]),
    )
    fields = {"glossary": GLOSSARY if rng.random() < 0.5 else {}, "timezone": "Asia/Singapore"}
    pool = [(spec, SomeSource(spec.id, rng)) for spec, _ in sources]
    with make_engine(pool, reranker=rng.choice(RERANKERS), domain_fields=fields) as engine:
        try:
            return engine.search(request)
        except AllSourcesFailed as error:
            return error.result


TEMPLATE = "https://policies.example/{document_id}#section={section}"


def other_value(rng, values, key):
    """Settings in which one key has another value, one that can be used."""
    now = getattr(values, key)
    tries = [
        None,
        True,
        False,
        1,
        2,
        17,
        70,
        {"code": 0.31},
        0.05,
        0.31,
        0.77,
        "x/y",
        "https://search.bank.example",
        "exact",
        "exact ",
        "off",
        "refuse",
        "flag",
        "near",
        "rrf",
        "auto",
    ]
    blend = {"measured_by": "bm25", "terms": {"length": {"weight": 2.0, "mean": 2.0, "deviation": 0.5}}}
    tries += [blend, "int8", "digest", "none", "required", "lindera", "bm25", "tiktoken:x", ("a",), ("email",), ("SG",)]
    tries += [("NEXT_CHUNK",), {"a": "b"}, {"a": {"b": 1}}, {"tier_1": 0.5}, 300, 4001, ("en",), "agentic", "model"]
    price = {"model": "m", "valid_from": "2026-01-01", "currency": "EUR"}
    tries.append(({**price, "input_per_million": 1, "output_per_million": 2},))
    tries.append({"deep": {"domain": "NPA", "a": {}, "b": {"stage2_top_k": 3}}})
    rng.shuffle(tries)
    for value in tries:
        try:
            changed = Settings.model_validate({**values.model_dump(), key: value})
        except ValidationError:
            continue
        if getattr(changed, key) != now:
            return changed
    raise AssertionError(f"no other value for {key}")


def batch_of(make_engine, spec_of, seeds):
    """Lines of JSON: a record, the bytes it must be replayed to, and settings of which one key changed since."""
    lines = []
    for seed in seeds:
        result = some_result(make_engine, spec_of, seed)
        rng = random.Random(seed)
        kept = rng.choice(["text", "digest"])
        draft = search_draft(
            result, AccessRecord(principal=Principal(id="u")), pseudonyms=SECRET, code_version="0", kept=kept
        )
        shared = {content.key: Addendum.of(content.kind, content.data) for content in draft.contents}
        composed = draft.compose({key: one.digest for key, one in shared.items()})
        assert len(composed.entry) <= MOST_ENTRY_BYTES
        key = rng.choice(sorted(Settings.model_fields))
        changed = EffectiveSettings(values=other_value(rng, result.settings.values, key))
        line = {
            "seed": seed,
            "query": result.query,
            "bytes": hashlib.sha256(stage_two_bytes(result)).hexdigest(),
            "entry": base64.b64encode(composed.entry).decode(),
            "addenda": [
                [one.kind, one.salt.hex(), base64.b64encode(one.data).decode()]
                for one in (*shared.values(), *composed.addenda)
            ],
            "key": key,
            "settings": changed.values.model_dump(mode="json"),
            "fates": len(result.fates),
        }
        lines.append(json.dumps(line))
    return lines


class Held:
    """Addenda by their digests; none was erased."""

    def __init__(self, addenda):
        self.held = {one.digest: one for one in addenda}

    def addenda(self, digests):
        return {digest: self.held[digest] for digest in digests}


def check_line(text):
    """Replay a record: to the same bytes, and with exactly the changed setting named."""
    line = json.loads(text)
    addenda = [Addendum(kind, bytes.fromhex(salt), base64.b64decode(data)) for kind, salt, data in line["addenda"]]
    entry = base64.b64decode(line["entry"])
    restored = restore(entry, Held(addenda), query=line["query"], pseudonyms=[SECRET])
    assert hashlib.sha256(stage_two_bytes(restored.result)).hexdigest() == line["bytes"], line["seed"]
    now = EffectiveSettings(values=Settings.model_validate(line["settings"]))
    replayed = replay(restored, code_version="0", settings_now=lambda _: now)
    assert replayed.identical, (line["seed"], replayed.difference)
    assert [one.key for one in replayed.changed_settings] == [line["key"]], line["seed"]
    (candidates,) = (one.data for one in addenda if one.kind == "candidates")
    assert len(mentions_of(entry, candidates)) == line["fates"]


def replaying_elsewhere(path, seed):
    """Another process that replays a batch, and prints how many records it held."""
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, __file__, str(path)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def replayed(process):
    """How many records it replayed."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    return int(out)


@pytest.mark.slow
def test_random_searches_are_replayed_to_the_same_bytes_and_one_changed_setting_is_named(make_engine, spec_of):
    for line in batch_of(make_engine, spec_of, range(30)):
        check_line(line)


@pytest.mark.slow
def test_random_results_are_the_same_after_saving_and_loading(make_engine, spec_of):
    for seed in range(1000, 1060):
        result = some_result(make_engine, spec_of, seed)
        saved = save_result(result, code_version="0")
        back = load_result(json.loads(json.dumps(saved, allow_nan=False)))
        assert stage_two_bytes(back) == stage_two_bytes(result)
        # NaN in the metadata equals nothing, but is written alike
        assert canonical_json(save_result(back, code_version="0")) == canonical_json(saved)


@pytest.mark.slow
def test_hundreds_of_random_searches_are_replayed_in_other_processes(make_engine, spec_of, tmp_path):
    count, running = 0, None
    for number in range(5):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(batch_of(make_engine, spec_of, range(number * 80, (number + 1) * 80))))
        count += replayed(running) if running else 0  # one batch is replayed while the next is made
        running = replaying_elsewhere(path, number)
    assert count + replayed(running) == 400


def main(path):
    lines = Path(path).read_text().splitlines()
    for line in lines:
        check_line(line)
    print(len(lines))


if __name__ == "__main__":
    main(sys.argv[1])
