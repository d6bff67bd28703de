"""Which sources are copied: those whose manifest names either adapter, each as it is and as it would be."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.core.models import DomainSpec
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.wiring.copying import CopyOrder, copied_sources

ORDER = CopyOrder("local", "postgres", connection="db", settings={"schema_name": "bank"})
BACK = ORDER._replace(origin="postgres", target="local")
SETTINGS = {"schema_name": "bank"}


def domain(*sources: dict[str, Any]) -> DomainSpec:
    return DomainSpec(version=1, domain="DESK", sources=[{"type": "bank_sop", **source} for source in sources])  # type: ignore[arg-type]


def stores(bank: DomainSpec, order: CopyOrder) -> list[tuple[str, str | None, str, str | None]]:
    pairs = copied_sources(bank, order)
    return [
        (pair.origin.adapter, pair.origin.connection, pair.target.adapter, pair.target.connection) for pair in pairs
    ]


@pytest.mark.parametrize("named", ["local", "postgres"])
def test_the_order_says_what_the_manifest_does_not(named: str) -> None:
    """Before and after the manifest is changed, and both ways."""
    own = {"connection": "db", "settings": SETTINGS} if named == "postgres" else {}
    bank = domain({"id": "a", "adapter": named, **own}, {"id": "web", "adapter": "dify", "connection": "dify"})
    order = ORDER if named == "local" else ORDER._replace(connection=None, settings={})
    assert stores(bank, order) == [("local", None, "postgres", "db")]
    assert stores(bank, order._replace(origin="postgres", target="local")) == [("postgres", "db", "local", None)]
    (pair,) = copied_sources(bank, order)
    assert pair.target.settings == SETTINGS and pair.target.id == "a"


def test_a_domain_may_be_half_moved_already() -> None:
    bank = domain({"id": "a"}, {"id": "b", "adapter": "postgres", "connection": "db", "settings": SETTINGS})
    assert stores(bank, ORDER) == [("local", None, "postgres", "db")] * 2
    assert [pair.origin.id for pair in copied_sources(bank, ORDER._replace(source_id="b"))] == ["b"]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (ORDER._replace(connection=None), "needs a connection.*--connection"),
        (ORDER._replace(settings={"schema": "bank"}), "schema_name"),
        (ORDER._replace(source_id="aa"), "'aa' is not one to copy"),
        (ORDER._replace(origin="local", target="local", connection=None, settings={}), "the same store"),
        (ORDER._replace(origin="dify", target="postgres"), "no source with 'adapter: dify'"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused(order: CopyOrder, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        copied_sources(domain({"id": "a"}), order)


def test_sources_of_several_stores_are_copied_one_by_one() -> None:
    other = {"adapter": "postgres", "connection": "other"}
    bank = domain({"id": "a", "adapter": "postgres", "connection": "db"}, {"id": "b", **other})
    back = CopyOrder("postgres", "local")
    with pytest.raises(InvalidRequest, match="one by one with --source"):
        copied_sources(bank, back)
    assert stores(bank, back._replace(source_id="b")) == [("postgres", "other", "local", None)]


def test_an_unknown_adapter_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown adapter 'postgre'"):
        copied_sources(domain({"id": "a"}), ORDER._replace(target="postgre"))
