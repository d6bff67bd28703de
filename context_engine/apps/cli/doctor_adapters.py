"""Which adapters the searches of the embedded base use: for `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.kb_adapter import adapter_lines
from context_engine.errors import StoreError

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.adapter_store import StoredAdapter

__all__ = ["adapter_report", "adapter_text"]


def adapter_report(context: CliContext, only: str | None) -> list[StoredAdapter]:
    """Return the adapters that the embedded base keeps for the domains that there are; of one that cannot be read none.

    Args:
        only: of this domain alone; None: of all.
    """
    from context_engine.adapters.sources.factory import base_path
    from context_engine.adapters.sources.local import LocalBase

    names = context.setup.registry.domains
    try:
        with LocalBase(base_path(context.data_dir)) as base:
            found = base.adapters() if base.exists() else []
    except StoreError:  # its sources have said so
        return []
    return [one for one in found if one.domain in names and only in (None, one.domain)]


def adapter_text(context: CliContext, found: Sequence[StoredAdapter]) -> Iterator[Text]:
    """Yield a line for each domain that has adapters, and what the settings make of them."""
    choice = context.setup.resolver.base().values.adapter
    for name, said in adapter_lines(found):
        yield Text(clean(f"{name}: {said}"), "dim")
    if found and choice != "auto":
        yield Text(clean(f"! the setting adapter = {choice} overrides what is in force"), "yellow")
