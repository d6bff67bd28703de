"""Who may see what: principals, the rules of manifests, and the decisions of access control."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from context_engine.core.models.enums import Classification
from context_engine.errors import InvalidRequest, nearest

RoleName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

RoleNames = Annotated[
    tuple[RoleName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller: the only thing that opens a source with a rule.

    Attributes:
        id: names the person or program; "" for an anonymous caller.
        roles, groups: compared with those of the rules, letter by letter; lists of names are taken too.
        clearance: the highest classification it may see where a rule exists; its name is taken too.

    Raises:
        InvalidRequest: a value that cannot be used.
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
"""No roles and groups, cleared for public content."""


class AccessRule(BaseModel):
    """Who may search a domain or a source: everybody with one of the roles or groups, and with the clearance.

    A rule without roles and groups asks for the clearance only; an empty rule admits nobody.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    roles: RoleNames = Field((), description="Any of these roles, or one of the groups, is enough.")
    groups: RoleNames = Field((), description="Any of these groups, or one of the roles, is enough.")
    clearance: Classification | None = Field(
        None, description="The lowest clearance, in addition to that for each chunk."
    )


class AccessClass(NamedTuple):
    """What a caller needs for a chunk: chunks of one class may be read by the same callers.

    Attributes:
        rules: all rules of its source, as canonical text (`AccessPolicy.rules_of`); "" where it has none.
        classification: the clearance needed; None if none: no rule, and no document that raises its own.
    """

    rules: str = ""
    classification: Classification | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessScope:
    """Which classes of chunks a caller may read.

    Attributes:
        rules: the rules that admit the caller, as in `AccessClass`; content without rules is open to all.
        clearance: of the caller.
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
    """What was decided of one source."""

    source_id: str
    allowed: bool
    reason: AccessReason


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """What a principal may search of a domain; settled before any source is asked.

    Attributes:
        sources: of the domain, in the order of the manifest.
        scope: the readable part of those; None: everything, because there is no policy.
        policy_hash: names the rules that decided; "" without a policy.
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
        """The sources that may not, each with the reason."""
        return tuple(source for source in self.sources if not source.allowed)


class WithheldChunk(NamedTuple):
    """A chunk that a source gave and the caller may not see: its document raises its classification."""

    source_id: str
    chunk_id: str
    classification: Classification


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRecord:
    """What access control did to a search, for the record alone: the caller never learns it.

    Attributes:
        decision: None if there is no such domain.
        withheld: chunks that a source gave and that were taken out before anything counted them.
    """

    principal: Principal
    decision: AccessDecision | None = None
    withheld: tuple[WithheldChunk, ...] = ()


_KEYS: Final = ("id", "roles", "groups", "clearance")


def principal_from_dict(fields: Mapping[str, Any]) -> Principal:
    """Read a principal from a program that has authenticated the caller.

    Args:
        given: `id`, `roles`, `groups` (lists, or one name) and `clearance`; without a clearance it is cleared for what
            is internal.

    Raises:
        InvalidRequest: another key, or a value that cannot be used.
    """
    for key in fields:
        if key not in _KEYS:
            raise InvalidRequest(f"principal has no {key!r}.{nearest(str(key), _KEYS)}")
    several = {
        key: [fields[key]] if isinstance(fields[key], str) else fields[key] for key in _KEYS[1:3] if key in fields
    }
    return Principal(**{"clearance": Classification.INTERNAL, **fields, **several})


API_PRINCIPAL: Final = Principal(id="api")
"""The caller with the environment's token: no roles, cleared for public content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticated:
    """The authenticated caller, and the rights of the token beyond searching.

    Attributes:
        principal: decides what may be searched.
        token_id: names the token in logs, never the token itself; "" without a token.
        operator: may read every record and reload the configuration.
        gateway: carries calls of Dify's apps and users, each of which acts as its own principal.
    """

    principal: Principal
    token_id: str = ""
    operator: bool = False
    gateway: bool = False


ANYBODY: Final = Authenticated(principal=NOBODY, operator=True)
"""Whoever calls a service that was started with `--no-auth` and has no `access.yaml`."""
