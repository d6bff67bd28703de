"""Domains and sources as the manifests declare them, and the links of a source to its documents."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from context_engine.core.models.access import AccessRule
from context_engine.core.models.chunk import TIER_OF, Classification, SourceType, TrustClass, default_trust
from context_engine.core.models.notice import Notice
from context_engine.errors import UnknownDomain, nearest

if TYPE_CHECKING:
    from context_engine.core.models.chunk import Chunk


LINK_FIELDS: Final = (
    *("path", "document_id", "document_version", "title", "section", "page", "line", "chunk_id"),
    "metadata.NAME",
)
"""The fields a link template may use; NAME is any field of the chunk's metadata."""

_METADATA: Final = "metadata."
_START: Final = re.compile(r"https?://[^/{}?#@\s\\]+(?:[/?#]|$)|file:///", re.IGNORECASE)
_LONGEST: Final = 2000


def checked_link_template(template: str) -> str:
    """Return a URL template if it is valid.

    >>> checked_link_template("https://policies.example/{path}#page={page}")
    'https://policies.example/{path}#page={page}'

    Raises:
        ValueError: an unknown field, or scheme and host are not written out.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(
            f"{template!r} is not a template ({error}): write fields as {{path}}, a brace as {{{{"
        ) from None
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not _is_known(name)):
            raise ValueError(f"unknown field {{{name}}} in {template!r}: the fields are {', '.join(LINK_FIELDS)}")
    if not _START.match(template):
        raise ValueError(f"{template!r} must begin with https://HOST/, http://HOST/ or file:///, written out")
    return template


def _is_known(name: str) -> bool:
    return name in LINK_FIELDS[:-1] or (name.startswith(_METADATA) and len(name) > len(_METADATA))


def link_of(chunk: Chunk, template: str | None) -> str | None:
    """Return the address of a passage, or None.

    The template is filled with percent-encoded values. A fragment ("#...") whose field has no value is left out. If any
    other field has no value, or there is no template, the result is the web address in the chunk's metadata, if any.
    """
    return _filled(template, chunk) or next(filter(None, map(web_link, _own_addresses(chunk))), None)


def web_link(value: Any) -> str | None:
    """Return a value if it is an http or https address that is safe to show as a link, else None.

    An address with a user name or password is refused.

    >>> web_link("https://policies.example/a#page=2"), web_link("javascript:alert(1)")
    ('https://policies.example/a#page=2', None)
    """
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    address = value.strip()
    if not address.isprintable() or any(char in address for char in ' "<>\\`{}'):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return address if parts.scheme.lower() in ("http", "https") and parts.hostname and "@" not in parts.netloc else None


def _own_addresses(chunk: Chunk) -> list[Any]:
    places = [place for place in (chunk.metadata, chunk.extra) if isinstance(place, Mapping)]
    return [place.get(name) for name in ("canonical_url", "url") for place in places]


def _filled(template: str | None, chunk: Chunk) -> str | None:
    if template is None:
        return None
    before, mark, fragment = template.partition("#")
    address = _with_values(before, chunk)
    rest = _with_values(fragment, chunk) if mark else None
    return address if address is None or not rest else f"{address}#{rest}"


def _with_values(template: str, chunk: Chunk) -> str | None:
    """Return a part of a template with its values, None if one is missing."""
    out = ""
    for text, name, _, _ in Formatter().parse(template):
        out += text
        if name is not None:
            value = _value(name, chunk)
            if value is None:
                return None
            out += quote(value, safe="/" if name == "path" else "", errors="surrogatepass")
    return out


def _value(name: str, chunk: Chunk) -> str | None:
    field_value = chunk.metadata.get(name[len(_METADATA) :]) if name.startswith(_METADATA) else getattr(chunk, name)
    return str(field_value) if isinstance(field_value, str | int | float) and str(field_value) else None


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except Exception as error:
        raise ValueError(f"unknown time zone {name!r}; use an IANA name such as 'UTC' or 'Asia/Singapore'") from error
    return name


def _names(value: Any) -> Any:
    """Accept a single name without a list."""
    return (value,) if isinstance(value, str) else value


Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Listed = Annotated[tuple[Name, ...], Field(min_length=1)]
Names = Annotated[Listed, BeforeValidator(_names, json_schema_input_type=Name | Listed)]

LinkTemplate = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=1000), AfterValidator(checked_link_template)
]

SourceId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$")]


class _FrozenModel(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


def _relative(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError(f"{pattern!r} matches no file: write it relative to the folder that is ingested")
    return pattern


class DocumentRule(_FrozenModel):
    """Which files belong to a source, and how they are cut."""

    include: Annotated[str, AfterValidator(_relative)] = Field(
        description="Glob relative to the folder that is ingested, e.g. 'sops/**/*.md'."
    )
    doc_type: str = Field(
        "default",
        description="Row of the chunking table; by default a document is cut by its own type or its structure.",
    )
    profile: str | None = Field(None, description="Cut by this profile, not by the row of doc_type; e.g. 'funnel'.")
    classification: Classification | None = Field(
        None, description="May raise the source's classification, never lower it."
    )
    tier: Annotated[int, Field(ge=1, le=5)] | None = Field(
        None, description="1-5; may lower the source's authority (a higher number), never raise it."
    )
    fields: Annotated[tuple[Name, ...], Field(max_length=100)] = Field(
        (), description="Fields of a record, or of front matter, that are copied into the metadata of every chunk."
    )
    otherwise: bool = Field(
        False, description="Take only files that no other rule of the domain includes; their content is tier 5."
    )

    @model_validator(mode="after")
    def _default_tier(self) -> DocumentRule:
        if self.otherwise and self.tier is None:
            object.__setattr__(self, "tier", 5)
        return self


class SourceSpec(_FrozenModel):
    """One source of a domain. Documents cannot claim more than its tier, trust class and classification."""

    id: SourceId = Field(description="Unique in the registry; part of every provenance tag.")
    title: str = ""
    namespace: SourceId | None = Field(
        None, description="Name by which it is searched, ingested and removed together with others; default: its id."
    )
    type: SourceType
    tier: int = Field(  # type: ignore[assignment]  # None until `_agree` has run
        None, description="1-5; must agree with the type, which is its default."
    )
    trust_class: TrustClass | None = Field(None, description="TRUSTED for tiers 1-4, UNTRUSTED for tier 5.")
    ttl_seconds: Annotated[int, Field(ge=0)] = 3600
    classification: Classification = Classification.INTERNAL
    access: AccessRule | None = Field(
        None, description="Who may search it; default: everyone who may search the domain."
    )
    adapter: str = "local"
    connection: str | None = Field(None, description="Name of a connection in connections.yaml.")
    dataset_ids: tuple[str, ...] = ()
    documents: tuple[DocumentRule, ...] = ()
    url: LinkTemplate | None = Field(
        None,
        description="Template of a link to a passage, e.g. 'https://policies.example/{path}#page={page}'; fields: "
        f"{', '.join(LINK_FIELDS)}.",
    )
    trust_document_metadata: bool = Field(
        False, description="Let a document raise its own authority; it can never lower its classification."
    )
    timeout_s: Annotated[float, Field(gt=0, le=600)] | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict, description="The adapter's own settings.")

    @model_validator(mode="after")
    def _agree(self) -> SourceSpec:
        expected = TIER_OF[self.type]
        if self.tier is None:
            object.__setattr__(self, "tier", expected)
        if self.tier != expected:
            raise ValueError(
                f"type {self.type.value!r} is tier {expected}, but tier {self.tier} is given: correct one of the two"
            )
        for rule in self.documents:
            if rule.tier is not None and rule.tier < self.tier:
                raise ValueError(
                    f"the rule for {rule.include!r} gives tier {rule.tier}, but its source is tier {self.tier}: a rule "
                    "may lower authority, never raise it"
                )
        if self.trust_class is None:
            object.__setattr__(self, "trust_class", default_trust(self.tier))
        return self

    @property
    def in_namespace(self) -> str:
        """The declared namespace, else its id."""
        return self.namespace or self.id

    @property
    def trust(self) -> TrustClass:
        """The declared trust class, else the tier's default."""
        return self.trust_class or default_trust(self.tier)


class DomainSpec(_FrozenModel):
    """A business domain: its sources and its own settings."""

    version: Literal[1] = Field(description="Version of the manifest format.")
    domain: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    title: str = ""
    description: str = ""
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    access: AccessRule | None = Field(None, description="Who may search the domain; default: everybody.")
    denials: Literal["hidden", "said"] = Field(
        "hidden",
        description="'said': an answer reports that some sources were not searched for the caller, but not which.",
    )
    sources: Annotated[tuple[SourceSpec, ...], Field(min_length=1)]
    glossary: Annotated[Mapping[Name, Names], Field(max_length=10_000)] = Field(
        default_factory=dict,
        description="Terms and their other names, e.g. {NPA: New Product Approval}; searches look for both.",
    )
    settings: Mapping[str, Any] = Field(
        default_factory=dict, description="Pipeline settings for this domain, except those of the models."
    )

    @model_validator(mode="after")
    def _unique(self) -> DomainSpec:
        ids = [source.id for source in self.sources]
        twice = sorted({source_id for source_id in ids if ids.count(source_id) > 1})
        if twice:
            raise ValueError(f"source id {twice[0]!r} appears twice in domain {self.domain!r}: rename one")
        both = sorted({source.namespace for source in self.sources if source.namespace in ids})
        if both:
            raise ValueError(f"namespace {both[0]!r} is the id of a source of domain {self.domain!r} too: rename one")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The ids of its sources, and their namespaces."""
        named = [source.namespace for source in self.sources if source.namespace is not None]
        return tuple(dict.fromkeys([*(source.id for source in self.sources), *named]))

    def named(self, names: Collection[str]) -> tuple[SourceSpec, ...]:
        """Return the sources with one of these ids or namespaces, in the order of the manifest."""
        return tuple(source for source in self.sources if source.id in names or source.namespace in names)

    def unknown_name(self, name: str) -> str | None:
        """Return the problem with a name that is neither the id nor the namespace of a source; None if it is one."""
        if name in self.names:
            return None
        kinds = "source" if len(self.names) == len(self.sources) else "source or namespace"
        return f"domain {self.domain!r} has no {kinds} {name!r}.{nearest(name, self.names)}"

    def source(self, source_id: str) -> SourceSpec | None:
        """Return the source with this id, or None."""
        return next((source for source in self.sources if source.id == source_id), None)


class Registry(_FrozenModel):
    """All domains by name."""

    domains: Mapping[str, DomainSpec] = Field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The domain names, sorted."""
        return tuple(sorted(self.domains))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices about the registry, added to every answer."""
        return ()

    def domain(self, name: str) -> DomainSpec:
        """Return a domain's specification.

        Raises:
            UnknownDomain: not registered; the error lists the registered domains.
        """
        try:
            return self.domains[name]
        except KeyError:
            raise UnknownDomain(name, self.names) from None

    def only(self, domains: Mapping[str, DomainSpec]) -> Self:
        """Return a registry of these domains only."""
        return self.model_copy(update={"domains": domains})
