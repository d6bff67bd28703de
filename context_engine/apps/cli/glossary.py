"""`context-engine kb glossary`: a draft of a domain's glossary from what its own documents define."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from context_engine.apps.cli.console import clean, note
from context_engine.apps.cli.context import Place, Workspace, open_workspace, placed
from context_engine.apps.cli.words import counted

if TYPE_CHECKING:
    from context_engine.core.models import DomainSpec, SourceSpec

__all__ = ["glossary"]


@click.command(epilog="\b\nExample:\n  context-engine kb glossary --domain NPA")
@click.option("-d", "--domain", required=True, metavar="NAME", help="The domain whose sources are read.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@placed
def glossary(place: Place, domain: str, as_json: bool) -> None:
    """Print a draft `glossary:` for a manifest: the acronyms that the domain's trusted texts define.

    Only what the embedded base holds is read, and nothing of untrusted sources. Terms that the manifest has already
    are left out. Look it over before it is pasted: the texts may define what nobody asks for.
    """
    from context_engine.core.query import glossary_of

    workspace = open_workspace(place)
    spec = workspace.setup.registry.domain(domain)
    texts = _texts(workspace, [source for source in spec.sources if _is_read(source)])
    known = {term.casefold() for term in spec.glossary}
    found = glossary_of(text for some in texts.values() for text in some)
    draft = {term: names for term, names in found.items() if term.casefold() not in known}
    if as_json:
        click.echo(json.dumps({"domain": spec.domain, "glossary": draft}, ensure_ascii=False))
    else:
        by = {source_id: glossary_of(some) for source_id, some in texts.items()}
        click.echo("\n".join(_yaml(draft, by)))
    _explain(spec, texts, draft)


def _is_read(source: SourceSpec) -> bool:
    from context_engine.core.models import TrustClass

    return source.adapter == "local" and source.trust is TrustClass.TRUSTED


def _texts(workspace: Workspace, sources: Sequence[SourceSpec]) -> dict[str, list[str]]:
    """Return the texts of some sources by source id."""
    from context_engine.adapters.sources.local.base import LocalBase

    with LocalBase(workspace.base) as base:
        return {source.id: [chunk.content for chunk in base.chunks(source.id)] for source in sources}


def _yaml(draft: Mapping[str, Sequence[str]], by: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the lines of the draft, each with the sources that define the term."""
    import yaml

    if not draft:
        return ["glossary: {}"]
    lines = ["glossary:"]
    for term, names in draft.items():
        several = len(names) > 1
        entry = yaml.safe_dump(
            {term: list(names) if several else names[0]},
            allow_unicode=True,
            default_flow_style=None if several else False,
            width=10_000,
        )
        sources = ", ".join(source_id for source_id, terms in by.items() if term in terms)
        lines.append(f"  {clean(entry.strip())}  # {sources}")
    return lines


def _explain(spec: DomainSpec, texts: Mapping[str, Sequence[str]], draft: Mapping[str, object]) -> None:
    left_out = [source.id for source in spec.sources if source.id not in texts]
    if left_out:
        note(f"not read, because untrusted or not in the embedded base: {', '.join(left_out)}")
    held = counted(sum(map(len, texts.values())), "chunk")
    note(f"{counted(len(draft), 'term')} of {held}: paste what is right into the domain's manifest.")
