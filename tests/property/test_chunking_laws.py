"""Laws of chunking: nothing lost, nothing empty, nothing over the limit, the same every time."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.core.chunking.contents import contents_of, without_contents
from context_engine.core.chunking.cut import cut
from context_engine.core.chunking.fields import field_pieces, record_text
from context_engine.core.chunking.outline import outline, structure_of
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.text import has_words

COUNTERS = {
    "approx": ApproxTokenCounter().count,
    "words": lambda text: len(text.split()),
    "characters": len,
}
LINES = st.sampled_from(
    [
        "# Rules of the vault",
        "## 4 Classification",
        "### 4.1 New Product",
        "#### 4.1.1 Tests",
        "## Untitled",
        "2. Access",
        "2.1 Keys are held by two people. They never meet.",
        "Article 5",
        "Annex A - Forms",
        "第三条 上限为五百万元。超限须报告！",
        "The limit is 5 % of capital. See No. 5. It is hard, as clause 4.2.1(b) says; nobody may go beyond it.",
        "The tests are:",
        "(a) the notional exceeds USD 10 million;",
        "- an item with a few words in it",
        "1. Enter the code.",
        "| Step | Sponsor | Office |",
        "|---|---|---|",
        "| Draft the proposal | A/R | C |",
        "```",
        "    indented",
        "=====",
        "",
        "",
        "交易员发现超限时须在三十分钟内通知分行市场风险控制部。名单每年复核。",
        "x" * 90,
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    ]
)
TEXTS = st.one_of(
    st.lists(LINES, max_size=40).map("\n".join),
    st.lists(LINES, max_size=12).map("\n\n".join),
    st.text(max_size=300),
    st.text(alphabet="aA1 .\n|#-(:。", max_size=200),
)
METHODS = st.sampled_from(["section_aware", "fixed_size"])
SIZES = st.integers(16, 80)


def written(text):
    """The characters that are not white space, in order."""
    return "".join(text.split())


@pytest.mark.parametrize("counter", COUNTERS)
@given(text=TEXTS, method=METHODS, size=SIZES, share=st.floats(0, 0.9))
@example(text="## 4 A\n\n" + "交" * 200, method="section_aware", size=16, share=0.5)
@example(text="x" * 1000, method="fixed_size", size=16, share=0.9)
def test_laws_of_text(counter, text, method, size, share):
    count = COUNTERS[counter]
    overlap = int(size * share)
    pieces = cut(text, ChunkingStrategy(method, size, overlap), count)
    end = 0
    kept = []
    for position, piece in enumerate(pieces):
        start, stop = piece.span
        assert piece.position == position
        assert piece.content == text[start:stop]
        assert piece.content.strip() == piece.content != ""
        assert count(piece.content) <= size
        assert stop > end, "every piece brings something new"
        if start < end:
            assert count(text[start:end]) <= overlap
        kept.append(text[max(start, end) : stop])
        end = stop
    assert written("".join(kept)) == written(text)


@given(text=TEXTS, size=SIZES)
def test_a_word_that_fits_is_never_cut(text, size):
    # one token is one word: every word fits
    for piece in cut(text, ChunkingStrategy("section_aware", size, 4), COUNTERS["words"]):
        start, stop = piece.span
        assert start == 0 or text[start - 1].isspace() or not (text[start - 1].isascii() and text[start].isascii())
        assert stop == len(text) or text[stop].isspace() or not (text[stop - 1].isascii() and text[stop].isascii())


@given(text=TEXTS, method=METHODS, size=SIZES)
def test_the_same_text_is_cut_the_same_way(text, method, size):
    strategy = ChunkingStrategy(method, size, size // 4)
    assert cut(text, strategy, COUNTERS["approx"]) == cut(text, strategy, COUNTERS["approx"])


@given(text=TEXTS)
def test_sections_cover_the_text_without_a_gap(text):
    sections = outline(text)
    assert "".join(text[section.start : section.end] for section in sections) == text
    assert all(section.start <= section.body <= section.end for section in sections)


@given(text=TEXTS, size=st.integers(200, 2000))
@example(text="2. Access\n=====\n## Untitled\n2. Access\n# Rules of the vault", size=296)
@example(text="2. Access\n" * 4 + "第三条 上限为五百万元。超限须报告！\n# Rules of the vault", size=464)
@example(
    text="# Rules of the vault\n" * 2 + "2. Access\n# Rules of the vault\n2.1 Keys are held by two people.", size=960
)
def test_a_piece_reaches_into_another_section_only_for_a_title_page_a_bare_heading_or_tiny_siblings(text, size):
    sections = outline(text)

    def length(first, last):
        return len(text[first.start : last.end].strip())

    for piece in cut(text, ChunkingStrategy("section_aware", size, 0), len):
        inside = [one for one in sections if one.start < piece.span[1] and piece.span[0] < one.end]
        first = inside[0]
        titled = not first.start and not first.label  # sections of at most size/8 together, before any label
        pages = 0 if not titled else sum(length(first, one) * 8 <= size for one in inside[:-1])
        rests = [inside[count:] for count in range(pages + 1)]
        bare = any(all(not has_words(text[one.body : one.end]) for one in rest[:-1]) for rest in rests)
        tiny = all(length(one, one) * 32 <= size for one in inside)
        assert bare or (tiny and len(piece.content) * 8 <= size)


ENTRIES = st.sampled_from(
    [
        "Contents",
        "4 Classification ........ 3",
        "4.1 New Product . . . . . 4",
        "Annex A - Forms\t9",
        "[Access](#access)",
        "- [Forms](#forms)",
        "| Scope | 3 |",
        "Opening fee ........ 25",
    ]
)


@given(lines=st.lists(st.one_of(LINES, ENTRIES), max_size=40), method=METHODS, size=SIZES)
def test_contents_and_pieces_share_nothing_and_leave_nothing_out(lines, method, size):
    text = "\n".join(lines)
    tables = contents_of(text)
    pieces = cut(text, ChunkingStrategy(method, size, size // 4), COUNTERS["words"], tables)
    end = 0
    for table in tables:
        assert end <= table.start < table.end <= len(text)
        assert all(piece.span[1] <= table.start or table.end <= piece.span[0] for piece in pieces)
        end = table.end
    inside = [False] * len(text)
    for start, stop in (piece.span for piece in pieces):
        inside[start:stop] = [True] * (stop - start)
    left = "".join(char for char, held in zip(without_contents(text, tables), inside) if not held)
    assert not left.strip()


@given(text=TEXTS)
def test_the_structure_of_a_text_is_that_of_its_headings(text):
    found = structure_of(text)
    assert found == structure_of(text)
    assert 0 <= found.numbered <= found.headings
    assert found.kind == "windows" or found.headings >= 2


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=80),
    st.lists(st.text(max_size=10), max_size=5),
    st.dictionaries(st.text("ab", min_size=1, max_size=3), st.integers(), max_size=3),
)
RECORDS = st.dictionaries(st.text("abc_", min_size=1, max_size=12), VALUES, max_size=12)


@pytest.mark.parametrize("counter", COUNTERS)
@given(title=st.text(max_size=60), record=RECORDS, size=SIZES)
def test_laws_of_records(counter, title, record, size):
    count = COUNTERS[counter]
    text = record_text(title, record)
    pieces = field_pieces(text, size, count)
    spans = [piece.span for piece in pieces]
    assert written("".join(text[start:stop] for start, stop in spans)) == written(text)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    for piece in pieces:
        assert piece.content.endswith(text[slice(*piece.span)])
        assert text[slice(*piece.span)].strip()
        assert count(piece.content) <= size
