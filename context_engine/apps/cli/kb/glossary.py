"""`kb glossary`: draft a domain's glossary from the acronyms that its documents define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from context_engine.apps.cli.console import note, print_json
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_domain, with_location
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.progress import busy
from context_engine.apps.web.inert import clean
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.core.models import DomainSpec


@click.command(epilog="\b\nExample:\n  context-engine kb glossary --domain NPA")
@with_domain("The domain whose sources are read")
@with_json
@with_location
def glossary(location: ConfigLocation, domain: str | None, as_json: bool) -> None:
    """Print a draft `glossary:` for a manifest: the acronyms that the domain's trusted texts define.

    It reads the trusted sources whose documents can be listed: those of the embedded base, and of every adapter that
    lists its documents. Terms that the manifest already has are left out. Check the draft before you paste it: the
    texts may define terms that nobody searches for.
    """
    from context_engine.core.query import glossary_of

    context = open_context(location, domain=domain, one_domain=True, operator=True)
    spec = context.setup.registry.domain(context.domain)
    with busy("Reading the texts …", quiet=True):
        texts = _texts(context, spec)
    known = {term.casefold() for term in spec.glossary}
    defined = glossary_of(text for source_texts in texts.values() for text in source_texts)
    draft = {term: names for term, names in defined.items() if term.casefold() not in known}
    if as_json:
        print_json({"domain": spec.domain, "glossary": draft})
    else:
        by_source = {source_id: glossary_of(source_texts) for source_id, source_texts in texts.items()}
        click.echo("\n".join(_yaml(draft, by_source)))
    left_out = [source.id for source in spec.sources if source.id not in texts]
    if left_out:
        note(f"not read, because untrusted or not in the embedded base: {', '.join(left_out)}")
    chunks = counted(sum(map(len, texts.values())), "chunk")
    note(f"{counted(len(draft), 'term')} of {chunks}: paste the correct ones into the domain's manifest.")


def _texts(context: CliContext, domain: DomainSpec) -> dict[str, list[str]]:
    """Return the texts of the trusted sources that can be listed, by source id."""
    from context_engine.core.models import TrustClass
    from context_engine.wiring.examine import listed_chunks

    texts: dict[str, list[str]] = {}
    for source in domain.sources:
        if source.trust is TrustClass.TRUSTED:
            with listed_chunks(context.setup, context.data_dir, domain, source) as chunks:
                if chunks is not None:
                    texts[source.id] = [chunk.content for chunk in chunks]
    return texts


def _yaml(draft: Mapping[str, Sequence[str]], by_source: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the lines of the draft, each with a comment that names the sources."""
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
            width=10_000,  # one term a line
        )
        sources = ", ".join(source_id for source_id, terms in by_source.items() if term in terms)
        lines.append(f"  {clean(entry.strip())}  # {sources}")
    return lines
