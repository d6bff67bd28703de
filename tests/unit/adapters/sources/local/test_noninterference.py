"""What a caller may not read changes none of its answers; and every way in which it could is found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from context_engine.adapters.sources.local import (
    LocalBase,
    LocalSource,
    SearchOptions,
    candidates,
    search,
)
from context_engine.adapters.sources.local.reader import Viewer
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.adapters.sources.stores import adapter_rows
from context_engine.adapters.sources.stores.chunk_rows import places
from context_engine.core.models import AccessScope
from context_engine.testing import AccessContract, FakeEmbedder, FixedClock


class _LocalContract(AccessContract):
    embedder: FakeEmbedder | None = None
    options = SearchOptions()

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path) -> None:
        self.folder = tmp_path / "base"

    @contextmanager
    def open_sink(self, specs, rules_of):
        with BaseWriter(
            self.folder,
            now=FixedClock().now,
            embedder=self.embedder,
            approximate_from=self.options.approximate_from,
            place=places(specs, rules_of),
        ) as writer:
            yield writer

    def open_source(self, spec, rules_of):
        base = LocalBase(self.folder, now=FixedClock().now, embedder=self.embedder, options=self.options)
        return LocalSource(base, spec.id, spec=spec)


class TestByText(_LocalContract):
    changes, questions = 12, 8


class TestByAdapters(_LocalContract):
    """With every change an adapter is learnt from what everybody may read, and another from all there is."""

    changes, questions = 6, 6
    compares_versions = False  # what everybody may read is learnt from anew, too

    @pytest.fixture(autouse=True)
    def _embedder(self) -> None:
        pytest.importorskip("numpy", reason="the extra 'vectors'")
        self.embedder, self.learnt = FakeEmbedder(16), 0

    @contextmanager
    def open_sink(self, specs, rules_of):
        with super().open_sink(specs, rules_of) as sink:
            yield sink
        with LocalBase(self.folder, now=FixedClock().now, embedder=self.embedder) as base:
            self.learnt += 1
            for seed, access in ((0, AccessScope()), (self.learnt, None)):
                origin = base.held_vectors([spec.id for spec in specs], access=access).origin
                kept = base.keep_adapter(self.access_domain.domain, self._adapter(seed), {}, origin)
                base.use_adapter(self.access_domain.domain, kept.adapter_id)

    def _adapter(self, seed):
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        maps = np.random.default_rng(seed).standard_normal((2, 16, 16))
        return DomainAdapter(self.embedder.model_id, *maps)


@pytest.mark.slow
def test_a_choice_that_knows_what_may_not_be_read_is_found(monkeypatch, tmp_path):
    """An adapter learnt from hidden documents too, used by everybody."""
    pytest.importorskip("numpy", reason="the extra 'vectors'")
    monkeypatch.setattr(adapter_rows._AdapterRow, "is_readable", lambda _row, _keys: True)
    contract = TestByAdapters()
    contract.folder, contract.embedder, contract.learnt = tmp_path / "base", FakeEmbedder(16), 0
    with pytest.raises(AssertionError, match="hidden documents show in"):
        contract.test_unreadable_documents_change_no_answer()


@pytest.mark.slow
class TestByVectors(_LocalContract):
    changes, questions = 100, 30

    @pytest.fixture(autouse=True)
    def _embedder(self) -> None:
        pytest.importorskip("numpy")
        self.embedder = FakeEmbedder()


@pytest.mark.slow
class TestByCells(TestByVectors):
    """However few the vectors are, they are parted into cells."""

    changes, questions = 50, 20
    options = SearchOptions(approximate_from=1)


_WHOLE: list[Viewer] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the viewer of each search, so that a leaky function can look at everything."""
    view = Viewer.view

    def kept(self: Viewer, *given: Any, **named: Any) -> Any:
        _WHOLE[:] = [self]
        return view(self, *given, **named)

    monkeypatch.setattr(Viewer, "view", kept)
    monkeypatch.setattr(Viewer, "whole", lambda self: view(self), raising=False)


def _of_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a view that is given the view of everything."""

    def leaky(_view: Any, *given: Any) -> Any:
        with _WHOLE[0].whole() as whole:
            found = function(whole, *given)
            return list(found) if hasattr(found, "__next__") else found

    return leaky


def _vocabulary_of_all(function: Callable[..., Any]) -> Callable[..., Any]:
    def leaky(vocabulary: Any, *given: Any) -> Any:
        with _WHOLE[0].whole() as whole:
            return function(vocabulary._replace(view=whole), *given)

    return leaky


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "leak", "shows_at"),
    [
        (search, "_statistics", _of_all, "statistics"),
        (search, "_fields_of", _of_all, "filter_fields"),
        (search, "looked_up", _vocabulary_of_all, "unknown_words"),
        (search, "_found", _of_all, r"chunks(\[\]|\.length)"),
        (candidates, "_read", _of_all, r"chunks\[\]\.scores\[\]\.value"),
        (candidates, "best_hit", _of_all, r"chunks\[\]\.scores\[\]\.value"),
    ],
    ids=["statistics", "fields", "vocabulary", "everything", "index", "normaliser"],
)
def test_a_leak_is_found(module, name, leak, shows_at, seen, monkeypatch, tmp_path):
    pytest.importorskip("numpy")
    monkeypatch.setattr(module, name, leak(getattr(module, name)))
    contract = _LocalContract()
    contract.folder, contract.embedder = tmp_path / "base", FakeEmbedder()
    contract.changes, contract.questions = 25, 15
    with pytest.raises(AssertionError, match=rf"hidden documents show in .*(open|bare)_rules\.{shows_at}"):
        contract.test_unreadable_documents_change_no_answer()
