"""`eval tune --adapter`: learn an adapter from judged questions or from the base's own pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import clean, error_line, note, out, outcome, show, table
from context_engine.apps.cli.context import CliContext, ConfigLocation, only_domain, open_context
from context_engine.apps.cli.eval.options import asking, opened, write_json
from context_engine.apps.cli.eval.tune_blend import check_target, tune_blend_beside
from context_engine.apps.cli.kb.base import TaughtBase, busy, judged_questions, print_calibrations, taught_base
from context_engine.apps.cli.words import counted
from context_engine.errors import InvalidRequest, MissingExtra

if TYPE_CHECKING:
    from context_engine.evaluation.learning.adapter_gate import AdapterTrial, JudgedSearch
    from context_engine.evaluation.learning.own_start import OwnStart
    from context_engine.evaluation.session import Session
    from context_engine.learning.parts import QuestionParts


def own_start(taught: TaughtBase) -> OwnStart:
    """Learn from the pairs that a base makes itself, and say what came of it.

    Raises:
        InvalidRequest: the base makes too few pairs.
    """
    from context_engine.evaluation.learning.own_start import learn_own

    with busy("Learning from the base's own pairs; a model on a CPU embeds some 5,000 questions a minute …"):
        learnt = learn_own(taught.held, taught.embedder)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(learnt.kinds.items()))
    note(
        f"{sum(learnt.kinds.values())} own pairs ({kinds}); {learnt.choosing} chose {counted(learnt.rounds, 'round')},"
    )
    note(f"{learnt.aside} others were held aside for what follows, found by cosine alone:")
    gain = learnt.gain
    note(f"  AP@10 {learnt.before:.4f}, learnt {gain.mean:+.4f}, 95 % {gain.low:+.4f} to {gain.high:+.4f}")
    if learnt.maps is None:
        note("  no better beyond noise: nothing is taken over from them.")
    return learnt


def tune_unjudged(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn an adapter of a domain from its base alone; keep it, and put it in force only where that is forced.

    Raises:
        ConfigError, InvalidRequest: as `taught_base` and `own_start`.
    """
    context = open_context(location, domain=options["domain"], one_domain=True)
    with taught_base(context, only_domain(context.registry, options["domain"])) as taught:
        learnt = own_start(taught)
        if options["as_json"]:
            write_json({"own_pairs": learnt.evidence()}, demo=context.demo)
        if learnt.maps is None:
            error_line("no adapter is kept: on pairs held aside the model alone is as good")
            click.get_current_context().exit(FAILURE)
        if not options["dry_run"]:
            _keep(context, taught, learnt, force=options["force"])


def _keep(context: CliContext, taught: TaughtBase, learnt: OwnStart, *, force: bool) -> None:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter
    from context_engine.wiring import use_adapter

    assert learnt.maps is not None
    name, evidence = taught.domain.domain, {"questions": 0, "own_pairs": learnt.evidence()}
    adapter = DomainAdapter(taught.base.vector_model(), *learnt.maps)
    kept = taught.base.keep_adapter(name, adapter, evidence, taught.held.origin)
    if not force:
        outcome("kept", f"{kept.adapter_id}, not in force: no judged question says that it helps")
        note("Own pairs are pieces of texts, and no questions: where they were tried, what they taught did not help")
        note(f"every domain. Judge some questions, or see for yourself: 'kb adapter use {kept.adapter_id} -d {name}'.")
        return
    judged = judged_questions(context.setup).get(name, ())
    with busy("Calibrating …"):
        calibration = use_adapter(
            context.setup, taught.base, context.setup.registry.domain(name), kept.adapter_id, judged=judged
        )
    print_calibrations([calibration])
    outcome("in force", f"{name} is searched with {kept.adapter_id}; 'kb adapter undo' takes it back")


_MOST_NAMED: Final = 5


def tune_adapter(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn an adapter from the judged questions of a domain; put it in force where it is better beyond noise.

    Raises:
        ConfigError: no embedder is configured, or the base holds no vectors of the domain.
        InvalidRequest: the questions are of several domains, or too few.
        MissingExtra: numpy is not installed.
    """
    try:
        from context_engine.evaluation.learning.adapter_gate import JudgedSearch, evidence
    except ImportError as error:
        raise MissingExtra("learning an adapter", "vectors") from error
    if options["own_pairs"] and options["queries"] is None and options["qrels"] is None:
        tune_unjudged(location, options)
        return
    context, session = opened(location, options)
    check_target(options["write"], _domain(session, options["domain"]))
    with taught_base(context, _domain(session, options["domain"])) as taught:
        asked = JudgedSearch(
            base=taught.base,
            domain=taught.domain.domain,
            source_ids=taught.sources,
            qrels=session.qrels,
            known=session.corpus.by_chunk_id(),
            rejected=session.rejected,
            access=context.scope,
        )
        trial = _trial(session, asked, taught, options)
        said = evidence(trial) | {"adapter": _name(trial), "untaught_questions": list(trial.untaught)}
        if not options["as_json"]:
            _print(trial, said_below=_is_refused(trial, options) and not options["dry_run"])
        elif not options["blend"]:
            write_json(said, demo=context.demo)
        if not options["dry_run"]:
            _apply(context, taught, trial, options)
        if options["blend"]:
            tune_blend_beside(session, taught, trial, options, said)


def _domain(session: Session, chosen: str | None) -> str:
    names = sorted({name for _, name in session.questions})
    if chosen is None and len(names) > 1:
        raise InvalidRequest(f"the questions are of {', '.join(names)}, and an adapter is of one domain: give --domain")
    return chosen or names[0]


def _trial(session: Session, asked: JudgedSearch, taught: TaughtBase, options: dict[str, Any]) -> AdapterTrial:
    from context_engine.evaluation.learning.adapter_gate import check_learnable, learn_adapter
    from context_engine.evaluation.learning.judged_pairs import judged_pairs
    from context_engine.evaluation.metrics import read_measures
    from context_engine.learning.contrast import lessons_of

    measure = read_measures([options["measure"]])[0]
    questions = [question for question, domain in session.questions if domain == asked.domain]
    judged = judged_pairs(questions, session.qrels, taught.held)
    check_learnable(judged, options["folds"])
    own = own_start(taught) if options["own_pairs"] else None
    with busy(f"Learning from {counted(len(judged.ids), 'judged question')} …"):
        lessons = lessons_of(judged.pairs, taught.held, taught.embedder)
    with asking("Searching …") as progress:
        trial = learn_adapter(
            asked,
            judged,
            lessons,
            measure=measure,
            folds=options["folds"],
            first=None if own is None else own.maps,
            progress=progress,
        )
    return trial if own is None else replace(trial, more={"own_pairs": own.evidence()})


def _apply(context: CliContext, taught: TaughtBase, trial: AdapterTrial, options: dict[str, Any]) -> None:
    """Keep the adapter and put it in force, once the scope threshold is calibrated under it; or say why not."""
    from context_engine.evaluation.learning.adapter_gate import USUALLY_NEEDED, evidence
    from context_engine.wiring import use_adapter

    if trial.adapter is None or _is_refused(trial, options):
        forced = " (--force puts it in force all the same)" if trial.adapter is not None else ""
        error_line(f"no adapter is put in force: {trial.refusal}{forced}")
        if trial.pairs < USUALLY_NEEDED:
            note(f"It was learnt from {trial.pairs} judged answers; where one helped it took about {USUALLY_NEEDED}.")
        if trial.adapter is not None and trial.gains(known=True):
            _print_known(trial)
        click.get_current_context().exit(FAILURE)
    domain = taught.domain
    judged = judged_questions(context.setup).get(domain.domain, ())
    kept = taught.base.keep_adapter(domain.domain, trial.adapter, evidence(trial), taught.held.origin)
    with busy("Calibrating …"):
        calibration = use_adapter(context.setup, taught.base, domain, kept.adapter_id, judged=judged)
    print_calibrations([calibration])
    if not options["as_json"]:
        forced = ", as --force asks" if trial.refusal is not None else ""
        told = f"{domain.domain} is searched with {kept.adapter_id}{forced}; 'kb adapter undo' takes it back"
        outcome("in force", told)


def _is_refused(trial: AdapterTrial, options: dict[str, Any]) -> bool:
    return trial.adapter is None or (trial.refusal is not None and not options["force"])


def _print_known(trial: AdapterTrial) -> None:
    """Say what is gained where people ask again for what was judged: whether they do, the bank knows."""
    gain, (passages, judged) = trial.difference(trial.measures[0], known=True), trial.passages
    note(f"Asked again for answers that it was shown, it gains {trial.measures[0]} {gain.mean:+.4f}. {judged} of the")
    note(f"base's {passages} passages answer a judged question: force it where hardly any other is asked for.")


def _name(trial: AdapterTrial) -> str | None:
    return None if trial.adapter is None else trial.adapter.adapter_id


def _print(trial: AdapterTrial, *, said_below: bool) -> None:
    """Print what was measured; `said_below`: an error says the refusal."""
    from context_engine.evaluation.learning.adapter_gate import dense_means
    from context_engine.evaluation.metrics import mean

    console = out()
    names = ("model alone", "new answers", "gain", "95 %", "known answers", "gain", "95 %", "cosine alone")
    rows = []
    dense = dense_means(trial.folds, trial.measures)
    for measure in trial.measures:
        row = [Text(measure, "bold"), Text(f"{mean(trial.before, measure):.4f}")]
        for scores, known in ((trial.after, False), (trial.known, True)):
            gain = trial.difference(measure, known=known)
            style = ("green" if gain.mean > 0 else "red") if gain.beyond_noise else "dim"
            row += [Text(f"{mean(scores, measure):.4f}"), Text(f"{gain.mean:+.4f}", style)]
            row.append(Text(f"{gain.low:+.3f} to {gain.high:+.3f}", "dim"))
        rows.append((*row, Text(f"{dense[0][measure]:.4f} to {dense[1][measure]:.4f}", "dim")))
    show(console, table(("measure", *(f">!{name}" for name in names)), rows))
    console.print()
    learnt = f"{trial.questions} judged questions, {trial.pairs} pairs, {counted(trial.folds.rounds, 'round')}"
    show(console, Text(f"{learnt}; {_parted(trial.parts)}"))
    if trial.untaught:
        count, named = len(trial.untaught), ", ".join(trial.untaught[:_MOST_NAMED])
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        untaught = (
            f"{counted(count, 'other')} taught nothing: what is judged to answer names no passage of the base, or"
        )
        show(console, Text(clean(f"{untaught} too many to say which: {named}{more}")))
    if said_below:
        return
    better = f"better beyond noise on questions held out, {_where(trial)}"
    show(console, Text(trial.refusal or better, "yellow" if trial.refusal else "green"))


def _parted(parts: QuestionParts) -> str:
    """Say how the questions were parted for the new answers."""
    sizes = sorted(map(len, parts.places))
    size = str(sizes[0]) if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    if not parts.cut:
        return f"{len(sizes)} parts of {size} that share no answer, {counted(parts.groups, 'group')}"
    return (
        f"{len(sizes)} parts of {size}: {parts.largest} questions are connected by answers that they share, too many "
        "for one part, so what answers a question held out was left out of the training instead"
    )


def _where(trial: AdapterTrial) -> str:
    if trial.gains():
        return "also for answers that it was never shown"
    return "for answers that it was shown in other words; for new ones no difference beyond noise"
