"""Laws of query processing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.query import (
    Glossary,
    acronyms,
    clean,
    language,
    prepare,
    references,
    sub_questions,
)
from context_engine.core.query.features import codes
from context_engine.core.query.spelling import edits
from context_engine.core.ranking import exact
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.exact import exact_first
from context_engine.core.text import term_weights, tokens

CODES = st.sampled_from(["NPA-001", "4.2.1(b)", "637(4)(b)", "DCE-WEB-001", "A4.3.13", "5.5", "1,000", "CET1", "T+2"])
WORDS = st.sampled_from(["what", "is", "the", "NPA", "limit", "of", "material", "审批", "bank's", "and", "how"])
SPACE = st.sampled_from([" ", "  ", "\t", "\n", "\u00a0", " \u200b", "? ", ", "])
QUERY = st.lists(st.tuples(st.one_of(CODES, WORDS), SPACE), min_size=1, max_size=12).map(
    lambda parts: "".join(word + space for word, space in parts)
)
ANY = st.text(min_size=1, max_size=200)
ENTRIES = {"NPA": ("New Product Approval",), "limit": ("threshold", "cap"), "IT": ("Information Technology",)}


@given(ANY)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = clean(text).text
    assert clean(once).text == once


@given(QUERY)
def test_cleaning_changes_no_token_and_no_search_term(query: str) -> None:
    visible = query.replace("\u200b", "")
    assert tokens(clean(query).text) == tokens(visible)
    assert term_weights(clean(query).text) == term_weights(visible)


@given(ANY, st.integers(16, 300))
def test_a_cleaned_query_is_never_too_long(text: str, most: int) -> None:
    cleaned = clean(text, most)
    assert len(cleaned.text) <= most
    assert cleaned.shortened == (len(clean(text).text) > most)


@given(st.one_of(QUERY, ANY))
def test_preparing_is_pure_and_only_adds(query: str) -> None:
    prepared = prepare(query, entries=ENTRIES, multi_query=True)
    assert prepared == prepare(query, entries=ENTRIES, multi_query=True)
    assert prepared.original == query
    assert prepared.text == clean(query).text
    plain = prepare(query)
    assert (prepared.text, prepared.codes, prepared.references, prepared.phrases) == (
        plain.text,
        plain.codes,
        plain.references,
        plain.phrases,
    )
    for name in (*prepared.codes, *prepared.references, *prepared.phrases):
        assert name in prepared.text
    for expansion in prepared.expansions:
        assert expansion.term in prepared.text
        assert expansion.text.casefold() != expansion.term.casefold()


@given(QUERY)
def test_parts_hold_no_term_the_question_does_not(query: str) -> None:
    text = clean(query).text
    whole = set(tokens(text))
    for part in sub_questions(text):
        assert set(tokens(part)) <= whole


@given(st.lists(st.sampled_from(["new", "product", "limit", "desk", "head"]), min_size=2, max_size=5))
def test_the_initials_of_a_name_are_its_acronym(words: list[str]) -> None:
    name = " ".join(word.capitalize() for word in words)
    short = "".join(word[0].upper() for word in words)
    assert acronyms(f"Every {name} ({short}) is kept.") == {short: name}
    [mention] = Glossary({short: (name,)}).mentions(f"on {name.lower()}")
    assert mention.others == (short,)


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_slips_are_counted_alike_from_both_sides_and_none_parts_a_word_from_itself(first: str, second: str) -> None:
    assert edits(first, second, 2) == edits(second, first, 2)
    assert (edits(first, second, 2) == 0) == (first == second)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=8),
    st.floats(0, 1),
)
def test_exact_names_lead_and_the_order_beside_them_stays(pool: list[tuple[float, bool]], margin: float) -> None:
    relevance = [value for value, _ in pool]
    texts = [AnalysedText("NPA-001 here" if held else "nothing here") for _, held in pool]
    after = exact_first(prepare("NPA-001"), relevance, texts, [AnalysedText("")] * len(pool), margin)
    assert all(0.0 <= value <= 1.0 for value in after)
    with_it = [value for value, (_, held) in zip(after, pool) if held]
    without = [value for value, (_, held) in zip(after, pool) if not held]
    if with_it and without:
        assert min(with_it) - max(without) >= margin - 1e-9
    for held in (True, False):
        group = [(before, now) for (before, flag), now in zip(pool, after) if flag is held]
        assert [now for _, now in sorted(group)] == sorted(now for _, now in group)


PIECES = st.sampled_from(
    [*"4.2(b)-/637 ", "\n# ", "4.2.1", "(b)", ".(b)", " (b)", "Notice", "No.", "\u2019s", "n't", "\uff14", "审批"]
)
CITED = st.lists(PIECES, max_size=12).map("".join)


@given(st.lists(CITED | CODES, min_size=1, max_size=3), CITED, CITED, st.booleans())
def test_what_tokens_rule_out_is_held_nowhere(written: list[str], text: str, label: str, quoted: bool) -> None:
    names = exact._names(written, quoted)
    quick, whole = (exact._Text(AnalysedText(f"{text} {written[0]}"), AnalysedText(label)) for _ in range(2))
    whole._may_hold = lambda name: True  # type: ignore[method-assign]
    assert quick.held(names) == whole.held(names)
    assert quick.own(names) == whole.own(names)


@given(ANY)
def test_no_text_breaks_a_step(text: str) -> None:
    assert language(text) == "und" or len(language(text)) == 2
    assert isinstance(codes(text) + references(text) + sub_questions(text), tuple)
    assert isinstance(acronyms(text), dict)
