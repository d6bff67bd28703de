"""Learn a domain's blend from judged questions, measure it on others, and write it into the domain's manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from context_engine.core.engine import Engine
from context_engine.core.models import LearntBlend
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation import charts
from context_engine.evaluation.account import Trouble
from context_engine.evaluation.blocks import Figure, ReportDocument, ReportSection, Table, Text, Tile, shown, signed
from context_engine.evaluation.gold import GoldHit
from context_engine.evaluation.learning.blend_lessons import BlendLessons, blend_lessons
from context_engine.evaluation.metrics import Paired, Scores, mean, paired_bootstrap
from context_engine.evaluation.run import Depth, Progress, hits_of, with_settings
from context_engine.evaluation.score import score_rankings
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import Variant
from context_engine.learning.parts import QuestionParts, parts_of
from context_engine.settings import Setting

if TYPE_CHECKING:
    from context_engine.core.protocols import Trainable
    from context_engine.evaluation.learning.adapter_gate import AdapterTrial


FEWEST_TAUGHT: Final = 50
"""Fewest questions to learn from, for a dozen weights."""
_SETTINGS: Final = re.compile(r"^settings:[ \t]*(#.*)?\n", re.MULTILINE)
_BLEND: Final = re.compile(r"^([ \t]+)learnt_blend:.*\n((\1[ \t]+.*|[ \t]*)\n)*", re.MULTILINE)
_INDENT: Final = re.compile(r"(?:[ \t]*(?:#.*)?\n)*([ \t]+)\S")
_ALWAYS: Final = ("nDCG@10", "R@10", "AP@10")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendTrial:
    """A learnt blend, and its measurements on held-out questions.

    Attributes:
        domain: the domain of the questions.
        blend: learnt from all questions, with its evidence.
        measures: the names of the measures; the first decides.
        before, after: the measures of each judged question without a blend, and with one learnt from other questions.
        taught: number of questions learnt from.
        parts: the held-out parts.
        troubles: sources and models that failed during the questions.
    """

    domain: str
    blend: LearntBlend
    measures: tuple[str, ...]
    before: Scores
    after: Scores
    taught: int
    parts: QuestionParts
    troubles: tuple[Trouble, ...] = ()

    @property
    def held_out(self) -> Mapping[str, Any]:
        """`before`, `after` and `difference` (mean, low, high) by measure, from the blend's evidence."""
        return cast(Mapping[str, Any], self.blend.evidence["held_out"])

    def difference(self, measure: str) -> Paired:
        """Return the paired difference on held-out questions."""
        names = sorted(self.before)
        ours, theirs = ([scores[name][measure] for name in names] for scores in (self.after, self.before))
        return paired_bootstrap(ours, theirs)

    @property
    def refusal(self) -> str | None:
        """The reason not to use it; None if it is better beyond noise and recall is not worse beyond noise."""
        measure = self.measures[0]
        gain, recall = self.difference(measure), self.difference("R@10")
        if not (gain.beyond_noise and gain.mean > 0.0):
            return f"on held-out questions it is not better beyond noise ({gain.text(measure)})"
        if recall.beyond_noise and recall.mean < 0.0:
            return f"on held-out questions it finds less ({recall.text('R@10')})"
        return f"answers were incomplete while it was learnt: {self.troubles[0]}" if self.troubles else None


def learn_blend(
    session: Session,
    engine: Engine,
    *,
    measure: str,
    folds: int = 5,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> BlendTrial:
    """Learn a blend from a session's judged questions, and measure it on each of them while held out.

    Every question is searched for once; the effect of a blend is computed from the answers.

    Args:
        session: its judged questions are of one domain.
        measure: a name of ir_measures; it decides.
        top_k: number of returned chunks; None: the domain's stage2_top_k.
        progress: receives (questions done, total, question id).

    Raises:
        InvalidRequest: questions of several domains, or too few to learn from.
        MissingExtra: numpy is not installed.
    """
    domain = one_domain(session)
    measures = tuple(dict.fromkeys((measure, *_ALWAYS)))
    depth = session.depth(Variant(), measures, top_k)
    parts_of([question.text for question, _ in session.questions if question.id in session.qrels], None, folds)
    lessons = blend_lessons(session, engine, domain, depth, progress)
    return trial_of(session, lessons, measures=measures, folds=folds, depth=depth)


def learn_stacked(
    session: Session,
    base: Trainable,
    origin: Any,
    domain: str,
    trial: AdapterTrial,
    *,
    measure: str,
    folds: int = 5,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> BlendTrial:
    """Learn a blend from the questions that an adapter was learnt from; see `learn_blend` and `stacked_lessons`."""
    from context_engine.evaluation.learning.stacked import stacked_lessons

    measures = tuple(dict.fromkeys((measure, *_ALWAYS)))
    asked = session.only(set(trial.ids))
    depth = asked.depth(Variant(), measures, top_k)
    lessons = stacked_lessons(asked, base, origin, domain, trial, depth, progress)
    return trial_of(asked, lessons, measures=measures, folds=folds, depth=depth)


def one_domain(session: Session) -> str:
    """Return the domain of the judged questions.

    Raises:
        InvalidRequest: the questions are of several domains.
    """
    names = sorted({domain for question, domain in session.questions if question.id in session.qrels})
    if len(names) != 1:
        raise InvalidRequest(
            f"a blend is learnt for one domain, but the judged questions are of {', '.join(names)}: give files of one"
        )
    return names[0]


def trial_of(
    session: Session, lessons: BlendLessons, *, measures: tuple[str, ...], folds: int, depth: Depth
) -> BlendTrial:
    """Return the blend of all questions, with each fold measured under the blend of the other folds.

    Args:
        measures: the first decides; R@10 is one of them.

    Raises:
        InvalidRequest: too few questions to learn from.
    """
    taught = lessons.taught
    if len(taught) < FEWEST_TAUGHT:
        raise InvalidRequest(
            f"{len(taught)} judged questions of {lessons.domain} have candidates that answer and others that do not, "
            f"and a blend needs at least {FEWEST_TAUGHT}: {_remedy(lessons)}"
        )
    before: dict[str, Sequence[GoldHit]] = {}
    after: dict[str, Sequence[GoldHit]] = {}
    names, parts = list(lessons.of), _parts(session, lessons, folds)
    for places in parts.places:
        part = [names[place] for place in places]
        blend = lessons.learn(set(taught) - set(part))
        for name in part:
            before[name], after[name] = (blended_hits(lessons, name, tried, depth) for tried in (None, blend))
    trial = BlendTrial(
        domain=lessons.domain,
        blend=lessons.learn(taught),
        measures=measures,
        before=scores_of(session, before, depth, measures),
        after=scores_of(session, after, depth, measures),
        taught=len(taught),
        parts=parts,
        troubles=lessons.troubles,
    )
    return replace(trial, blend=trial.blend.model_copy(update={"evidence": _evidence(trial)}))


def _parts(session: Session, lessons: BlendLessons, folds: int) -> QuestionParts:
    """Divide the questions into parts that share neither a gold id nor an answering candidate."""
    texts = {question.id: question.text for question, _ in session.questions}
    answers = [{*session.qrels[name], *lesson.answers} for name, lesson in lessons.of.items()]
    return parts_of([texts[name] for name in lessons.of], answers, folds)


def _remedy(lessons: BlendLessons) -> str:
    """Return the remedy for too few questions."""
    if lessons.troubles:
        return f"repair this first, {'; '.join(map(str, lessons.troubles))}"
    return "judge more with 'context-engine eval judge'"


def blended_hits(lessons: BlendLessons, name: str, blend: LearntBlend | None, depth: Depth) -> Sequence[GoldHit]:
    """Return the ranking of a question by a blend; None: without one."""
    lesson = lessons.of[name]
    if blend is not None and lesson.own is not None:
        own = {"cosine": blend.cosine and lesson.own.cosine, "reranker": blend.reranker and lesson.own.reranker}
        blend = blend.model_copy(update=own)
    return hits_of(with_settings(lesson.result, {"learnt_blend": Setting(blend, "evaluation")}), depth)


def scores_of(session: Session, hits: Mapping[str, Sequence[GoldHit]], depth: Depth, measures: Sequence[str]) -> Scores:
    """Return the measures of rankings, for each judged question."""
    read = {question.id: depth.read(domain) for question, domain in session.questions}
    return score_rankings("", hits, session.qrels, measures, read=read, rejected=session.rejected).scores


def _evidence(trial: BlendTrial) -> dict[str, Any]:
    """Return the blend's evidence, JSON-ready."""
    held_out = {}
    for measure in trial.measures:
        gain = trial.difference(measure)
        held_out[measure] = {
            "before": round(mean(trial.before, measure), 4),
            "after": round(mean(trial.after, measure), 4),
            "difference": [round(value, 4) for value in (gain.mean, gain.low, gain.high)],
        }
    return {
        "questions": len(trial.before),
        "learnt_on": trial.taught,
        "folds": len(trial.parts.places),
        "parts": trial.parts.evidence(),
        "decided_by": trial.measures[0],
        "better_beyond_noise": trial.refusal is None,
        "held_out": held_out,
    }


_HELD_OUT = (
    "Each part of the questions is held out once and ranked by the blend learnt on the others. Questions that share "
    "an answer are in one part."
)
_TERMS = (
    "A candidate's score is the sum of weight x (value - mean) / deviation over the terms; its relevance falls with "
    "the distance to the best of them."
)


def blend_report(trial: BlendTrial, *, title: str) -> ReportDocument:
    """Return the trial of a blend as a report."""
    measure = trial.measures[0]
    gain = trial.difference(measure)
    verdict = "better beyond noise" if trial.refusal is None else "not to be used"
    held_out = trial.held_out
    return ReportDocument(
        title=title,
        lead=f"Learnt on {trial.taught} of {len(trial.before)} judged questions of {trial.domain}, in "
        f"{len(trial.parts.places)} folds. {(trial.refusal or verdict).capitalize()}.",
        notes=[str(trouble) for trouble in trial.troubles],
        tiles=[
            Tile(label=f"{measure}, held out", value=shown(held_out[measure]["after"]), note="learnt on the others"),
            Tile(label="Without a blend", value=shown(held_out[measure]["before"]), note="on the same questions"),
            Tile(
                label="Difference",
                value=signed(gain.mean),
                note=f"{signed(gain.low)} to {signed(gain.high)}",
                change=verdict,
                mood="good" if trial.refusal is None else "even",
            ),
        ],
        sections=[
            ReportSection(title="Held out", blocks=[Text(_HELD_OUT), _measures(trial)], wide=True),
            ReportSection(title="Terms", blocks=[Text(_TERMS), _weights(trial)], wide=True),
            ReportSection(title="Weights", blocks=[_drawn(trial)]),
        ],
    )


def _measures(trial: BlendTrial) -> Table:
    rows = []
    for measure, row in trial.held_out.items():
        mean, low, high = row["difference"]
        rows.append(
            [measure, shown(row["before"]), shown(row["after"]), signed(mean), f"{signed(low)} to {signed(high)}"]
        )
    return Table(columns=["<measure", "without", "held out", "difference", "95 %"], rows=rows)


def _weights(trial: BlendTrial) -> Table:
    rows = [
        [name, signed(term.weight), shown(term.mean), shown(term.deviation)] for name, term in trial.blend.terms.items()
    ]
    return Table(columns=["<term", "weight", "mean", "deviation"], rows=rows)


def _drawn(trial: BlendTrial) -> Figure:
    bars = [
        charts.Bar(name, abs(term.weight), signed(term.weight), series=0 if term.weight >= 0.0 else 1)
        for name, term in sorted(trial.blend.terms.items(), key=lambda item: -abs(item[1].weight))
    ]
    return Figure(svg=charts.bars(bars, "Weights of the terms"), caption=charts.key(["for a candidate", "against it"]))


def check_manifest(path: Path, domain: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a domain's manifest and its parsed content.

    Raises:
        ConfigError: the file cannot be read, or is the manifest of another domain.
    """
    try:
        text = path.read_text("utf-8-sig")
        content = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be added to: {error}", file=str(path)) from None
    if not isinstance(content, dict) or content.get("domain") != domain:
        raise ConfigError(f"is not the manifest of {domain}: a blend belongs to one domain", file=str(path))
    return text, content


def manifest_with_blend(path: Path, domain: str, blend: LearntBlend) -> str:
    """Return the text of a domain's manifest with the blend as its setting `learnt_blend`; an old blend is replaced.

    Raises:
        ConfigError: see `check_manifest`; or the settings are not written one per line.
    """
    text, content = check_manifest(path, domain)
    value = blend.model_dump(mode="json", exclude_none=True)
    written = _inserted(text if text.endswith("\n") else f"{text}\n", value)
    if yaml.safe_load(written) != {**content, "settings": {**(content.get("settings") or {}), "learnt_blend": value}}:
        raise ConfigError(
            "learnt_blend cannot be added to it: write 'settings:' on a separate line, each setting on a line below",
            file=str(path),
        )
    return written


def _inserted(text: str, value: dict[str, Any]) -> str:
    block = yaml.safe_dump({"learnt_blend": value}, sort_keys=False, allow_unicode=True, width=120)
    settings = _SETTINGS.search(text)
    if settings is None:
        return f"{text}settings:\n{indent(block, '  ')}"
    head, rest = text[: settings.end()], text[settings.end() :]
    known = _INDENT.match(rest)
    block = indent(block, known[1] if known else "  ")
    before = _BLEND.search(rest)
    if before is None:
        return head + block + rest
    return head + rest[: before.start()] + block + rest[before.end() :]
