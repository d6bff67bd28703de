"""A draft of a configuration beside the one in force: other manifests or settings, or a copy of the data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.protocols import AccessProvable, CopiesElsewhere, Rehearsable
from context_engine.errors import ConfigError
from context_engine.settings.files import read_yaml
from context_engine.wiring.build import SourceOpener, source_opener
from context_engine.wiring.examine import opened_store
from context_engine.wiring.setup import Setup, load_setup


@contextmanager
def draft_setup(
    setup: Setup,
    *,
    config_dir: str | None,
    draft_dir: str | None = None,
    manifests: Sequence[Path] = (),
    settings: Path | None = None,
    stage: str | None = None,
) -> Iterator[Setup]:
    """Yield the draft of a configuration.

    Args:
        setup: the configuration in force.
        config_dir: where that came from, as on the command line.
        draft_dir: a whole configuration in its place; None: the same.
        manifests: files in place of those of the same domains, or for new domains.
        settings: a JSON file of settings above all others, also above those of personas and domains.

    Raises:
        ConfigError: the draft cannot be used.
    """
    overlay = {} if settings is None else _settings(settings)
    if not manifests:
        loaded = setup if draft_dir is None else _loaded(setup, draft_dir, None, stage)
        yield loaded.with_pipeline(overlay) if overlay else loaded
        return
    with TemporaryDirectory(prefix="context-engine-draft-") as folder:
        base = setup if draft_dir is None else _loaded(setup, draft_dir, None, stage)
        _link_manifests(base, manifests, Path(folder))
        loaded = _loaded(setup, draft_dir or config_dir, Path(folder), stage)
        yield loaded.with_pipeline(overlay) if overlay else loaded


@contextmanager
def copied_data(setup: Setup, domain: DomainSpec, data_dir: Path) -> Iterator[Path]:
    """Yield a folder with a copy of the stores of a domain, which is removed afterwards.

    A store is copied with its index if it can be: a change to the copy then does what it would do to the store.

    Raises:
        ConfigError: a store cannot be copied.
        SourceError, StoreError: it cannot be read.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    with TemporaryDirectory(prefix="context-engine-draft-data-") as name, ExitStack() as stack:
        folder = Path(name)
        for spec in {spec.adapter: spec for spec in domain.sources}.values():
            stack.enter_context(copied_store(opener, domain, spec, folder, with_index=True))
        yield folder


@contextmanager
def copied_store(
    opener: SourceOpener, domain: DomainSpec, spec: SourceSpec, folder: Path, *, with_index: bool = False
) -> Iterator[None]:
    """Copy the store of a source into a data folder; what it keeps elsewhere for that is removed at the end.

    Args:
        with_index: copy its index too, if it can be copied.

    Raises:
        ConfigError: the store cannot be copied.
        SourceError, StoreError: it cannot be read.
    """
    with opened_store(opener, domain, spec, AccessProvable) as store:
        if with_index and isinstance(store, Rehearsable):
            store.copy_with_index_to(folder)
        else:
            store.copy_to(folder)
    try:
        yield
    finally:
        if isinstance(store, CopiesElsewhere):
            with opened_store(opener, domain, spec, CopiesElsewhere) as remover:
                remover.drop_copy(folder)


def _loaded(setup: Setup, config_dir: str | None, manifest_dir: Path | None, stage: str | None) -> Setup:
    return load_setup(config_dir=config_dir, manifest_dir=manifest_dir, stage=stage, env=setup.env, cwd=setup.cwd)


def _settings(file: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read as JSON ({type(error).__name__})", file=str(file)) from None
    if not isinstance(values, dict):
        raise ConfigError("must be a JSON object of settings", file=str(file))
    return values


def _link_manifests(base: Setup, drafts: Sequence[Path], folder: Path) -> None:
    """Link the manifests in force into a folder, with the drafts in place of those of their domains."""
    replaced = {_domain(draft) for draft in drafts}
    kept = [file for file in base.config.paths.manifests() if _domain(file) not in replaced]
    for number, file in enumerate((*kept, *drafts)):
        (folder / f"{number:03}-{file.name}").symlink_to(file.resolve())
    stages = base.config.paths.manifest_dir
    if stages is not None and (stages / "stages").is_dir():
        (folder / "stages").symlink_to((stages / "stages").resolve())


def _domain(manifest: Path) -> object:
    """Return the domain that a manifest declares.

    Raises:
        ConfigError: it cannot be read.
    """
    return read_yaml(manifest, str(manifest)).get("domain")
