"""The report of `config check`: all problems, and the domains that can still be searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from context_engine.core.engine import SystemClock
from context_engine.core.models import (
    EffectiveSettings,
    ModelSettings,
    Notice,
    NoticeCode,
    Settings,
    SourceSpec,
    missing_price,
    valid_price,
)
from context_engine.core.policy.access import OPEN_ACCESS
from context_engine.core.text import check_segmenter
from context_engine.errors import ConfigError, nearest
from context_engine.settings import Config, ConfigPaths, read_config
from context_engine.settings.environment_secrets import read_api_token, read_session_key
from context_engine.settings.load import UNREAD
from context_engine.settings.paths import CONFIG_FILES
from context_engine.settings.registry import LoadedRegistry, read_registry
from context_engine.settings.resolver import SettingsResolver
from context_engine.wiring.adapters import load_source_adapter, with_installed_adapters
from context_engine.wiring.audit import audit_mode, check_audit
from context_engine.wiring.audit_report import audit_notices
from context_engine.wiring.build import open_shared_cache
from context_engine.wiring.callers import code_flow, key_source
from context_engine.wiring.embedded_base import in_embedded_base
from context_engine.wiring.events import check_events
from context_engine.wiring.jobs import job_database
from context_engine.wiring.models import Models, model_name, unknown_reranker
from context_engine.wiring.privacy import ConfiguredMask, Masking, check_patterns, masking, masking_notices
from context_engine.wiring.setup import Setup, configured_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of a check.

    Attributes:
        paths: the checked folders.
        files: the files that were read, by their names in messages.
        domains: the domains that can be searched.
        unusable: the domains that cannot be searched, as far as their names are readable.
        problems: everything that must be fixed, in all files.
        notices: settings without effect, and unwise ones.
    """

    paths: ConfigPaths
    files: tuple[str, ...]
    domains: tuple[str, ...]
    unusable: tuple[str, ...]
    problems: tuple[ConfigError, ...]
    notices: tuple[Notice, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


class _BlockingProblem(NamedTuple):
    """A problem and the domains that it stops from being searched; None: all."""

    problem: ConfigError
    stops: Sequence[str] | None = None


def check(paths: ConfigPaths, *, env: Mapping[str, str], stage: str | None = None) -> CheckReport:
    """Check the whole configuration and return all problems of all files.

    Args:
        stage: the name of an overlay; None: `CONTEXT_ENGINE_STAGE`.
    """
    config, in_config = read_config(paths, env=env, stage=stage)
    connections = None if config.connections is UNREAD else config.connections.names
    registry, in_stage = read_registry(
        paths, env=env, stage=config.stage, connections=connections, doc_types=config.chunking
    )
    registry = with_installed_adapters(registry)
    findings = [_BlockingProblem(problem) for problem in (*in_config, *in_stage)]
    findings += [_BlockingProblem(problem, ()) for problem in registry.unread]
    findings += [
        _BlockingProblem(each, [domain]) for domain, problem in sorted(registry.broken.items()) for each in problem.each
    ]
    findings += _of_sources(registry)
    findings += _of_models(config, registry)
    findings += _of_settings(config, registry)
    findings += _of_connections(config, registry)
    masked = masking(config.resolver(registry.files), registry, env)
    findings += _of_masking(config, masked, env, paths.cwd)
    findings += _of_access(config, registry)
    resolver = config.resolver(registry.files)
    setup = Setup(config=config, registry=registry, resolver=resolver, access=OPEN_ACCESS, env=env, cwd=paths.cwd)
    findings += (recording := _of_audit(setup))
    findings += _of_parts(setup)
    findings += _of_service(setup)
    stopped = {
        domain for finding in findings for domain in (registry.names if finding.stops is None else finding.stops)
    }
    return CheckReport(
        paths=paths,
        files=tuple(paths.label(path) for path in _files(paths)),
        domains=tuple(name for name in registry.names if name not in stopped),
        unusable=tuple(sorted(stopped)),
        problems=tuple({str(finding.problem): finding.problem for finding in findings}.values()),
        notices=(
            *config.notices,
            *_written_keys(config),
            *_unused(config, registry),
            *_shared(registry),
            *masking_notices(masked),
            *vector_notices(_values(config)),
            *(() if recording else audit_notices(setup)),
        ),
    )


def _of_models(config: Config, registry: LoadedRegistry) -> Iterator[_BlockingProblem]:
    """Yield problems of models: missing, or with unusable options; opens the models, but loads no weights."""
    models = Models(config.resolver().base, connection=config.connections.get, data_dir=Path, clock=SystemClock())
    embedded = [name for name, source in _sources(registry) if in_embedded_base(source)]
    needed: list[tuple[Callable[[], object], Sequence[str] | None]] = [
        (models.embedder, embedded),
        (models.reranker, None),
        (models.rerankers, None),
        (models.refiner, None),
        (models.chat_model, ()),
        (models.entailment, ()),
    ]
    for open_model, stops in needed:
        try:
            open_model()
        except ConfigError as error:
            yield _BlockingProblem(error, stops)


def _of_masking(config: Config, masked: Masking, env: Mapping[str, str], cwd: Path) -> Iterator[_BlockingProblem]:
    """Yield why masking is impossible; the domains to be masked, or all if the log is, cannot be searched then."""
    base = config.resolver().base
    try:
        if masked.on:
            ConfiguredMask(base, env=env, cwd=cwd).opened()
        else:
            check_patterns(base())
    except ConfigError as error:
        yield _BlockingProblem(error, None if masked.logs else sorted({*masked.contexts, *masked.stored_queries}))


def _of_audit(setup: Setup) -> list[_BlockingProblem]:
    """Return why recording is impossible; then no engine can be built."""
    try:
        if audit_mode(setup) != "off":
            check_audit(setup)
    except ConfigError as error:
        return [_BlockingProblem(error)]
    return []


def _of_parts(setup: Setup) -> Iterator[_BlockingProblem]:
    """Yield why events go nowhere, jobs cannot be kept, or results cannot be shared; the last stops every search."""
    opened: list[tuple[Callable[[], object], Sequence[str] | None]] = [
        (lambda: check_events(setup), ()),
        (lambda: job_database(setup), ()),
        (lambda: open_shared_cache(setup, SystemClock()), None),  # it connects at its first call
    ]
    for open_part, stops in opened:
        try:
            open_part()
        except ConfigError as error:
            yield _BlockingProblem(error, stops)


def _of_service(setup: Setup) -> Iterator[_BlockingProblem]:
    """Yield why a service would refuse to start; searches elsewhere still work."""
    oidc, connection = setup.config.principals.oidc, setup.config.connections.get
    try:
        read_api_token(setup.env, setup.cwd)
    except ConfigError as error:
        yield _BlockingProblem(error, ())
    try:
        if oidc is not None:
            key_source(oidc, connection, SystemClock())
    except ConfigError as error:
        yield _BlockingProblem(ConfigError(error.problem, file=setup.config.principals.file, key="oidc.jwks"), ())
    try:
        read_session_key(setup.env, setup.cwd)
        code_flow(setup, _values(setup.config).server_public_url or "")
    except ConfigError as error:
        yield _BlockingProblem(error, ())


def _of_settings(config: Config, registry: LoadedRegistry) -> Iterator[_BlockingProblem]:
    """Yield problems of the settings of each domain, and of each persona on top of them."""
    resolver = config.resolver(registry.files)
    yield from _of_experiments(resolver, registry)
    for name, domain in registry.domains.items():
        try:
            base = resolver.base(domain)
            check_segmenter(base.values.word_segmenter)
        except ConfigError as error:
            yield _BlockingProblem(error, [name])
            continue
        yield from _of_cost(base)
        for problem in filter(None, map(domain.unknown_name, dict.fromkeys(base.values.sources or ()))):
            yield _BlockingProblem(ConfigError(problem, file=base.origins.get("sources"), key="sources"), [name])
        for persona in resolver.personas:
            try:
                settings = resolver.base(domain, persona)
                check_segmenter(settings.values.word_segmenter)
            except ConfigError as error:
                yield _BlockingProblem(error, ())
                continue
            unknown = unknown_reranker(settings)
            if unknown is not None:
                yield _BlockingProblem(unknown, ())


def _of_experiments(resolver: SettingsResolver, registry: LoadedRegistry) -> Iterator[_BlockingProblem]:
    """Yield experiments whose settings cannot be used, and those of a domain that is not registered."""
    try:
        base = resolver.base()
    except ConfigError:  # a problem of each domain
        return
    try:
        resolver.check_experiments()
    except ConfigError as error:
        yield _BlockingProblem(error)
    for name, experiment in base.values.experiments.items():
        if experiment.domain not in registry.names:
            problem = f"there is no domain {experiment.domain!r}.{nearest(experiment.domain, registry.names)}"
            key = f"experiments.{name}.domain"
            yield _BlockingProblem(ConfigError(problem, file=base.origins.get("experiments"), key=key), ())


def _of_cost(settings: EffectiveSettings) -> Iterator[_BlockingProblem]:
    """Yield that the chat model of a domain with a cost limit has no price; it would not be asked."""
    values, day = settings.values, SystemClock().now().date()
    limits = (
        values.cost_limit_request,
        values.cost_limit_job,
        values.cost_limit_domain_day,
        values.cost_limit_day,
    )
    model = values.chat_model_options.get("model")
    if values.chat_model is None or not isinstance(model, str) or all(limit is None for limit in limits):
        return
    if valid_price(values.prices, model, day) is None:
        problem = missing_price(model, day)
        yield _BlockingProblem(ConfigError(problem.problem, file=settings.origins.get("prices"), key="prices"), ())


def _of_sources(registry: LoadedRegistry) -> Iterator[_BlockingProblem]:
    """Yield adapters that cannot be imported, and sources that their adapter refuses."""
    for name, source in _sources(registry):
        key = f"sources.{source.id}.adapter"
        try:
            adapter = load_source_adapter(source.adapter, file=registry.files[name], key=key)
        except ConfigError as error:
            yield _BlockingProblem(error, [name])
            continue
        try:
            if adapter.check is not None:
                adapter.check(source)
        except ConfigError as error:
            for problem in error.each:
                yield _BlockingProblem(ConfigError(problem.problem, file=registry.files[name], key=problem.key), [name])


def _of_connections(config: Config, registry: LoadedRegistry) -> Iterator[_BlockingProblem]:
    """Yield unusable connections."""
    for connection in config.connections.names:
        try:
            config.connections.get(connection)
        except ConfigError as error:
            yield _BlockingProblem(
                error, [name for name, source in _sources(registry) if source.connection == connection]
            )


def _of_access(config: Config, registry: LoadedRegistry) -> Iterator[_BlockingProblem]:
    """Yield why the access policy is unusable; then nothing can be searched."""
    try:
        configured_policy(config, registry)
    except ConfigError as error:
        yield _BlockingProblem(error)


def _sources(registry: LoadedRegistry) -> Iterator[tuple[str, SourceSpec]]:
    for name, domain in registry.domains.items():
        for source in domain.sources:
            yield name, source


def _written_keys(config: Config) -> Iterator[Notice]:
    """Yield the connections whose API key or client secret is in a file in plain text."""
    for name in config.connections.names:
        written = config.connections.written(name)
        for key in ("api_key", "client_secret"):
            if isinstance(written.get(key), str) and "${" not in written[key]:
                message = (
                    f"connection {name!r}: the file holds the {key} itself: move it into a variable or a file of its "
                    f"own and write {key}: ${{{_variable(name, key)}}} or ${{file:/run/secrets/{name}_{key}}}"
                )
                yield Notice(NoticeCode.API_KEY_IN_FILE, f"connections.{name}", message)


def _variable(name: str, key: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in f"{name}_{key}").upper()


def _unused(config: Config, registry: LoadedRegistry) -> Iterator[Notice]:
    """Yield unused connections; incomplete while a manifest cannot be read."""
    used = {source.connection for domain in registry.domains.values() for source in domain.sources}
    values, oidc = _values(config), config.principals.oidc
    used |= set() if oidc is None else {oidc.jwks, *([oidc.sign_in.connection] if oidc.sign_in else [])}
    used |= {witness.partition("=")[0] for witness in values.audit_witnesses} | {values.jobs_connection}
    used |= {*_named(values.embedder_options), *_named(values.reranker_options), *_named(values.query_refiner_options)}
    used |= {*_named(values.chat_model_options), *_named(values.entailment_options), *_named(values.event_sinks)}
    if not registry.problems:
        for name in config.connections.names:
            if name not in used:
                message = f"connection {name!r} is used by nothing"
                yield Notice(NoticeCode.CONNECTION_UNUSED, f"connections.{name}", message)
    if not registry.names and not registry.unread:
        message = "no domain is registered: write a manifest, or start with 'context-engine init DIR'"
        yield Notice(NoticeCode.NO_DOMAIN, "", message)


def _named(options: Any) -> Iterator[str]:
    """Yield the connections named in options, including options of ensemble members."""
    if isinstance(options, Mapping):
        if isinstance(options.get("connection"), str):
            yield options["connection"]
        options = tuple(options.values())
    if isinstance(options, list | tuple):
        for option in options:
            yield from _named(option)


def _values(config: Config) -> Settings:
    try:
        return config.resolver().base().values
    except ConfigError:  # reported already
        return Settings()


def _shared(registry: LoadedRegistry) -> Iterator[Notice]:
    """Yield sources of the embedded base that several domains share, because the base stores them by id."""
    names: dict[str, list[str]] = {}
    for name, domain in sorted(registry.domains.items()):
        for source in domain.sources:
            if in_embedded_base(source):
                names.setdefault(source.id, []).append(name)
    for source_id, several in names.items():
        if len(several) > 1:
            message = f"source {source_id!r} is in {' and '.join(several)}: they share its documents"
            yield Notice(NoticeCode.SOURCE_SHARED, source_id, message, {"domains": several})


def _files(paths: ConfigPaths) -> Iterator[Path]:
    paths_found = (paths.config_file(name) for name in CONFIG_FILES)
    yield from (path for path in paths_found if path is not None)
    yield from paths.manifests()


def vector_notices(settings: ModelSettings) -> Iterator[Notice]:
    """Yield advice about `vector_dimensions`; none without an embedder or if vectors are not shortened."""
    count = settings.vector_dimensions
    if settings.embedder is None or count is None:
        return
    from context_engine.adapters.embedders import known_model  # only here: it brings the HTTP client

    name = model_name(settings)
    shortest = known_model(name).shortest
    if not shortest:
        message = f"{name!r} is not known to be trained for shortened vectors: measure what {count} numbers lose with "
        message += "'context-engine eval run', or set vector_dimensions to null"
    elif count < shortest:
        message = f"{name!r} is trained for vectors of {shortest} numbers or more: set vector_dimensions to {shortest}"
    else:
        return
    yield Notice(NoticeCode.VECTORS_CUT, "vector_dimensions", message, {"dimensions": count, "shortest": shortest})
