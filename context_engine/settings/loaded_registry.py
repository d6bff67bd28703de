"""The domains of the manifests that were read, and what is wrong with those that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Self

from pydantic import ConfigDict, Field

from context_engine.core.models import DomainSpec, Notice, NoticeCode, Registry
from context_engine.errors import ConfigError, UnknownDomain


class LoadedRegistry(Registry):
    """The domains of the manifests, and those whose manifest cannot be used; these do not hold up the others.

    Attributes:
        broken: the domains that cannot be searched, each with what is wrong.
        unread: what is wrong with manifests whose domain is not known.
        files: the file that each domain comes from.
        ruled: whether some manifest holds an access rule, one that cannot be used included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    broken: Mapping[str, ConfigError] = Field(default_factory=dict)
    unread: tuple[ConfigError, ...] = ()
    files: Mapping[str, str] = Field(default_factory=dict)
    ruled: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The domain names, sorted; a domain whose manifest cannot be used is registered all the same."""
        return tuple(sorted({*self.domains, *self.broken}))

    @property
    def problems(self) -> tuple[ConfigError, ...]:
        """All that is wrong with the manifests."""
        return (*self.unread, *(one for _, problem in sorted(self.broken.items()) for one in problem.each))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A notice for every manifest that cannot be used; what is wrong with it is told to who runs `config check`."""
        domains = {(one.file or "", name) for name, problem in self.broken.items() for one in problem.each}
        unread = {(one.file or "", "") for one in self.unread}
        return tuple(_unusable(file, domain) for file, domain in (*sorted(unread), *sorted(domains)))

    def domain(self, name: str) -> DomainSpec:
        """Return a domain's specification.

        Raises:
            UnknownDomain: it is not registered; the error lists those that are, and manifests that cannot be read.
            ConfigError: its manifest cannot be used.
        """
        if name in self.broken:
            raise copy(self.broken[name])
        if name not in self.domains and self.unread:
            raise UnknownDomain(name, self.names, self.unread)
        return super().domain(name)

    def only(self, domains: Mapping[str, DomainSpec]) -> Self:
        """Return a registry that knows of these domains and of nothing else."""
        files = {name: file for name, file in self.files.items() if name in domains}
        return self.model_copy(update={"domains": domains, "broken": {}, "unread": (), "files": files})

    def without(self, problems: Mapping[str, ConfigError]) -> LoadedRegistry:
        """Return the registry with some domains set aside as broken."""
        domains = {name: spec for name, spec in self.domains.items() if name not in problems}
        return self.model_copy(update={"domains": domains, "broken": {**self.broken, **problems}})


def _unusable(file: str, domain: str) -> Notice:
    what = f"so domain {domain!r} cannot be searched" if domain else "and which domain it holds is not known"
    said = f"{file} cannot be used, {what}: 'context-engine config check' says why"
    return Notice(NoticeCode.MANIFEST_UNUSABLE, file, said, {"domain": domain or None})
