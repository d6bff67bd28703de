"""A loaded configuration with its registry: the setup that engines, checks and services are made from."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from context_engine.core.engine import SystemClock
from context_engine.core.models import DomainSpec, Notice, NoticeCode, Principal
from context_engine.core.policy.access import OPEN_ACCESS, has_rules, visible
from context_engine.core.protocols import AccessPolicy, Clock
from context_engine.errors import ConfigError
from context_engine.settings import (
    Config,
    ConfigPaths,
    SettingsResolver,
    find_config,
    find_data_dir,
    load_config,
    read_config,
)
from context_engine.settings.data_dir import claim_data_dir, orphaned_data_dirs
from context_engine.settings.registry import LoadedRegistry, load_registry
from context_engine.wiring.adapters import ACCESS_POLICIES, find_adapter, load_adapter, with_installed_adapters
from context_engine.wiring.models import Models
from context_engine.wiring.privacy import ConfiguredMask, Masking, mask_log_records, masking, masking_notices

logger = logging.getLogger(__name__)
_NAMES_OF_OTHERS: Final = frozenset({"connections.yaml", "personas.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A loaded configuration, before any source is opened.

    Attributes:
        config: settings, connections, stage.
        registry: the domains.
        resolver: the settings of a search.
        access: decides who may search what.
        env, cwd: what it was loaded with.
    """

    config: Config
    registry: LoadedRegistry
    resolver: SettingsResolver
    access: AccessPolicy
    env: Mapping[str, str] = field(repr=False)
    cwd: Path

    def visible(self, principal: Principal) -> LoadedRegistry:
        """Return the registry as a principal may know it; see `context_engine.core.policy.access`."""
        return visible(self.registry, self.access, principal)

    def data_dir(self, data_dir: str | Path | None = None) -> Path:
        """Return the folder of the embedded base; see `find_data_dir`."""
        return find_data_dir(data_dir, env=self.env, cwd=self.cwd, paths=self.config.paths)

    def claim(self, folder: Path) -> None:
        """Note that a folder of data is this configuration's; see `claim_data_dir`."""
        claim_data_dir(folder, self.config.paths, self.registry.names, env=self.env)

    def orphaned(self, folder: Path) -> tuple[Notice, ...]:
        """Return a notice for every orphaned data folder, if `folder` has no data."""
        folders = orphaned_data_dirs(folder, self.config.paths, self.registry.names, env=self.env)
        return tuple(orphan.notice() for orphan in folders)

    def models(self, data_dir: str | Path | None = None, clock: Clock | None = None) -> Models:
        """Return the embedder and the reranker that the settings name, to be opened when they are asked for."""
        return Models(
            self.resolver.base,
            connection=self.config.connections.get,
            data_dir=partial(self.data_dir, data_dir),
            clock=clock or SystemClock(),
        )

    def mask(self) -> ConfiguredMask:
        """Return the mask of personal data according to the settings; it is opened on first use."""
        return ConfiguredMask(self.resolver.base, env=self.env, cwd=self.cwd)

    def masking(self) -> Masking:
        """Return the kinds of data that are masked, and the places."""
        return masking(self.resolver, self.registry, self.env)

    def with_pipeline(self, pipeline: Mapping[str, Any]) -> Setup:
        """Return the same with a pipeline config in force.

        Raises:
            ConfigError: a key that is not known, or a value out of range.
        """
        return _with_masked_logs(replace(self, resolver=self.resolver.with_pipeline(pipeline)))


def load_setup(
    *,
    config_dir: str | Path | None = None,
    manifest_dir: Path | None = None,
    stage: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Setup:
    """Load configuration and manifests from the first place that has any.

    Args:
        config_dir: see `find_config`.
        manifest_dir: take the manifests from here instead. An unusable `connections.yaml` or `personas.json` in the
            current directory may then belong to another program; it is skipped with a warning.
        stage: name of an overlay; `CONTEXT_ENGINE_STAGE` if None.
        env, cwd: the process's own if None.

    Raises:
        ConfigError: the configuration cannot be used. A problem in a manifest is raised when its domain is searched.
    """
    env, cwd = dict(os.environ if env is None else env), cwd or Path.cwd()
    paths: ConfigPaths = find_config(config_dir, env=env, cwd=cwd)
    if manifest_dir is None:
        config = load_config(paths, env=env, stage=stage)
    else:
        paths = replace(paths, manifest_dir=manifest_dir)
        config = _beside_others(paths, env, stage)
    for notice in config.notices:
        logger.warning("%s", notice.message)
    return usable_setup(config, env, cwd)


def usable_setup(config: Config, env: Mapping[str, str], cwd: Path) -> Setup:
    """Return a configuration with its domains; domains with an unusable manifest or adapter are set aside.

    Raises:
        ConfigError: the stage names an unknown source, or the mask for log records cannot be opened.
    """
    paths = config.paths
    registry = load_registry(
        paths, env=env, stage=config.stage, connections=config.connections.names, doc_types=config.chunking
    )
    access = configured_policy(config, registry)
    registry = with_installed_adapters(registry)
    for notice in registry.notices:
        logger.warning("%s", notice.message)
    resolver = config.resolver(registry.files)
    setup = Setup(config=config, registry=registry, resolver=resolver, access=access, env=env, cwd=cwd)
    unwise = masking_notices(setup.masking())
    for notice in unwise:
        logger.warning("%s", notice.message)
    return _with_masked_logs(replace(setup, config=replace(config, notices=(*config.notices, *unwise))))


def _with_masked_logs(setup: Setup) -> Setup:
    mask_log_records(setup.mask(), setup.resolver.base())
    return setup


def _beside_others(paths: ConfigPaths, env: Mapping[str, str], stage: str | None) -> Config:
    config, problems = read_config(paths, env=env, stage=stage)
    passed_over = []
    for problem in {problem.file: problem for problem in reversed(problems)}.values():
        if paths.origin != "current directory" or Path(problem.file or "").name not in _NAMES_OF_OTHERS:
            raise problem
        text = f"{problem} (the file may be another program's: it is passed over)"
        passed_over.append(Notice(NoticeCode.FILE_PASSED_OVER, problem.file or "", text, {"problem": str(problem)}))
    return replace(config, notices=(*config.notices, *passed_over))


PolicyFactory = Callable[[Mapping[str, DomainSpec]], AccessPolicy]
"""Makes a policy for all domains of a registry; published in the entry-point group `context_engine.access_policies`.

Raises:
    ConfigError: the policy cannot be used.
"""


def configured_policy(config: Config, registry: LoadedRegistry) -> AccessPolicy:
    """Return the policy that `access.yaml` names; without that file the rules of the manifests, if there are any.

    A manifest with an unusable rule is closed; the others are still searched under the policy.

    Raises:
        ConfigError: see `access_policy`.
    """
    named = config.principals
    name = named.policy if named.in_force else None
    in_force = named.in_force or registry.ruled
    return access_policy(registry.domains, name, in_force=in_force, file=named.file, key="policy")


def access_policy(
    domains: Mapping[str, DomainSpec],
    name: str | None = None,
    *,
    in_force: bool = False,
    file: str | None = None,
    key: str | None = None,
) -> AccessPolicy:
    """Return the access policy.

    Args:
        domains: all domains of the registry; a source in two domains has the rules of both.
        name: an installed policy; None: the rules of the manifests, if there are any.
        in_force: check documents that raise their classification even if no manifest has a rule.
        file, key: the location of the name, for messages.

    Raises:
        ConfigError: the policy is not installed or unusable.
    """
    if name is None and not in_force and not has_rules(domains.values()):
        return OPEN_ACCESS
    make: Any = load_adapter(find_adapter(ACCESS_POLICIES, name or "manifest", file=file, key=key))
    policy = make(domains)
    if not (callable(getattr(policy, "decide", None)) and callable(getattr(policy, "rules_of", None))):
        problem = f"access policy {name!r} made a {type(policy).__name__}, which has no decide() and rules_of()"
        raise ConfigError(problem, file=file, key=key)
    return policy  # type: ignore[no-any-return]
