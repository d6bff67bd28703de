"""Who may see what: principals, the rules of manifests, and the decisions of access control."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from context_engine.core.models.chunk import Classification
from context_engine.errors import InvalidRequest, nearest

RoleName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

RoleNames = Annotated[
    tuple[RoleName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller. Access rules are tested against nothing else.

    Attributes:
        id: of the person or program; "" for an anonymous caller.
        roles, groups: matched exactly (case-sensitive) against those of the rules; lists of names are accepted too.
        clearance: the highest classification it may see where a rule exists; its name is accepted too.

    Raises:
        InvalidRequest: an invalid value.
    """

    id: str = ""
    roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    clearance: Classification = Classification.PUBLIC

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise InvalidRequest(f"the id of a principal must be text, got {type(self.id).__name__}")
        object.__setattr__(self, "roles", _names(self.roles, "roles"))
        object.__setattr__(self, "groups", _names(self.groups, "groups"))
        object.__setattr__(self, "clearance", _clearance(self.clearance))


def _names(value: Any, field_name: str) -> frozenset[str]:
    names: list[Any] = list(value) if isinstance(value, list | tuple | Set) else [None]
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidRequest(f"the {field_name} of a principal must be a list of names, got {value!r}")
    return frozenset(names)


def _clearance(value: Any) -> Classification:
    try:
        return Classification(value)
    except ValueError:
        raise InvalidRequest(f"clearance must be one of {', '.join(Classification)}, got {value!r}") from None


NOBODY: Final = Principal()
"""The anonymous caller: no roles, no groups, cleared for public content."""


class AccessRule(BaseModel):
    """Who may search a domain or a source: callers with one of the roles or groups, and with the clearance.

    A rule without roles and groups requires only the clearance. An empty rule admits no caller.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    roles: RoleNames = Field((), description="Any of these roles, or one of the groups, is enough.")
    groups: RoleNames = Field((), description="Any of these groups, or one of the roles, is enough.")
    clearance: Classification | None = Field(
        None, description="The lowest clearance, in addition to that for each chunk."
    )


class AccessClass(NamedTuple):
    """What a caller needs to read a chunk; chunks of one class are readable by the same callers.

    Attributes:
        rules: all rules of the chunk's source, as canonical text (`AccessPolicy.rules_of`); "" if it has none.
        classification: the clearance needed; None if none is: the source has no rule and the document does not raise
            its own classification.
    """

    rules: str = ""
    classification: Classification | None = None

    @classmethod
    def of(cls, rules: str, classification: str | None) -> AccessClass:
        """Return the class that a store names by its rules and a classification, or "" or None."""
        return cls(rules, Classification(classification) if classification else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessScope:
    """Which classes of chunks a caller may read.

    Attributes:
        rules: the rules that admit the caller, as in `AccessClass`; content without rules is open to all.
        clearance: the caller's.
    """

    rules: frozenset[str] = frozenset()
    clearance: Classification = Classification.PUBLIC

    def admits(self, access_class: AccessClass) -> bool:
        """Return whether chunks of a class may be read."""
        by_rule = not access_class.rules or access_class.rules in self.rules
        return by_rule and (
            access_class.classification is None or self.clearance.rank >= access_class.classification.rank
        )


class AccessReason(StrEnum):
    """Why a source may be searched, or which condition forbids it."""

    NO_RULE = "no_rule"
    ADMITTED = "admitted"
    DOMAIN_RULE = "domain_rule"
    SOURCE_RULE = "source_rule"
    CLEARANCE = "clearance"


class SourceAccess(NamedTuple):
    """The access decision for one source."""

    source_id: str
    allowed: bool
    reason: AccessReason


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """Which sources of a domain a principal may search; decided before any source is called.

    Attributes:
        sources: all sources of the domain, in the order of the manifest.
        scope: the classes of chunks the caller may read; None: all of them, because no policy is set.
        policy_hash: identifies the rules that were applied; "" without a policy.
    """

    principal: Principal
    domain: str
    sources: tuple[SourceAccess, ...]
    scope: AccessScope | None = None
    policy_hash: str = ""

    @property
    def allowed(self) -> frozenset[str]:
        """The sources that may be searched."""
        return frozenset(source.source_id for source in self.sources if source.allowed)

    @property
    def denied(self) -> tuple[SourceAccess, ...]:
        """The sources that may not be searched, each with the reason."""
        return tuple(source for source in self.sources if not source.allowed)


class WithheldChunk(NamedTuple):
    """A returned chunk that the caller may not see, because its document raises its classification."""

    source_id: str
    chunk_id: str
    classification: Classification


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRecord:
    """What access control did to a search. It goes into the record only, never to the caller.

    Attributes:
        decision: None if the domain does not exist.
        withheld: chunks that a source returned and that were removed before anything counted them.
    """

    principal: Principal
    decision: AccessDecision | None = None
    withheld: tuple[WithheldChunk, ...] = ()


_KEYS: Final = ("id", "roles", "groups", "clearance")


def principal_from_dict(fields: Mapping[str, Any]) -> Principal:
    """Read a principal from a program that has authenticated the caller.

    Args:
        fields: `id`, `roles`, `groups` (lists, or one name) and `clearance` (default: internal).

    Raises:
        InvalidRequest: no mapping, an unknown key, or an invalid value.
    """
    if not isinstance(fields, Mapping):
        raise InvalidRequest(
            f"a principal is a Principal or a dict such as {{'id': 'jo'}}, got {type(fields).__name__}"
        )
    for key in fields:
        if key not in _KEYS:
            raise InvalidRequest(f"principal has no {key!r}.{nearest(str(key), _KEYS)}")
    listed = {
        key: [fields[key]] if isinstance(fields[key], str) else fields[key] for key in _KEYS[1:3] if key in fields
    }
    return Principal(**{"clearance": Classification.INTERNAL, **fields, **listed})


API_PRINCIPAL: Final = Principal(id="api")
"""The caller with the environment's token: no roles, cleared for public content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticated:
    """The authenticated caller, and the rights of the token beyond searching.

    Attributes:
        principal: its rights decide what may be searched.
        token_id: identifies the token in logs without revealing it; "" without a token.
        operator: whether it may read every record and reload the configuration.
        gateway: whether it forwards calls of Dify apps and users, each with a separate principal.
    """

    principal: Principal
    token_id: str = ""
    operator: bool = False
    gateway: bool = False


ANYBODY: Final = Authenticated(principal=NOBODY, operator=True)
"""Every caller of a service that was started with `--no-auth` and has no `access.yaml`."""
