"""What `doctor` says of personal data: where it is masked, with which key, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.wiring import Setup
    from context_engine.wiring.privacy import Masking


class PrivacyReport(NamedTuple):
    """What is masked where; `problem` says why nothing can be, so that the domains concerned are not searched."""

    masking: Masking
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self.masking._asdict(), "problem": self.problem}


def privacy_report(setup: Setup) -> PrivacyReport:
    """Return what is masked where; where anything is, whether it can be is tried."""
    masking = setup.masking()
    try:
        if masking.on:
            setup.mask().opened()
    except ConfigError as error:
        return PrivacyReport(masking, str(error))
    return PrivacyReport(masking)


def privacy_lines(report: PrivacyReport) -> Iterator[Text]:
    """Yield what a person should know, a line each."""
    found = report.masking
    if not found.on:
        yield Text("personal data is masked nowhere", "dim")
        return
    outputs = (
        f"contexts of {', '.join(map(clean, found.contexts))}" if found.contexts else "",
        f"kept questions of {', '.join(map(clean, found.stored_queries))}" if found.stored_queries else "",
        "logs" if found.logs else "",
    )
    where = "; ".join(one for one in outputs if one)
    key = f"key of {found.key}" if found.key else "a random key of each process"
    yield Text(f"personal data ({', '.join(map(clean, found.kinds))}) is masked in {where}; {key}", "dim")
    if report.problem is not None:
        yield Text(f"✗ personal data cannot be masked, so what should be is refused: {clean(report.problem)}", "red")
