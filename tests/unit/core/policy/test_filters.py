"""The forms a filter is written in, and the comparison law."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import (
    And,
    Chunk,
    Classification,
    Condition,
    FilterOp,
    Not,
    Or,
    SourceType,
    filter_to_dict,
)
from context_engine.core.policy.filters import chunk_fields, matches, named_fields, own_fields, parse_filter
from context_engine.errors import InvalidFilter


def keeps(written: Any, **fields: Any) -> bool:
    return matches(parse_filter(written), fields)


class TestForms:
    @pytest.mark.parametrize("nothing", [None, {}, "", "   ", " ; "])
    def test_nothing_is_no_filter(self, nothing: Any) -> None:
        assert parse_filter(nothing) is None
        assert matches(None, {})

    def test_a_filter_passes_through(self) -> None:
        given = Not(Condition("a", FilterOp.EQ, 1))
        assert parse_filter(given) is given

    def test_b7_suffixed_mapping(self) -> None:
        assert parse_filter({"year_gte": 1960, "year_lte": 1969, "content_type": ["a", "b"], "version": "3.2"}) == And(
            (
                Condition("year", FilterOp.GTE, 1960),
                Condition("year", FilterOp.LTE, 1969),
                Condition("content_type", FilterOp.IN, ("a", "b")),
                Condition("version", FilterOp.EQ, "3.2"),
            )
        )

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("a_gt", 1, Condition("a", FilterOp.GT, 1)),
            ("a_lt", 1, Condition("a", FilterOp.LT, 1)),
            ("a_ne", 1, Condition("a", FilterOp.NE, 1)),
            ("a_ne", [1, 2], Condition("a", FilterOp.NOT_IN, (1, 2))),
            ("a_in", [1, 2], Condition("a", FilterOp.IN, (1, 2))),
            ("a_nin", [1], Condition("a", FilterOp.NOT_IN, (1,))),
            ("a_contains", "x", Condition("a", FilterOp.CONTAINS, "x")),
            ("a_not_contains", "x", Condition("a", FilterOp.NOT_CONTAINS, "x")),
            ("a_startswith", "x", Condition("a", FilterOp.STARTS_WITH, "x")),
            ("a_endswith", "x", Condition("a", FilterOp.ENDS_WITH, "x")),
            ("a_empty", True, Condition("a", FilterOp.EMPTY)),
            ("a_empty", False, Condition("a", FilterOp.NOT_EMPTY)),
            ("a", None, Condition("a", FilterOp.EMPTY)),
            ("a_ne", None, Condition("a", FilterOp.NOT_EMPTY)),
            ("a", date(2025, 1, 1), Condition("a", FilterOp.EQ, date(2025, 1, 1))),
            ("built_in", True, Condition("built_in", FilterOp.EQ, True)),
            ("_gte", 1, Condition("_gte", FilterOp.EQ, 1)),
        ],
    )
    def test_each_suffix(self, key: str, value: Any, expected: Condition) -> None:
        assert parse_filter({key: value}) == expected

    def test_tree(self) -> None:
        written = {
            "or": [
                {"and": [{"field": "a", "op": "is", "value": 1}, {"b_gte": 2, "c": 3}]},
                {"not": {"field": "d", "op": "in", "value": ["x"]}},
                Condition("e", FilterOp.EMPTY),
            ]
        }
        assert parse_filter(written) == Or(
            (
                And(
                    (
                        Condition("a", FilterOp.EQ, 1),
                        And((Condition("b", FilterOp.GTE, 2), Condition("c", FilterOp.EQ, 3))),
                    )
                ),
                Not(Condition("d", FilterOp.IN, ("x",))),
                Condition("e", FilterOp.EMPTY),
            )
        )

    @pytest.mark.parametrize(
        ("words", "op"),
        [
            ("= == is eq equals", FilterOp.EQ),
            ("!= ≠ ne", FilterOp.NE),
            ("> gt after", FilterOp.GT),
            (">= ≥ gte", FilterOp.GTE),
            ("< lt before", FilterOp.LT),
            ("<= ≤ lte", FilterOp.LTE),
            ("contains ~", FilterOp.CONTAINS),
        ],
    )
    def test_spellings_of_an_operator(self, words: str, op: FilterOp) -> None:
        for word in words.split():
            assert parse_filter({"field": "a", "op": word, "value": "1"}) == Condition("a", op, "1")
            assert parse_filter(f"a {word} 1") == Condition("a", op, "1")

    @pytest.mark.parametrize(
        ("word", "op"),
        [
            ("is not", FilterOp.NE),
            ("not contains", FilterOp.NOT_CONTAINS),
            ("start with", FilterOp.STARTS_WITH),
            ("Ends  With", FilterOp.ENDS_WITH),
            ("on or after", FilterOp.GTE),
        ],
    )
    def test_operators_of_several_words(self, word: str, op: FilterOp) -> None:
        assert parse_filter({"field": "a", "op": word, "value": "x"}) == Condition("a", op, "x")

    @pytest.mark.parametrize("word", ["empty", "not empty", "is empty", "is not empty"])
    def test_emptiness_takes_no_value(self, word: str) -> None:
        op = FilterOp.NOT_EMPTY if "not" in word else FilterOp.EMPTY
        assert parse_filter(f"owner {word}") == Condition("owner", op)
        assert parse_filter({"field": "owner", "op": word}) == Condition("owner", op)

    def test_line_of_text(self) -> None:
        line = "version=3.2; date>=2025-01-01; doc_type in sop_document,regulatory_notice; tier<=2; title~limits"
        assert parse_filter(line) == And(
            (
                Condition("version", FilterOp.EQ, "3.2"),
                Condition("date", FilterOp.GTE, "2025-01-01"),
                Condition("doc_type", FilterOp.IN, ("sop_document", "regulatory_notice")),
                Condition("tier", FilterOp.LTE, "2"),
                Condition("title", FilterOp.CONTAINS, "limits"),
            )
        )

    @pytest.mark.parametrize(
        ("line", "values"),
        [
            ("section in 4.2.1(a), 4.2.1(b)", ("4.2.1(a)", "4.2.1(b)")),
            ("section in (4.2.1(a), 4.2.1(b))", ("4.2.1(a)", "4.2.1(b)")),
            ("section in [4.2.1(a), 4.2.1(b)]", ("4.2.1(a)", "4.2.1(b)")),
            ("section in (a), (b)", ("(a)", "(b)")),
            ("section in [(a), (b)]", ("(a)", "(b)")),
            ('section in ["a]", b]', ("a]", "b")),
            ("section in [a, b", ("[a", "b")),
        ],
    )
    def test_brackets_around_a_list_go_and_those_of_a_value_stay(self, line: str, values: tuple[str, ...]) -> None:
        assert parse_filter(line) == Condition("section", FilterOp.IN, values)

    def test_quotes_keep_separators(self) -> None:
        assert parse_filter('title = "limits; large"') == Condition("title", FilterOp.EQ, "limits; large")
        assert parse_filter('owner not in "Risk, Market", Legal') == Condition(
            "owner", FilterOp.NOT_IN, ("Risk, Market", "Legal")
        )

    def test_json_text_is_read(self) -> None:
        assert parse_filter('{"year_gte": 1960}') == Condition("year", FilterOp.GTE, 1960)

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (5, "a mapping or a line of text, got int"),
            ("version", "cannot read 'version'"),
            ("year => 3", "unknown operator"),
            ("a =", "no value"),
            ("a is empty now", "cannot read|takes no value"),
            ('{"a": ', "looks like JSON"),
            ({"field": "a", "op": "contain", "value": 1}, "Did you mean 'contains'"),
            ({"field": "a", "op": "between", "value": 1}, "unknown operator 'between' for field 'a'"),
            ({"field": "a", "op": "in", "value": "x"}, "in takes a list"),
            ({"field": "a", "op": "gt", "value": [1]}, "gt takes one value"),
            ({"field": "a", "op": "eq", "val": 1}, "unknown key 'val'.*Did you mean 'value'"),
            ({"and": [], "a": 1}, "must be alone"),
            ({"and": {"a": 1}}, "takes a list"),
            ({"or": [3]}, "a part of a filter"),
            ({"a": {"b": 1}}, "field 'a': a value is"),
            ({"a": float("nan")}, "finite"),
            ({"a_gte": None}, "field 'a'"),
            ({"": 1}, "a field name is text"),
            ({5: 1}, "a field name is text"),
        ],
    )
    def test_bad_forms_name_the_part(self, bad: Any, says: str) -> None:
        with pytest.raises(InvalidFilter, match=says):
            parse_filter(bad)

    def test_depth_is_bounded(self) -> None:
        deep: Any = {"a": 1}
        for _ in range(40):
            deep = {"not": deep}
        with pytest.raises(InvalidFilter, match="nested more than 32"):
            parse_filter(deep)

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            parse_filter(text)
        except InvalidFilter as error:
            assert str(error)


class TestNumbers:
    def test_numeric_text_meets_a_number(self) -> None:
        assert keeps("tier<=2", tier=2) and not keeps("tier<=2", tier=3)
        assert keeps({"year": 1960}, year="1960.0")
        assert keeps({"year_gte": 1960, "year_lte": 1969}, year="1965")

    def test_two_numeric_texts_are_ordered_as_numbers(self) -> None:
        assert keeps("n > 9", n="10")
        assert not keeps("version = 3.20", version="3.2")

    def test_a_number_of_any_length_is_compared(self) -> None:
        assert matches(parse_filter("n>5"), {"n": "9" * 5000})
        assert not matches(parse_filter("n=" + "9" * 5000), {"n": 5})

    def test_a_moment_beyond_time_is_text(self) -> None:
        beyond = "9999-12-31T23:00:00-12:00"
        assert not matches(parse_filter("n>2025-01-01"), {"n": beyond})
        assert matches(parse_filter({"n": beyond}), {"n": beyond})

    def test_true_is_no_number(self) -> None:
        assert not keeps({"a": 1}, a=True) and not keeps({"a_gte": 0}, a=True)
        assert keeps({"a": True}, a=True) and keeps("a=true", a=True)

    def test_a_number_is_not_ordered_with_a_word(self) -> None:
        assert not keeps({"a_gt": 1}, a="many") and not keeps({"a_lt": 1}, a="many")


class TestDates:
    @pytest.mark.parametrize("have", ["2025-01-02", date(2025, 1, 2), datetime(2025, 1, 2, 8, tzinfo=UTC)])
    def test_forms_of_a_date(self, have: Any) -> None:
        assert keeps("day >= 2025-01-02", day=have)
        assert keeps("day = 2025-01-02", day=have)
        assert not keeps("day > 2025-01-02", day=have)
        assert keeps({"day_lt": date(2025, 1, 3)}, day=have)

    def test_moments_compare_in_utc(self) -> None:
        assert keeps("at < 2025-01-01T00:30:00+00:00", at="2025-01-01T08:00:00+08:00")
        assert keeps("at = 2025-01-01T00:00:00Z", at="2025-01-01T08:00:00+08:00")
        assert keeps("at = 2025-01-01T00:00:00", at=datetime(2025, 1, 1, tzinfo=UTC))

    def test_a_year_is_no_date(self) -> None:
        assert not keeps({"day_gte": 2024}, day="2025-01-01")
        assert not keeps("day >= 2024", day="2025-01-01")

    def test_what_only_looks_like_a_date_is_text(self) -> None:
        assert keeps("id = 2025-99-99", id="2025-99-99")
        assert not keeps("id > 2025-01-01", id="2025-99-99")


class TestText:
    def test_case_is_folded(self) -> None:
        assert keeps("owner = market risk", owner="Market Risk")
        assert keeps("owner ~ RISK", owner="Market Risk")
        assert keeps("owner starts with market", owner="Market Risk")
        assert keeps("owner ends with RISK", owner="Market Risk")
        assert keeps("owner in legal, market risk", owner="Market Risk")

    def test_texts_are_ordered_alphabetically(self) -> None:
        assert keeps("grade < C", grade="b") and not keeps("grade < B", grade="b")

    def test_a_number_contains_its_digits(self) -> None:
        assert keeps("notice ~ 63", notice=637)


class TestLists:
    def test_any_member_will_do(self) -> None:
        assert keeps({"tags": "a"}, tags=["A", "b"]) and keeps({"tags": ["c", "b"]}, tags=["a", "b"])
        assert keeps({"tags_contains": "lim"}, tags=("limits",)) and keeps({"years_gt": 2000}, years=[1999, 2001])

    def test_the_opposite_needs_every_member(self) -> None:
        assert not keeps({"tags_ne": "a"}, tags=["a", "b"]) and keeps({"tags_ne": "c"}, tags=["a", "b"])


class TestByName:
    """A condition made in Python may say its comparison by name; before, an unknown one meant `ends_with`."""

    @pytest.mark.parametrize("op", list(FilterOp))
    def test_a_name_is_the_comparison(self, op: FilterOp) -> None:
        named = Condition("a", op.value, "1")  # type: ignore[arg-type]
        assert named == Condition("a", op, "1") and named.op is op

    def test_equal_is_not_ends_with(self) -> None:
        condition = Condition("desk", "eq", 7)  # type: ignore[arg-type]
        assert [desk for desk in (7, 17, 77) if matches(condition, {"desk": desk})] == [7]

    def test_another_word_is_refused(self) -> None:
        with pytest.raises(InvalidFilter, match="'equals' is not a comparison: use one of eq, ne, in"):
            Condition("a", "equals", 1)  # type: ignore[arg-type]


class TestMissing:
    @pytest.mark.parametrize("op", list(FilterOp))
    def test_only_four_comparisons_hold(self, op: FilterOp) -> None:
        condition = Condition("gone", op, ("x",) if op in (FilterOp.IN, FilterOp.NOT_IN) else "x")
        holds = op in (FilterOp.EMPTY, FilterOp.NE, FilterOp.NOT_IN, FilterOp.NOT_CONTAINS)
        assert matches(condition, {}) is holds
        assert matches(condition, {"gone": None}) is holds

    @pytest.mark.parametrize("nothing", [None, "", [], {}])
    def test_empty_values_are_empty(self, nothing: Any) -> None:
        assert keeps("a is empty", a=nothing) and not keeps("a is not empty", a=nothing)

    @pytest.mark.parametrize("something", [0, False, "x", [0]])
    def test_zero_is_not_empty(self, something: Any) -> None:
        assert keeps("a is not empty", a=something)


scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["1", "x", "2025-01-01", "", "True"]))
conditions = st.builds(
    Condition, st.sampled_from(["a", "b"]), st.sampled_from([FilterOp.EQ, FilterOp.GT, FilterOp.NE]), scalars
)


@given(st.lists(conditions, max_size=4), st.dictionaries(st.sampled_from(["a", "b"]), scalars))
def test_and_or_not_are_boolean(parts: list[Condition], fields: dict[str, Any]) -> None:
    held = [matches(part, fields) for part in parts]
    assert matches(And(tuple(parts)), fields) is all(held)
    assert matches(Or(tuple(parts)), fields) is any(held)
    assert matches(Not(And(tuple(parts))), fields) is not all(held)


@given(scalars, scalars)
def test_order_and_equality_agree(have: Any, want: Any) -> None:
    def holds(op: FilterOp) -> bool:
        return matches(Condition("a", op, want), {"a": have})

    assert holds(FilterOp.GT) + holds(FilterOp.LT) <= 1
    assert not (holds(FilterOp.GT) and holds(FilterOp.EQ))
    assert holds(FilterOp.NE) is not holds(FilterOp.EQ)
    if holds(FilterOp.GT):
        assert holds(FilterOp.GTE) and not holds(FilterOp.LTE)


class TestFields:
    CHUNK = Chunk(
        content="text",
        chunk_id="c1",
        document_id="SOP-1",
        document_version="3.2",
        title="Limits",
        effective_from=date(2025, 1, 1),
        metadata={"title": "other", "version": "1", "tier": 1, "year": 1960, "source": "wiki"},
    )

    def test_own_fields_hide_metadata(self) -> None:
        fields = own_fields(self.CHUNK)
        assert fields["title"] == "Limits" and fields["year"] == 1960
        assert fields["version"] == fields["document_version"] == "3.2"
        assert "section" not in fields

    def test_metadata_shows_where_the_chunk_is_silent(self) -> None:
        assert own_fields(Chunk(content="text", metadata={"version": "1"}))["version"] == "1"

    def test_the_source_s_word_is_last(self) -> None:
        fields = chunk_fields(
            self.CHUNK,
            source_id="web",
            source_type=SourceType.GENERAL_WEB,
            tier=5,
            classification=Classification.PUBLIC,
            domain="NPA",
        )
        assert (fields["tier"], fields["authority_tier"], fields["source_type"]) == (5, 5, "general_web")
        assert (fields["source"], fields["source_id"], fields["domain"]) == ("web", "web", "NPA")
        assert matches(parse_filter("tier>=5; classification=public; version=3.2; effective_from<=2025-01-01"), fields)

    def test_nothing_is_mutated(self) -> None:
        before = dict(self.CHUNK.metadata)
        own_fields(self.CHUNK)["year"] = 0
        assert dict(self.CHUNK.metadata) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date>=2025-99-01", "no day of the calendar"),
        ("date>=foo", "is a date"),
        ("tier<=x", "is a number"),
        ("tier=1 or 1=1", "is a number"),
    ],
)
def test_what_no_chunk_can_meet_is_refused(text, message):
    with pytest.raises(InvalidFilter, match=message):
        parse_filter(text)


@pytest.mark.parametrize("text", ["tier<=2; date>=2025-01-01", "doc_type in a,b", "title~limits"])
def test_a_filter_written_out_reads_back(text):
    tree = parse_filter(text)
    assert parse_filter(filter_to_dict(tree)) == tree


def test_no_filter_is_none():
    assert filter_to_dict(None) is None
    tree = Or((Not(Condition("tier", FilterOp.EQ, 1)), And((Condition("date", FilterOp.LT, date(2025, 1, 1)),))))
    assert filter_to_dict(tree) == {
        "or": [
            {"not": {"field": "tier", "op": "eq", "value": 1}},
            {"and": [{"field": "date", "op": "lt", "value": "2025-01-01"}]},
        ]
    }


def test_a_filter_has_so_many_conditions_and_no_more() -> None:
    lines = ["; ".join(f"f{number}=1" for number in range(many)) for many in (1000, 1001)]
    parse_filter(lines[0])
    with pytest.raises(InvalidFilter, match="1000"):
        parse_filter(lines[1])
    with pytest.raises(InvalidFilter, match="1000"):
        parse_filter({"or": [{"not": {"and": [{"a": 1}, {"b": 2}]}}] * 501})


@pytest.mark.parametrize("given", ["(" * 9000, {"a": {"b": "c" * 9000}}, {"field": "c" * 9000, "op": "x" * 9000}])
def test_a_refusal_says_no_more_of_a_filter_than_is_needed(given: object) -> None:
    with pytest.raises(InvalidFilter) as raised:
        parse_filter(given)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("op", FilterOp)
def test_a_mapping_fails_every_comparison(op: FilterOp) -> None:
    """Even with its own text as the value; the opposites hold, and it is not empty."""
    owner = {"desk": "rates"}
    want = (str(owner),) if op in (FilterOp.IN, FilterOp.NOT_IN) else str(owner)
    holds = {FilterOp.NE, FilterOp.NOT_IN, FilterOp.NOT_CONTAINS, FilterOp.NOT_EMPTY}
    assert matches(Condition("owner", op, want), {"owner": owner}) is (op in holds)


def test_blanks_around_a_number_and_a_date_are_no_part_of_them() -> None:
    assert keeps({"n": 5}, n=" 5 ")
    assert keeps({"n_gt": 9}, n=" 10\n")
    assert keeps({"day": "2025-01-02"}, day=" 2025-01-02T08:00:00Z ")


def test_a_mapping_of_one_field_is_that_condition_and_of_two_both() -> None:
    one, two = Condition("a", FilterOp.EQ, 1), Condition("b", FilterOp.EQ, 2)
    assert parse_filter({"a": 1}) == one
    assert parse_filter({"a": 1, "b": 2}) == And((one, two))


def test_whole_numbers_of_300_digits_are_compared_exactly_and_longer_ones_as_floats() -> None:
    """10^299 < 10^299 + 1, and 10^300 and 10^300 + 1 are one float."""
    assert keeps(f"n > 1{'0' * 299}", n=f"1{'0' * 298}1")
    assert not keeps(f"n > 1{'0' * 300}", n=f"1{'0' * 299}1")


@pytest.mark.parametrize(
    ("have", "want", "equal"),
    [
        ("2025-01-02", "2025-01-03", False),
        ("2025-01-02T08:00Z", "2025-01-02", True),
        ("2025-01-02T08:00Z", "2025-01-02T09:00Z", False),
        ("2025-01-02T08:00Z", "2025-01-02T09:00+01:00", True),
        ("2025-01-02", "2 January 2025", False),
    ],
)
def test_two_dates_are_equal_by_their_day_and_two_moments_by_their_time(have: str, want: str, equal: bool) -> None:
    assert keeps({"day": want}, day=have) is keeps({"day": have}, day=want) is equal


@pytest.mark.parametrize("field", ["date", "effective_from", "effective_to", "fetched_at"])
def test_a_field_of_dates_takes_days_of_the_calendar(field: str) -> None:
    """A word may be looked for in it, but not compared by order; "2025-01" has the year that is needed."""
    for line in (f"{field} = 2025-02-30", f"{field} > 2025-02-30", f"{field} > soon", f"{field} < 202x"):
        with pytest.raises(InvalidFilter, match=r"no day of the calendar|is a date"):
            parse_filter(line)
    for line in (f"{field} = soon", f"{field} > 2025-01", f"{field} > 2025", f"{field} = 2025-02-28"):
        assert isinstance(parse_filter(line), Condition)


def test_an_impossible_day_is_refused_in_an_order_and_is_text_in_any_other_comparison() -> None:
    with pytest.raises(InvalidFilter, match="no day of the calendar"):
        parse_filter("id > 2025-99-99")
    assert parse_filter("id = 2025-99-99") == Condition("id", FilterOp.EQ, "2025-99-99")


@pytest.mark.parametrize("field", ["tier", "authority_tier", "position"])
def test_a_field_of_numbers_takes_numbers(field: str) -> None:
    assert parse_filter(f"{field} = 2") == Condition(field, FilterOp.EQ, "2")
    assert parse_filter({field: 2}) == Condition(field, FilterOp.EQ, 2)
    with pytest.raises(InvalidFilter, match="is a number, got 'two'"):
        parse_filter(f"{field} = two")


def test_a_filter_is_32_deep_at_most() -> None:
    def nested(depth: int) -> Any:
        return {"not": nested(depth - 1)} if depth else {"a": 1}

    assert parse_filter(nested(32)) is not None
    for deep in (nested(33), {"and": [nested(32)]}, {"or": [nested(32)]}):
        with pytest.raises(InvalidFilter, match="nested more than 32"):
            parse_filter(deep)


def test_a_refusal_shows_200_characters_of_a_value() -> None:
    """198 letters and two quotation marks are shown whole."""
    for letters, shown in ((198, f"'{'c' * 198}'"), (199, f"'{'c' * 199} …")):
        with pytest.raises(InvalidFilter) as raised:
            parse_filter({"field": "c" * letters, "op": "x"})
        assert f"for field {shown}." in str(raised.value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"field": "a", "value": 1}, Condition("a", FilterOp.EQ, 1)),
        ({"field": "a", "op": "exists"}, Condition("a", FilterOp.NOT_EMPTY)),
        ({"field": "a"}, Condition("field", FilterOp.EQ, "a")),
        ({"value": 1}, Condition("value", FilterOp.EQ, 1)),
        ({"op": 1}, Condition("op", FilterOp.EQ, 1)),
    ],
)
def test_field_with_op_or_value_is_a_condition_and_each_alone_is_a_field(written: Any, expected: Condition) -> None:
    assert parse_filter(written) == expected


@pytest.mark.parametrize(
    ("line", "value"), [('a = "x"', "x"), ('a = "', '"'), ('a = "x', '"x'), ('a = x"', 'x"'), ('a = "=x"', "=x")]
)
def test_only_quotation_marks_on_both_sides_are_taken_off(line: str, value: str) -> None:
    assert parse_filter(line) == Condition("a", FilterOp.EQ, value)


@pytest.mark.parametrize("line", ['a = ""', "a =", "a in x; b ="])
def test_a_comparison_without_a_value_is_refused(line: str) -> None:
    with pytest.raises(InvalidFilter, match="has no value; write 'is empty'"):
        parse_filter(line)


@pytest.mark.parametrize("op", list(FilterOp))
def test_any_own_name_of_an_operator_is_read(op: FilterOp) -> None:
    value: Any = ["x"] if op in (FilterOp.IN, FilterOp.NOT_IN) else "x"
    if op in (FilterOp.EMPTY, FilterOp.NOT_EMPTY):
        value = None
    condition = parse_filter({"field": "a", "op": op.value, "value": value})
    assert isinstance(condition, Condition) and condition.op is op


@pytest.mark.parametrize("many", [list, tuple, set, frozenset])
def test_members_may_stand_in_any_collection(many: type) -> None:
    assert parse_filter({"a": many(["x"])}) == Condition("a", FilterOp.IN, ("x",))
    assert keeps({"a": "x"}, a=many(["x"])) and keeps("a is empty", a=many())


def test_a_filter_names_each_of_its_fields_once() -> None:
    tree = parse_filter({"or": [{"b": 1, "a": 2}, {"not": {"b": 3}}]})
    assert tree is not None and named_fields(tree) == ("b", "a")


@pytest.mark.parametrize("field", ["version", "document_version"])
def test_a_version_is_compared_without_the_word_before_its_number(field: str) -> None:
    for have in ("3.2", "v3.2", "Version 3.2", ["1.0", "v3.2"]):
        assert keeps({field: "v3.2"}, **{field: have}) and keeps({field: ["1", "version 3.2"]}, **{field: have})
    assert not keeps({"other": "v3.2"}, other="3.2")


def test_a_field_of_the_chunk_itself_is_seen_unless_it_is_empty() -> None:
    chunk = Chunk(content="text", chunk_id="c1", title="", heading_path=(), position=0, metadata={"title": "kept"})
    fields = own_fields(chunk)
    assert (fields["chunk_id"], fields["position"], fields["title"]) == ("c1", 0, "kept")
    assert "heading_path" not in fields and "content" not in fields
