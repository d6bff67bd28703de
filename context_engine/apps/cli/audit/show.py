"""`audit show`: the content of one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.audit.ledger import NO_KEY, LedgerLocation, opened_ledger, say_unproved, with_ledger
from context_engine.apps.cli.console import print_line, print_table, publish
from context_engine.apps.cli.options import with_json
from context_engine.audit.review.stored import answer_entries, context_entries, find_record, ledger_pseudonyms
from context_engine.core.models import Settings
from context_engine.core.text import counted
from context_engine.service.explaining.words import reason_words

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.review.account import Account


_SEARCHES: Final = ("search", "rank")
_NO_CHECKPOINT: Final = "No checkpoint covers this record yet: 'context-engine audit head' makes one."

SHOW: Final = """\b
Examples:
  context-engine audit show 019cad50-24a0-7afe-8262-0d28d32447a6
  context-engine audit show 019cad50-24a0-7afe-8262-0d28d32447a6 --texts
  context-engine audit show 019cad50-24a0-7afe-8262-0d28d32447a6 --json | jq '.entry.chunks[].sha256'
"""


@click.command(epilog=SHOW)
@click.argument("record_id", metavar="ID")
@click.option("--query", metavar="TEXT", help="The question, if only its digest was recorded.")
@click.option("--texts", is_flag=True, help="Also show the passages that the caller received.")
@with_json
@with_ledger
def show(at: LedgerLocation, record_id: str, query: str | None, texts: bool, as_json: bool) -> None:
    """Show the record ID: who asked, under which rule, which chunks were shown, and which were not and why.

    ID is the id of a search, a refusal, a context, an answer or another record of 'audit list'.
    """
    from context_engine.audit.review.account import account_of

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        record = find_record(ledger, record_id)
        account = account_of(
            record.entry,
            record.index,
            ledger,
            query=query,
            pseudonyms=ledger_pseudonyms(ledger),
            contexts=context_entries(ledger, record_id),
            answers=answer_entries(ledger, record_id),
        )
        passages = _passages(record.entry, ledger) if texts else None
        proof = _proof(ledger, record.index)
    if as_json:
        texts_shown = {} if passages is None else {"texts": [passage._asdict() for passage in passages]}
        publish({**account.to_dict(), "proof": proof, **texts_shown})
    else:
        print_account(account, proof)
        print_passages(passages or ())
    say_unproved(proof["not_proved"])


class ShownPassage(NamedTuple):
    """A chunk that an answer showed, with its text.

    Attributes:
        rank: 1-based.
        sha256: of the text, hex.
        text: None if it is no longer stored.
    """

    rank: int
    source: str
    chunk: str
    sha256: str
    text: str | None


def _passages(entry: bytes, ledger: Ledger) -> list[ShownPassage]:
    """Return the passages that an answer showed.

    Raises:
        InvalidRequest: the record is not of a search.
    """
    from context_engine.audit.review.shown import recorded_answer

    return [
        ShownPassage(
            chunk.rank,
            chunk.source_id,
            chunk.chunk_id,
            chunk.content_sha256,
            None if chunk.chunk is None else chunk.chunk.content,
        )
        for chunk in recorded_answer(entry, ledger).chunks
    ]


def _proof(ledger: Ledger, index: int | None) -> dict[str, Any]:
    """Return the first checkpoint that covers a record, and what it does not prove."""
    later = () if index is None else (each for each in ledger.checkpoints() if each.size > index)
    covering = next(iter(later), None)
    missing = [NO_KEY] if ledger.keyring is None else []
    return {
        "index": index,
        "checkpoint": None if covering is None else covering.size,
        "signed": covering is not None and "\n\n" in covering.note.rstrip("\n"),
        "not_proved": missing if covering is not None else [*missing, _NO_CHECKPOINT],
    }


_HASH: Final = 12
_STALE: Final = ("expired", "superseded")
_CHUNK_COLUMNS: Final = ("rank", "chunk", "document", "version", "tier", "fetched", "score", "sha-256", "flags")


def print_account(account: Account, proof: Mapping[str, Any]) -> None:
    """Print the account of a record, section by section, without empty sections.

    Args:
        proof: from `_proof`.
    """
    entry = account.entry
    _lines(f"{entry['kind']} {entry['id']}", _head(account, proof))
    _lines("Who", _who(account))
    _lines("Rule", _rule(entry))
    _table("Sources", ("source", "state", "chunks", "ms", "error"), _sources(entry))
    if entry["kind"] == "context":
        _table("Passages in the text", ("label", "source", "chunks"), _context_passages(entry))
        _table("Left out", ("source", "chunk", "reason"), entry.get("left_out", ()))
    elif entry["kind"] == "answer":
        _lines("Answer", _answer(account))
        _lines("Searches", _searches(account))
    else:
        _table("Shown", _CHUNK_COLUMNS, _chunks(entry))
        _lines("Stale", _stale(entry))
        _lines("Not shown", _not_shown(account))
    _table("Withheld", ("source", "chunk", "classification"), entry.get("withheld", ()))
    _lines("Notices", _notices(account))
    _lines("Settings that differ from the default", _settings(account))
    _table("Contexts", ("id", "time", "tokens", "blocks"), _contexts(account))
    _table("Answers", ("id", "time", "mode", "sentences"), _answers(account))
    _lines("No longer stored", (f"{part.kind}: {part.why}" for part in account.missing))


def print_passages(passages: Iterable[ShownPassage]) -> None:
    """Print the texts that an answer showed, each below its rank and id."""
    for passage in passages:
        text = passage.text if passage.text is not None else "(the ledger no longer has its text)"
        _lines(f"{passage.rank}  {passage.source}/{passage.chunk}", text.splitlines())


def _head(account: Account, proof: Mapping[str, Any]) -> list[str]:
    entry, index = account.entry, account.index
    outcome = [str(entry[name]) for name in ("domain", "status", "decision") if entry.get(name)]
    refused = f"  refused: {entry['error']['code']}" if entry.get("error") else ""
    place = "waits to be integrated" if index is None else f"record {index} of the log"
    covered = f", covered by the checkpoint of {proof['checkpoint']} records" if proof["checkpoint"] else ""
    made = f"; made by version {entry['code']}" if entry.get("code") else ""
    return [
        f"{entry.get('time')}  {' · '.join(outcome)}{refused}".rstrip(),
        *([f"question: {_asked(account)}"] if "query" in entry else []),
        *([str(account.question["message"])] if account.question and "message" in account.question else []),
        *([f"of search {entry['search']}"] if "search" in entry else []),
        *_done_to_the_log(entry),
        f"{place}{covered}{made}",
    ]


def _done_to_the_log(entry: Mapping[str, Any]) -> list[str]:
    """Describe a record about the log itself: an erasure, a key, a loss or a pruning."""
    match entry["kind"]:
        case "erasure":
            count = len(entry.get("digests", ()))
            erased = f"{count} addendum" if count == 1 else f"{count} addenda"
            return [f"{erased} erased by {entry.get('by')}: {entry.get('reason')}"]
        case "key":
            was = f"was: {entry['was']}, which {'endorsed' if entry.get('endorsed') else 'did not endorse'} this one"
            return [f"key: {entry.get('now')}", *([was] if entry.get("was") else ["the first key of this log"])]
        case "loss":
            lost = counted(int(entry.get("count", 0)), "record")
            return [f"{lost} lost between {entry.get('since')} and {entry.get('until')}"]
        case "pruning":
            return [f"records before index {entry.get('minimum')} removed, all older than {entry.get('before')}"]
    return []


def _asked(account: Account) -> str:
    """Return the question, or why it is not known."""
    if account.answer is not None:
        return str(account.answer["question"])
    if account.question is None:
        return f"it {account.question_missing}"
    kept = account.question.get("result", account.question)
    return str(kept.get("query") or (kept.get("request") or {}).get("query", ""))


_NO_RULES: Final = "clearance: not needed, because no access rules were in force"


def _who(account: Account) -> list[str]:
    caller = account.entry.get("caller")
    if not isinstance(caller, Mapping):
        return []
    names = [f"{name}: {', '.join(caller[name])}" for name in ("roles", "groups") if caller.get(name)]
    behalf = [f"on behalf of {caller['for']}"] if caller.get("for") else []
    app = [f"app: {account.entry['app']}"] if account.entry.get("app") else []
    known = caller.get("pseudonym") or "nobody was named"
    ruled = (account.entry.get("hashes") or {}).get("policy")
    is_free = account.entry.get("kind") in _SEARCHES and not ruled  # other records do not say whether there were rules
    cleared = _NO_RULES if is_free else f"clearance: {caller.get('clearance')}"
    return [f"{known}{_clear_name(account)}", *behalf, *names, cleared, *app]


def _clear_name(account: Account) -> str:
    """Return the caller's own id, which is stored with the question."""
    question = account.question or {}
    request = question.get("result", question).get("request") or {}
    name = request.get("principal", {}).get("id") or request.get("caller", {}).get("principal")
    return f" ({name})" if name else ""


def _rule(entry: Mapping[str, Any]) -> list[str]:
    hashes = entry.get("hashes", {})
    named = [f"{name}: {value[:_HASH]}" for name, value in hashes.items() if value]
    denied = [f"{source} was not searched: {reason}" for source, reason in entry.get("denied", ())]
    return [*([", ".join(named)] if named else []), *denied]


def _sources(entry: Mapping[str, Any]) -> list[Sequence[Any]]:
    return [
        (source["id"], source["state"], source["chunks"], source["ms"], source.get("error", ""))
        for source in entry.get("sources", ())
    ]


def _chunks(entry: Mapping[str, Any]) -> list[Sequence[Any]]:
    return [
        (
            rank,
            f"{chunk['source']}/{chunk['chunk']}",
            chunk.get("document") or "",
            chunk.get("version") or "",
            chunk.get("tier", ""),
            chunk.get("fetched_at", "")[:10],
            f"{chunk['final']:.4f}" if "final" in chunk else "",
            (chunk.get("sha256") or "")[:_HASH],
            ", ".join(chunk.get("flags", ())),
        )
        for rank, chunk in enumerate(entry.get("chunks", ()), start=1)
    ]


def _stale(entry: Mapping[str, Any]) -> list[str]:
    chunks = entry.get("chunks", ())
    flagged = ((chunk["chunk"], [flag for flag in chunk.get("flags", ()) if flag in _STALE]) for chunk in chunks)
    return [f"{chunk}: {', '.join(flags)}" for chunk, flags in flagged if flags]


def _not_shown(account: Account) -> list[str]:
    """Return how many candidates were merged or dropped, by stage and reason."""
    ends = Counter(
        (fate["outcome"], fate["stage"], fate["reason"]) for fate in account.fates if fate["outcome"] != "returned"
    )
    return [
        f"{counted(count, 'candidate')} {outcome} at {stage}: {reason_words(reason)}"
        for (outcome, stage, reason), count in ends.most_common()
    ]


def _notices(account: Account) -> list[str]:
    """Return the sentences of the notices if they are stored, else the codes."""
    question = account.question or {}
    kept = question.get("result", {}).get("notices")
    if kept:
        return [str(notice["message"]) for notice in kept]
    return [f"{code} {subject}".strip() for code, subject in account.entry.get("notices", ())]


def _settings(account: Account) -> list[str]:
    defaults = Settings().model_dump(mode="json")
    return [
        f"{key}: {setting['value']} ({setting['origin']})"
        for key, setting in (account.settings or {}).items()
        if key not in defaults or setting["value"] != defaults[key]
    ]


def _contexts(account: Account) -> list[Sequence[Any]]:
    return [
        (context["id"], context["time"], f"{context['tokens']} of {context['budget']}", len(context["chunks"]))
        for context in account.contexts
    ]


def _answers(account: Account) -> list[Sequence[Any]]:
    return [
        (answer["id"], answer["time"], answer["mode"], answer["refusal"] or len(answer["sentences"]))
        for answer in account.answers
    ]


def _answer(account: Account) -> list[str]:
    """Return the lines of an answer: each sentence with its verdict, its quotes and what is wrong with it."""
    entry, words = account.entry, account.answer
    model = entry.get("model") or {}
    usage, cost = model.get("usage") or {}, model.get("cost") or {}
    lines = [f"{entry['mode']}{', ' + model['name'] if model else ''}; unsupported sentences: {entry['policy']}"]
    if usage:
        spent = f", {cost['amount']} {cost['currency']}" if cost else ""
        lines.append(f"{usage['input_tokens']} tokens read, {usage['output_tokens']} written{spent}")
    if entry.get("refusal"):
        lines.append(f"refused: {entry['refusal']}")
    if words is None:
        return [*lines, f"the answer {account.question_missing}"]
    if words["asked"] != words["question"]:
        lines += [f"asked: {words['asked']}", f"searched: {words['question']}"]
    for facts, sentence in zip(entry["sentences"], words["sentences"], strict=False):
        shown = "" if facts["shown"] else ", not shown"
        lines.append(f"{' '.join(sentence['text'].split())} {''.join(facts['labels'])} ({facts['verdict']}{shown})")
        lines += [f"  {finding['code']}: {finding['detail']}" for finding in sentence["findings"]]
        lines += [f"  {_evidence(quote)}" for quote in sentence["quotes"]]
    return lines


def _searches(account: Account) -> list[str]:
    """Return the lines of a workflow: each search with its record, and why it ended."""
    workflow = account.entry.get("workflow")
    if workflow is None:
        return []
    words = (account.answer or {}).get("searches") or [{"query": "", "cites": ""}] * len(workflow["rounds"])
    lines = [
        f"{number}  {made['search']}  {made['why']}, {counted(made['chunks'], 'passage')}: {asked['query']}".rstrip(
            " :"
        )
        for number, (made, asked) in enumerate(zip(workflow["rounds"], words, strict=True), start=1)
    ]
    limits = ", ".join(f"{name} {value:g}" for name, value in workflow["limits"].items())
    return [*lines, f"stopped: {workflow['stopped']}; policy: {workflow['policy']}; limits: {limits}"]


def _evidence(quote: Mapping[str, Any]) -> str:
    return f"{quote['label']} {quote.get('source')}/{quote.get('chunk')}: {' '.join(quote['text'].split())}"


def _context_passages(entry: Mapping[str, Any]) -> list[Sequence[Any]]:
    return [(chunk["label"], chunk["source"], ", ".join(chunk["chunks"])) for chunk in entry.get("chunks", ())]


def _lines(title: str, lines: Iterable[str]) -> None:
    shown = list(lines)
    if not shown:
        return
    print_line()
    print_line(title, "bold")
    for line in shown:
        print_line(f"  {line}")


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if not rows:
        return
    print_line()
    print_line(title, "bold")
    print_table(names, rows, indented=True)
