"""Domains, and what a person attaches to a conversation: documents and records as resources, prompts for the tools.

The address of a resource is `context-engine://document/DOMAIN/DOCUMENT` or `context-engine://record/SEARCH_ID`, each
part percent-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from context_engine.apps.dify.node_output import inert_values
from context_engine.apps.mcp.answers import DomainsAnswer, DomainShown, SourceShown
from context_engine.apps.mcp.arguments import DomainsArguments, FetchArguments
from context_engine.apps.mcp.fetch import fetch
from context_engine.apps.mcp.reply import Call, Reply, labelled
from context_engine.core.models import DomainSpec
from context_engine.errors import InvalidRequest, nearest
from context_engine.service.contract.fetch import RecordResponse
from context_engine.service.records import record_of

_WHOLE: Final = (10_000, 10_000)
_FEWER: Final = ((10_000, 10), (300, 2), (40, 0))
"""Most domains, and most sources of each, if the full list is too long for a model."""


def domains(call: Call, _asked: DomainsArguments) -> Reply:
    """Return the domains and sources that the caller may know; others are not mentioned."""
    known = call.deployment.known_to(call.caller.principal)
    specs = [known.domains[name] for name in known.names if name in known.domains]
    reply = _reply(call, specs, *_WHOLE)
    for most_domains, most_sources in _FEWER:
        if reply.fits:
            break
        reply = _reply(call, specs, most_domains, most_sources)
    return reply


def _reply(call: Call, specs: Sequence[DomainSpec], most_domains: int, most_sources: int) -> Reply:
    listed = [_shown(domain, most_sources) for domain in specs[:most_domains]]
    total = len(specs) + sum(len(domain.sources) for domain in specs[:most_domains])
    answer = DomainsAnswer(
        domains=listed,
        personas=list(call.deployment.setup.resolver.personas[:most_domains]),
        not_listed=total - len(listed) - sum(len(entry.sources) for entry in listed),
        demo=call.deployment.demo,
    )
    return Reply(answer, _text(answer))


def _shown(domain: DomainSpec, most_sources: int) -> DomainShown:
    return DomainShown(
        domain=domain.domain,
        title=labelled(domain.title),
        description=labelled(domain.description),
        sources=[
            SourceShown(
                id=source.id,
                namespace=source.in_namespace,
                title=labelled(source.title),
                type=str(source.type),
                authority_tier=source.tier,
            )
            for source in domain.sources[:most_sources]
        ],
    )


def _text(answer: DomainsAnswer) -> str:
    lines = ["This is a fictitious demo bank."] if answer.demo else []
    for domain in answer.domains:
        lines.append(": ".join(part for part in (domain.domain, domain.title, domain.description) if part))
        lines += [
            f"- {source.id}{_namespace(source)} (tier {source.authority_tier}, {source.type}) {source.title}"
            for source in domain.sources
        ]
    lines += [] if answer.domains else ["There is no domain that you may search."]
    lines += [f"{answer.not_listed} more domains and sources are not listed."] if answer.not_listed else []
    return "\n".join([*lines, f"Personas: {', '.join(answer.personas) or 'none'}"])


def _namespace(source: SourceShown) -> str:
    return "" if source.namespace == source.id else f" in {source.namespace}"


SCHEME: Final = "context-engine"
TEXT: Final = "text/plain"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resource.

    Attributes:
        parts: the names of the parts of its address after the kind; () for a single resource.
        read: called in a thread with the decoded parts; the reply's text is the resource.
    """

    kind: str
    title: str
    description: str
    parts: tuple[str, ...]
    mime_type: str
    read: Callable[..., Reply]

    @property
    def uri(self) -> str:
        """The address, a template (RFC 6570) if it has parts."""
        return "/".join((f"{SCHEME}://{self.kind}", *(f"{{{part}}}" for part in self.parts)))


def _document(call: Call, domain: str, document_id: str) -> Reply:
    return fetch(call, FetchArguments(domain=domain, document_id=document_id))


def _record(call: Call, search_id: str) -> Reply:
    record = record_of(call.deployment, call.caller, search_id)
    return Reply(RecordResponse.model_validate(inert_values(record.model_dump(mode="json"))))


RESOURCES: Final = (
    ResourceKind(
        "domains",
        "What can be searched",
        "The domains and sources that you may search, and the personas.",
        (),
        TEXT,
        lambda call: domains(call, DomainsArguments()),
    ),
    ResourceKind(
        "document",
        "A document",
        "The current text of a document, by the domain and the `document_id` of a search result.",
        ("domain", "document_id"),
        TEXT,
        _document,
    ),
    ResourceKind(
        "record",
        "The record of an answer",
        "What was recorded of an answer, by its `search_id`: the question, what was shown, the fate of each candidate.",
        ("search_id",),
        JSON,
        _record,
    ),
)


def resource_at(uri: str) -> tuple[ResourceKind, tuple[str, ...]]:
    """Return the kind of a resource and the decoded parts of its address.

    Raises:
        InvalidRequest: no resource has such an address.
    """
    address = urlsplit(uri)
    parts = tuple(unquote(part) for part in address.path.removeprefix("/").split("/") if part)
    resource = next((kind for kind in RESOURCES if kind.kind == address.netloc), None)
    if address.scheme != SCHEME or resource is None or len(parts) != len(resource.parts):
        known = ", ".join(kind.uri for kind in RESOURCES)
        raise InvalidRequest(f"there is no resource {uri[:200]!r}: addresses are {known}, each part percent-encoded")
    return resource, parts


@dataclass(frozen=True, slots=True)
class PromptForm:
    """A prompt.

    Attributes:
        arguments: name -> description; those in `optional` may be omitted.
        message: the text, with the arguments in braces.
    """

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    optional: tuple[str, ...]
    message: str

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the message.

        Raises:
            InvalidRequest: an argument is missing or unknown.
        """
        unknown = next((name for name in values if name not in self.arguments), None)
        if unknown is not None:
            problem = f"the prompt {self.name!r} has no argument {unknown[:100]!r}."
            raise InvalidRequest(problem + nearest(unknown[:100], self.arguments))
        sent = {name: " ".join(values.get(name, "").split()) for name in self.arguments}
        missing = [name for name in self.arguments if not sent[name] and name not in self.optional]
        if missing:
            raise InvalidRequest(f"the prompt {self.name!r} needs {', '.join(missing)}: {self.arguments[missing[0]]}")
        where = f" in the domain {sent['domain']}" if sent.get("domain") else ""
        return self.message.format(**{**sent, "where": where})


PROMPTS: Final = (
    PromptForm(
        "ask",
        "Ask with citations",
        "Answer a question from the bank's documents, every statement with its citation.",
        {"question": "The question, in full words.", "domain": "The domain to search; may be omitted."},
        ("domain",),
        "Call `search`{where} with this question: {question}\n\nAnswer from the passages alone. Put the label of the "
        "passage, such as [1], behind each statement. If passages disagree, follow the lower authority_tier and name "
        "the other. If the decision is not `answered`, tell me so instead of answering. End with the list of cited "
        "passages: label, title, section, version, address.",
    ),
    PromptForm(
        "review_record",
        "Review a recorded answer",
        "Review how an answer was made: its evidence, what was left out, and what to check.",
        {"search_id": "The `search_id` of the answer."},
        (),
        "Call `explain` with search_id {search_id}. Then review the answer as an auditor would: which sources answered "
        "and which failed; whether the shown passages decide the question; which closest passages were not shown, and "
        "why; whether authority changed the order; whether a passage is expired, superseded or untrusted. Report only "
        "what the explanation says, and end with the points that a person should check.",
    ),
)


def prompt_named(name: str) -> PromptForm:
    """Return a prompt.

    Raises:
        InvalidRequest: no prompt has that name.
    """
    form = next((form for form in PROMPTS if form.name == name), None)
    if form is None:
        raise InvalidRequest(
            f"there is no prompt {name[:100]!r}.{nearest(name[:100], [form.name for form in PROMPTS])}"
        )
    return form
