"""State in sentences what a verification proved and what it could not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from context_engine.audit.checks.checkpoints import CheckedCheckpoints
from context_engine.audit.checks.keys import Trust
from context_engine.audit.checks.stretch import Plan
from context_engine.audit.formats.keys import VerifierKey


def proved(plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return what holds, given that there are no findings."""
    return tuple(_proved(plan, trust, checked, counts))


def not_proved(
    plan: Plan,
    trust: Trust,
    checked: CheckedCheckpoints,
    counts: Mapping[str, int],
    witnesses: Sequence[VerifierKey],
    given: Sequence[VerifierKey],
) -> tuple[str, ...]:
    """Return what this check could not show, and what would be needed."""
    return (
        *_of_keys(plan, trust, checked, counts, given),
        *_of_the_end(plan, checked, witnesses),
        *_of_the_rest(plan, checked, counts),
    )


def _proved(plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> Iterator[str]:
    size = plan.extent.size
    yield f"The {size} records have no gap, match their hashes, and form one tree that matches the stored tiles."
    if counts["macs"]:
        yield f"{counts['macs']} rows have a valid MAC, which only the key makes: none was edited, moved or inserted."
    if checked.signed:
        yield f"The first {checked.signed} records match a checkpoint signed by a key of this log."
    elif checked.fitting:
        yield f"The tree matches the {len(checked.fitting)} checkpoints that the ledger keeps; none of them is signed."
    if checked.outside:
        yield f"The first {max(checked.outside)} records match a checkpoint that is kept elsewhere."
    for witness, seen in checked.witnessed.items():
        yield f"The witness {witness.name} has seen the first {seen} records, and that the log only grew up to there."
    if len(trust.named) > 1 and trust.verifiers:
        yield "Each key change is signed by the former key, or both keys were given for verification."
    if not plan.log_alone:
        yield "Every addendum that a record names is unchanged, or an entry records its erasure."
        yield "The look-up rows are those that the records give."


def _of_keys(
    plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int], given: Sequence[VerifierKey]
) -> Iterator[str]:
    size, minimum = plan.extent.size, plan.minimum
    if trust.keyed_from is None:
        yield (
            "The log is not signed: anybody who can write to the database can have rewritten all of it. Set "
            "CONTEXT_ENGINE_AUDIT_KEY ('context-engine audit keygen' makes one)."
        )
        return
    if not given:
        yield (
            "No key from outside was given (--key): whoever rewrote the ledger may also have set its key. Give the "
            "verifier key that the operator of the log published."
        )
    if trust.keyed_from > minimum:
        yield f"The records {minimum} to {trust.keyed_from - 1} were written before the log had a key and have no MAC."
    without = size - minimum - max(0, trust.keyed_from - minimum) - counts["macs"]
    if without > 0:
        yield f"The MACs of {without} rows were not compared: this needs the signing key that made them."
    if not checked.signed:
        yield "No checkpoint in the ledger is signed by a trusted key; 'context-engine audit head' makes one."


def _of_the_end(plan: Plan, checked: CheckedCheckpoints, witnesses: Sequence[VerifierKey]) -> Iterator[str]:
    size = plan.extent.size
    newest = max(checked.outside, default=0)
    if not checked.outside:
        yield (
            "No checkpoint kept elsewhere was given (--against): records cut off at the end, or an old copy in place "
            "of the ledger, would not be detected."
        )
    elif newest < size:
        yield f"Records cut off after the first {newest} would not be detected: no checkpoint kept elsewhere has more."
    if not witnesses:
        yield "No witness was named (--witness): the key's holder could show different logs to different readers."
    for witness in witnesses:
        seen = checked.witnessed.get(witness, 0)
        if seen < size:
            yield f"The witness {witness.name} has cosigned the first {seen} of {size} records."


def _of_the_rest(plan: Plan, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> Iterator[str]:
    if plan.minimum:
        yield f"The records below {plan.minimum} were pruned: their hashes are present, their contents are not."
    if checked.unchecked:
        yield f"{checked.unchecked} checkpoints are of sizes that were pruned and can no longer be compared."
    if counts["pending"]:
        yield f"{counts['pending']} records wait to be integrated: the removal of one would not be detected."
    if plan.log_alone:
        yield "Addenda and look-up rows were not checked."
    elif counts["damaged"]:
        yield "Addenda that no record names were not looked for: it is unknown which the changed records named."
