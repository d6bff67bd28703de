"""`eval tune --adapter`: learn an adapter from judged questions or from the base's own pairs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import error_line, note, outcome, print_line, print_table
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.eval.options import change_cells, change_style, chosen_measure, open_evaluation, write_json
from context_engine.apps.cli.eval.tune_blend import check_target, tune_blend_beside
from context_engine.apps.cli.kb.base import print_calibrations
from context_engine.apps.cli.progress import busy, progress_bar
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Mapping

    from context_engine.adapters.sources.domain_adapter import DomainAdapter
    from context_engine.core.models import DomainSpec
    from context_engine.evaluation.learning.adapter_gate import AdapterTrial, JudgedSearch
    from context_engine.evaluation.learning.own_start import OwnStart
    from context_engine.evaluation.learning.taught_base import TaughtBase
    from context_engine.evaluation.session import Session
    from context_engine.learning.parts import QuestionParts

_MOST_NAMED: Final = 5


def tune_adapter(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn an adapter from the judged questions of a domain; put it in force if it is better beyond noise.

    Raises:
        ConfigError: no embedder is configured, or the base holds no vectors of the domain.
        InvalidRequest: the questions are of several domains, or too few.
        MissingExtra: numpy is not installed.
    """
    try:
        from context_engine.evaluation.learning.adapter_gate import JudgedSearch, evidence
    except ImportError as error:
        raise MissingExtra("learning an adapter", "vectors") from error
    judged = options["queries"] or options["qrels"] or options["judgements"]
    if options["own_pairs"] and not judged:
        _tune_unjudged(location, options)
        return
    context, session = open_evaluation(location, options)
    domain = _domain(session, options["domain"])
    check_target(options["write"], domain)
    with _taught(context, domain) as taught:
        search = JudgedSearch(
            base=taught.base,
            domain=taught.domain.domain,
            source_ids=taught.sources,
            qrels=session.qrels,
            known=session.corpus.by_chunk_id(),
            rejected=session.rejected,
            access=context.scope,
        )
        trial = _trial(session, search, taught, options)
        adapter_id = None if trial.adapter is None else trial.adapter.adapter_id
        adapter_json = evidence(trial) | {"adapter": adapter_id, "untaught_questions": list(trial.untaught)}
        if not options["as_json"]:
            _print(trial, refusal_follows=_is_refused(trial, options) and not options["dry_run"])
        elif not options["blend"]:
            write_json(adapter_json, demo=context.demo)
        if not options["dry_run"]:
            _apply(context, taught, trial, options)
        if options["blend"]:
            tune_blend_beside(session, taught, trial, options, adapter_json)


def _tune_unjudged(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn an adapter from a domain's base only and keep it; put it in force only with --force."""
    context = open_context(location, domain=options["domain"], one_domain=True)
    with _taught(context, context.domain) as taught:
        start = _learn_own_pairs(taught)
        if options["as_json"]:
            write_json({"own_pairs": start.evidence()}, demo=context.demo)
        if start.maps is None:
            error_line("no adapter is kept: on pairs held aside the model alone is as good")
            click.get_current_context().exit(FAILURE)
        if not options["dry_run"]:
            _keep_unjudged(context, taught, start, force=options["force"])


def _taught(context: CliContext, domain: str) -> AbstractContextManager[TaughtBase]:
    from context_engine.evaluation.learning.taught_base import taught_base

    return taught_base(context.setup, context.data_dir, context.registry.domain(domain), context.scope)


def _learn_own_pairs(taught: TaughtBase) -> OwnStart:
    """Learn from the pairs that a base makes itself, and print the result.

    Raises:
        InvalidRequest: the base makes too few pairs.
    """
    from context_engine.evaluation.learning.own_start import learn_own

    with busy("Learning from the base's own pairs; a model on a CPU embeds about 5,000 questions a minute …"):
        start = learn_own(taught.held, taught.embedder)
    gain, kinds = start.gain, ", ".join(f"{count} {kind}" for kind, count in sorted(start.kinds.items()))
    pairs, rounds = sum(start.kinds.values()), counted(start.rounds, "round")
    note(f"{pairs} own pairs ({kinds}); {rounds} were best on {start.choosing} of them.")
    note(f"On {start.aside} others, which were not used to learn or to choose, by cosine alone:")
    note(f"  AP@10 {start.before:.4f}, learnt {gain.mean:+.4f}, 95 % {gain.low:+.4f} to {gain.high:+.4f}")
    if start.maps is None:
        note("  not better beyond noise: nothing is taken over from them.")
    return start


def _keep_unjudged(context: CliContext, taught: TaughtBase, start: OwnStart, *, force: bool) -> None:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

    assert start.maps is not None
    adapter = DomainAdapter(taught.base.vector_model(), *start.maps)
    evidence = {"questions": 0, "own_pairs": start.evidence()}
    name = taught.domain.domain
    if force:
        adapter_id = _put_in_force(context, taught, adapter, evidence, context.setup.registry.domain(name))
        outcome("in force", f"{name} is searched with {adapter_id}; 'kb adapter undo' takes it back")
        return
    adapter_id = taught.base.keep_adapter(name, adapter, evidence, taught.held.origin).adapter_id
    outcome("kept", f"{adapter_id}, not in force: no judged question shows that it helps")
    note("Own pairs are made of text passages, not of real questions, and learning from them did not help every")
    note(f"domain. Judge some questions, or try the adapter: 'kb adapter use {adapter_id} -d {name}'.")


def _put_in_force(
    context: CliContext, taught: TaughtBase, adapter: DomainAdapter, evidence: Mapping[str, Any], domain: DomainSpec
) -> str:
    """Keep an adapter, calibrate the scope threshold under it and put it in force; return its id."""
    from context_engine.evaluation.learning.taught_base import judged_questions
    from context_engine.wiring.scope import use_adapter

    judged = judged_questions(context.setup).get(domain.domain, ())
    kept = taught.base.keep_adapter(domain.domain, adapter, evidence, taught.held.origin)
    with busy("Calibrating …"):
        calibration = use_adapter(
            context.setup, taught.base, domain, kept.adapter_id, judged=judged, adapter=taught.adapter
        )
    print_calibrations([calibration])
    return kept.adapter_id


def _domain(session: Session, chosen: str | None) -> str:
    names = sorted({name for _, name in session.questions})
    if chosen is None and len(names) > 1:
        raise InvalidRequest(
            f"an adapter is for one domain, but the questions are of {', '.join(names)}: give --domain"
        )
    return chosen or names[0]


def _trial(session: Session, search: JudgedSearch, taught: TaughtBase, options: dict[str, Any]) -> AdapterTrial:
    from context_engine.evaluation.learning.adapter_gate import check_learnable, learn_adapter
    from context_engine.evaluation.learning.judged_pairs import judged_pairs
    from context_engine.learning.contrast import lessons_of

    measure = chosen_measure(options)
    questions = [question for question, domain in session.questions if domain == search.domain]
    judged = judged_pairs(questions, session.qrels, taught.held)
    check_learnable(judged, options["folds"])
    own = _learn_own_pairs(taught) if options["own_pairs"] else None
    with busy(f"Learning from {counted(len(judged.ids), 'judged question')} …"):
        lessons = lessons_of(judged.pairs, taught.held, taught.embedder)
    with progress_bar("Searching …") as progress:
        trial = learn_adapter(
            search, judged, lessons,
            measure=measure, folds=options["folds"], first=None if own is None else own.maps,
            whole=options["force"], progress=progress,
        )  # fmt: skip
    return trial if own is None else replace(trial, more={"own_pairs": own.evidence()})


def _apply(context: CliContext, taught: TaughtBase, trial: AdapterTrial, options: dict[str, Any]) -> None:
    """Put the adapter in force, or print why not and exit with code 1."""
    from context_engine.evaluation.learning.adapter_gate import USUALLY_NEEDED, evidence

    if trial.adapter is None or _is_refused(trial, options):
        forced = " (--force puts it in force anyway)" if trial.adapter is not None else ""
        error_line(f"no adapter is put in force: {trial.refusal}{forced}")
        if trial.pairs < USUALLY_NEEDED:
            note(
                f"It was learnt from {trial.pairs} judged answers; adapters that helped needed about {USUALLY_NEEDED}."
            )
        if trial.adapter is not None and trial.gains(known=True):
            _print_known_gain(trial)
        click.get_current_context().exit(FAILURE)
    adapter_id = _put_in_force(context, taught, trial.adapter, evidence(trial), taught.domain)
    if not options["as_json"]:
        forced = ", because of --force" if trial.refusal is not None else ""
        name = taught.domain.domain
        outcome("in force", f"{name} is searched with {adapter_id}{forced}; 'kb adapter undo' takes it back")


def _is_refused(trial: AdapterTrial, options: dict[str, Any]) -> bool:
    return trial.adapter is None or (trial.refusal is not None and not options["force"])


def _print_known_gain(trial: AdapterTrial) -> None:
    """Print the gain for known answers; only the bank can tell whether people ask for these again."""
    gain, (passages, judged) = trial.difference(trial.measures[0], known=True), trial.passages
    note(f"For answers that it was learnt from, it gains {trial.measures[0]} {gain.mean:+.4f}. {judged} of the base's")
    note(f"{passages} passages answer a judged question: use --force if people rarely ask for any other.")


def _print(trial: AdapterTrial, *, refusal_follows: bool) -> None:
    """Print the measurements, and the refusal unless an error line with it follows."""
    from context_engine.evaluation.learning.adapter_gate import dense_means
    from context_engine.evaluation.metrics import mean

    names = ("model alone", "new answers", "gain", "95 %", "known answers", "gain", "95 %", "cosine alone")
    rows = []
    dense = dense_means(trial.folds, trial.measures)
    for measure in trial.measures:
        row = [Text(measure, "bold"), Text(f"{mean(trial.before, measure):.4f}")]
        for scores, known in ((trial.after, False), (trial.known, True)):
            gain = trial.difference(measure, known=known)
            row += [Text(f"{mean(scores, measure):.4f}"), *change_cells(gain, change_style(gain))]
        rows.append((*row, Text(f"{dense[0][measure]:.4f} to {dense[1][measure]:.4f}", "dim")))
    print_table(("measure", *(f">!{name}" for name in names)), rows)
    print_line()
    learnt = f"{trial.questions} judged questions, {trial.pairs} pairs, {counted(trial.folds.rounds, 'round')}"
    print_line(f"{learnt}; {_parts(trial.parts)}")
    if trial.kept < 1.0:
        print_line(
            f"{trial.kept:.0%} of what was learnt is kept: with all of it, held-out questions lost; --force keeps all"
        )
    if trial.untaught:
        count, named = len(trial.untaught), ", ".join(trial.untaught[:_MOST_NAMED])
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        unused = f"{counted(count, 'other')} not used, because their judged answers match no passage of the base or"
        print_line(f"{unused} too many: {named}{more}")
    if refusal_follows:
        return
    if trial.refusal:
        print_line(trial.refusal, "yellow")
        return
    new = "also for new answers" if trial.gains() else "for known answers in other words; no difference for new answers"
    print_line(f"better beyond noise on held-out questions, {new}", "green")


def _parts(parts: QuestionParts) -> str:
    """Describe how the questions were divided to measure new answers."""
    sizes = sorted(map(len, parts.places))
    size = str(sizes[0]) if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    if not parts.cut:
        return f"{len(sizes)} parts of {size} that share no answer, {counted(parts.groups, 'group')}"
    return (
        f"{len(sizes)} parts of {size}: {parts.largest} questions are connected by shared answers, too many for one "
        "part, so the answers of held-out questions were left out of the training instead"
    )
