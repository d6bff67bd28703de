"""A sample by strata: each has its share, and the seed alone decides who is drawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.ledger.look_up import draw_order
from context_engine.audit.review.strata import shares, stratified


def test_the_largest_remainders_get_the_rest() -> None:
    # 10 of 100: exact shares 6.1, 3.3 and .6; 6 + 3 + 0 are given, the last one goes to .6
    assert shares({"a": 61, "b": 33, "c": 6}, 10) == {"a": 6, "b": 3, "c": 1}
    assert shares({"a": 1, "b": 1}, 1) == {"a": 1, "b": 0}  # equal remainders: the first
    assert shares({}, 0) == {}


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 50), min_size=1), st.data())
def test_each_share_is_exact_but_for_its_fraction(sizes: dict[int, int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(sizes.values())))
    given_out = shares(sizes, total)
    assert sum(given_out.values()) == total
    for stratum, count in given_out.items():
        exact = sizes[stratum] * total / max(sum(sizes.values()), 1)
        assert abs(count - exact) < 1 and count <= sizes[stratum]


def test_the_seed_draws_from_each_stratum() -> None:
    strata = {f"r{number}": ("NPA" if number % 4 else "ORM",) for number in range(40)}  # 30 NPA, 10 ORM
    sample = stratified(strata, 8, "84417")
    assert sample.shares == {("NPA",): (30, 6), ("ORM",): (10, 2)}
    npa = sorted(
        (name for name, stratum in strata.items() if stratum == ("NPA",)), key=lambda r: draw_order("84417", r)
    )
    assert sample.record_ids[:6] == tuple(npa[:6])
    assert stratified(dict(reversed(strata.items())), 8, "84417") == sample
    assert set(stratified(strata, 8, "other").record_ids) != set(sample.record_ids)
    assert len(stratified(strata, 500, "s").record_ids) == 40


@given(st.lists(st.sampled_from(["NPA", "ORM", "DCE", ""]), min_size=1, max_size=60), st.integers(1, 80), st.data())
def test_every_sample_holds_its_shares_whatever_the_order(domains: list[str], size: int, data: st.DataObject) -> None:
    strata = {f"r{number}": (domain,) for number, domain in enumerate(domains)}
    sample = stratified(strata, size, "84417")
    drawn = min(size, len(strata))
    assert len(set(sample.record_ids)) == len(sample.record_ids) == drawn
    for stratum, (population, share) in sample.shares.items():
        assert population == domains.count(stratum[0])
        assert share == sum(strata[record_id] == stratum for record_id in sample.record_ids)
        assert abs(share - population * drawn / len(strata)) < 1
    shuffled = data.draw(st.permutations(list(strata.items())))
    assert stratified(dict(shuffled), size, "84417") == sample
