"""`kb glossary`: draft a domain's glossary from what its documents define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from context_engine.apps.cli.console import clean, note, print_json
from context_engine.apps.cli.context import (
    CliContext,
    ConfigLocation,
    only_domain,
    open_context,
    with_domain,
    with_location,
)
from context_engine.apps.cli.words import counted

if TYPE_CHECKING:
    from context_engine.core.models import DomainSpec


@click.command(epilog="\b\nExample:\n  context-engine kb glossary --domain NPA")
@with_domain("The domain whose sources are read")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def glossary(location: ConfigLocation, domain: str | None, as_json: bool) -> None:
    """Print a draft `glossary:` for a manifest: the acronyms that the domain's trusted texts define.

    Read are the trusted sources whose documents can be listed: those of the embedded base, and of every adapter that
    lists what it holds. Terms that the manifest has already are left out. Look the draft over before it is pasted: the
    texts may define what nobody asks for.
    """
    from context_engine.core.query import glossary_of

    context = open_context(location, domain=domain, one_domain=True, operator=True)
    spec = context.setup.registry.domain(only_domain(context.setup.registry, domain))
    texts = _texts(context, spec)
    known = {term.casefold() for term in spec.glossary}
    defined = glossary_of(text for some in texts.values() for text in some)
    draft = {term: names for term, names in defined.items() if term.casefold() not in known}
    if as_json:
        print_json({"domain": spec.domain, "glossary": draft})
    else:
        by = {source_id: glossary_of(some) for source_id, some in texts.items()}
        click.echo("\n".join(_yaml(draft, by)))
    _explain(spec, texts, draft)


def _texts(context: CliContext, domain: DomainSpec) -> dict[str, list[str]]:
    """Return the texts of the trusted sources that can be listed, by source id."""
    from context_engine.core.models import TrustClass
    from context_engine.wiring import listed_chunks

    texts: dict[str, list[str]] = {}
    for source in domain.sources:
        if source.trust is TrustClass.TRUSTED:
            with listed_chunks(context.setup, context.data_dir, domain, source) as listed:
                if listed is not None:
                    texts[source.id] = [chunk.content for chunk in listed]
    return texts


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
    chunks = counted(sum(map(len, texts.values())), "chunk")
    note(f"{counted(len(draft), 'term')} of {chunks}: paste what is right into the domain's manifest.")
