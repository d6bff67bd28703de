"""What a check of a ledger proved and what it could not, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from context_engine.audit.checks.checkpoints import CheckedCheckpoints
from context_engine.audit.checks.keys import Trust
from context_engine.audit.checks.stretch import Plan
from context_engine.audit.formats.keys import VerifierKey


def proved(plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return what holds, where nothing was found."""
    return tuple(_proved(plan, trust, checked, counts))


def not_proved(
    plan: Plan,
    trust: Trust,
    checked: CheckedCheckpoints,
    counts: Mapping[str, int],
    witnesses: Sequence[VerifierKey],
    trusted: Sequence[VerifierKey],
) -> tuple[str, ...]:
    """Return what this check could not show, and what it would take."""
    return (
        *_of_keys(plan, trust, checked, counts, trusted),
        *_of_the_end(plan, checked, witnesses),
        *_of_the_rest(plan, checked, counts),
    )


def _proved(plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> Iterator[str]:
    size = plan.extent.size
    yield f"The {size} records stand without a gap, each as it was hashed, under one tree whose tiles fit."
    if counts["macs"]:
        yield f"{counts['macs']} rows have the MAC that only the key can make: none was edited, moved or put in."
    if checked.signed:
        yield f"The first {checked.signed} records are those that a key of this log has signed a checkpoint over."
    elif checked.fitting:
        yield f"The tree fits the {len(checked.fitting)} checkpoints that the ledger keeps; nobody signed them."
    if checked.outside:
        yield f"The first {max(checked.outside)} records are those of a checkpoint that is kept elsewhere."
    for witness, seen in checked.witnessed.items():
        yield f"The witness {witness.name} has seen the first {seen} records, and that the log only grew up to there."
    if len(trust.named) > 1 and trust.verifiers:
        yield "Each change of key has the signature of the key before it, or both keys were given to check with."
    if not plan.log_alone:
        yield "Every addendum that a record names is as it was written, or an entry says that it was erased."
        yield "The look-up rows are those that the records give."


def _of_keys(
    plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int], trusted: Sequence[VerifierKey]
) -> Iterator[str]:
    size, minimum = plan.extent.size, plan.minimum
    if trust.keyed_from is None:
        yield (
            "The log is not signed: whoever can write to the database can have written all of it anew. Set "
            "CONTEXT_ENGINE_AUDIT_KEY ('context-engine audit keygen' makes one)."
        )
        return
    if not trusted:
        yield (
            "No key was given: that the log's own key signed it shows nothing of who holds that key. Give --key "
            "with the verifier key from whoever runs the log."
        )
    if trust.keyed_from > minimum:
        yield f"The records {minimum} to {trust.keyed_from - 1} were written before the log had a key: no MAC."
    without = size - minimum - max(0, trust.keyed_from - minimum) - counts["macs"]
    if without > 0:
        yield f"The MACs of {without} rows were not compared: that takes the signing key they were made under."
    if not checked.signed:
        yield "No checkpoint in the ledger is signed by a key that counts; 'context-engine audit head' makes one."


def _of_the_end(plan: Plan, checked: CheckedCheckpoints, witnesses: Sequence[VerifierKey]) -> Iterator[str]:
    size = plan.extent.size
    newest = max(checked.outside, default=0)
    if not checked.outside:
        yield (
            "No checkpoint kept elsewhere was given (--against): records cut off at the end, or an old copy in place "
            "of the ledger, would not show."
        )
    elif newest < size:
        yield f"Records cut off behind the first {newest} would not show: no checkpoint kept elsewhere has more."
    if not witnesses:
        yield "No witness was named (--witness): who holds the key could show different logs to different readers."
    for witness in witnesses:
        seen = checked.witnessed.get(witness, 0)
        if seen < size:
            yield f"The witness {witness.name} has cosigned the first {seen} of {size} records."


def _of_the_rest(plan: Plan, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> Iterator[str]:
    if plan.minimum:
        yield f"The records below {plan.minimum} were pruned: their hashes are there, what they said is not."
    if checked.unchecked:
        yield f"{checked.unchecked} checkpoints are of sizes that were pruned and cannot be compared any more."
    if counts["pending"]:
        yield f"{counts['pending']} records wait to be integrated: one that was removed would not show."
    if plan.log_alone:
        yield "Addenda and look-up rows were not checked."
    elif counts["damaged"]:
        yield "Addenda that no record names were not looked for: what the changed records named is not known."
