"""Which adapters the searches of the embedded base use, and whether the learnt blends fit them: for `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.kb_adapter import adapter_lines
from context_engine.core.models import scorer_name
from context_engine.errors import StoreError

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.adapter_store import StoredAdapter


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


def blend_notes(context: CliContext, found: Sequence[StoredAdapter], only: str | None) -> Iterator[str]:
    """Yield the domains whose learnt blend is not used, for the base has its cosines from other scorers.

    Args:
        found: from `adapter_report`.
        only: of this domain alone; None: of all.
    """
    from context_engine.adapters.sources.factory import base_path
    from context_engine.adapters.sources.local import LocalBase

    try:
        with LocalBase(base_path(context.data_dir)) as base:
            model_id = base.stats().model_id if base.exists() else None
    except StoreError:  # its sources have said so
        return
    choice = context.setup.resolver.base().values.adapter
    for name, spec in sorted(context.setup.registry.domains.items()):
        blend = context.setup.resolver.base(spec).values.learnt_blend
        if model_id is None or only not in (None, name) or blend is None or blend.cosine is None:
            continue
        in_force = [one.adapter_id for one in found if one.domain == name and one.in_force and not one.problem]
        used = in_force if choice == "auto" else [choice] if choice != "off" else []
        scorers = {scorer_name(model_id, adapter_id) for adapter_id in used or (None,)}
        if blend.cosine not in scorers:
            yield (
                f"learnt_blend of {name} is not used: it was learnt with cosines by {blend.cosine}, and they are by "
                f"{', '.join(sorted(scorers))}: switch the adapter ('context-engine kb adapter list'), or learn it anew"
            )


def adapter_text(context: CliContext, found: Sequence[StoredAdapter]) -> Iterator[Text]:
    """Yield a line for each domain that has adapters, and what the settings make of them."""
    choice = context.setup.resolver.base().values.adapter
    for name, said in adapter_lines(found):
        yield Text(clean(f"{name}: {said}"), "dim")
    if found and choice != "auto":
        yield Text(clean(f"! the setting adapter = {choice} overrides what is in force"), "yellow")
