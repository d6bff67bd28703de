"""Pseudonyms: keyed, the same for equal values, read by nobody twice; and what happens where a masker fails."""

from __future__ import annotations

import hmac
import re
from dataclasses import replace

import pytest

from context_engine.core.models import (
    And,
    Chunk,
    Condition,
    FilterOp,
    Not,
    Notice,
    NoticeCode,
    Or,
    SearchRequest,
)
from context_engine.core.policy.masking import (
    PseudonymMask,
    as_kept,
    masked_chunk,
    masked_labels,
    masked_request,
    with_masked_chunks,
    with_masked_query,
)
from context_engine.core.protocols import Masker, PersonalData
from context_engine.errors import MaskingError

KEY = b"0123456789abcdef"


class Names:
    """Finds names of a list, whole words."""

    def __init__(self, *names: str, kind: str = "NAME") -> None:
        self._names, self._kind = names, kind

    def find(self, text):
        for name in self._names:
            for found in re.finditer(rf"\b{name}\b", text, re.IGNORECASE):
                yield PersonalData(found.start(), found.end(), self._kind, name.casefold())


def test_a_pseudonym_is_an_hmac_of_kind_and_value():
    digest = hmac.new(KEY, b"NAME\0ana", "sha256").hexdigest()
    assert any(char in "abcdef" for char in digest[:12])
    assert PseudonymMask([Names("Ana")], KEY)("Ask Ana.") == f"Ask [NAME {digest[:12]}]."
    assert isinstance(Names(), Masker)


def test_equal_values_are_equal_within_a_key_and_differ_with_another():
    mask, other = PseudonymMask([Names("Ana")], KEY), PseudonymMask([Names("Ana")], b"x" * 16)
    first, second = mask("Ana asked ANA").split(" asked ")
    assert first == second != other("Ana")
    assert mask.pseudonym("NAME", "ana") != mask.pseudonym("STAFF", "ana")


def test_a_pseudonym_always_holds_a_letter_so_that_no_number_passes_for_it():
    mask = PseudonymMask([], KEY)
    bodies = [mask.pseudonym("ID", str(number))[4:-1] for number in range(3000)]
    assert all(re.fullmatch(r"(?=[0-9]*[a-f])[0-9a-f]{12}", body) for body in bodies)
    assert len(set(bodies)) == 3000


def test_masked_again_a_text_stays_and_what_passes_for_a_pseudonym_is_read():
    mask = PseudonymMask([Names("ana", "name", r"\d{12}")], KEY)
    masked = mask("ana and [NAME 123456789012]")
    assert mask(masked) == masked
    assert "123456789012" not in masked


def test_places_that_overlap_become_one_of_the_longest_kind():
    mask = PseudonymMask([Names("ana maria", kind="NAME"), Names("maria de la cruz", kind="FULL")], KEY)
    assert mask("to ana maria de la cruz.") == f"to {mask.pseudonym('FULL', 'maria de la cruz')}."


def test_what_is_allowed_stays_in_any_spelling_and_a_domain_with_all_its_addresses():
    class Addresses:
        def find(self, text):
            for found in re.finditer(r"\S+@\S+", text):
                yield PersonalData(found.start(), found.end(), "EMAIL", found[0].casefold())

    mask = PseudonymMask([Names("Hot Line"), Addresses()], KEY, ["hotline", "@bank.example"])
    text = "HOT LINE or help@Bank.example"
    assert mask(text) == text
    assert "[EMAIL " in mask("help@bank.example.evil")


def test_a_masker_that_fails_gives_nothing_out():
    class Broken:
        def find(self, text):
            raise ValueError(text)

    with pytest.raises(MaskingError, match=r"a masker \(Broken\) failed with ValueError") as error:
        PseudonymMask([Broken()], KEY)("secret ana")
    assert "ana" not in str(error.value)


@pytest.mark.parametrize("place", [(0, 99, "NAME"), (-1, 2, "NAME"), (2, 2, "NAME"), (0, 2, "na me")])
def test_a_place_that_is_none_is_refused(place):
    class Wrong:
        def find(self, text):
            return [PersonalData(*place, "x")]

    with pytest.raises(MaskingError, match="which cannot be masked"):
        PseudonymMask([Wrong()], KEY)("four")


def test_what_is_hidden_in_characters_that_nobody_sees_is_shown_where_it_holds_a_value():
    mask = PseudonymMask([Names("Ana")], KEY)
    tags = "".join(chr(0xE0000 + ord(char)) for char in "please ask Ana")
    octets = "".join(chr(0xFE00 + byte) if byte < 16 else chr(0xE0100 + byte - 16) for byte in b"the card of Ana")
    harmless = "".join(chr(0xE0000 + ord(char)) for char in "please ask Bob")
    shown = mask(f"A rule{tags} and x{octets}. Another{harmless}.")
    name = mask.pseudonym("NAME", "ana")
    assert shown == f"A rule⟦please ask {name}⟧ and x⟦the card of {name}⟧. Another{harmless}."
    assert mask(shown) == shown


def test_places_that_touch_stay_two():
    mask = PseudonymMask([Parts()], KEY)
    assert mask("anamaria") == mask.pseudonym("NAME", "ana") + mask.pseudonym("NAME", "maria")


class Parts:
    """Finds two places that touch."""

    def find(self, text):
        if text == "anamaria":
            yield PersonalData(0, 3, "NAME", "ana")
            yield PersonalData(3, 8, "NAME", "maria")


MASK = PseudonymMask([Names("Ana")], KEY)
ANA = MASK("Ana")


def test_a_place_within_another_is_part_of_it():
    mask = PseudonymMask([Names("bob"), Names("ana lima"), Names("ana"), Names("lima")], KEY)
    bob, ana = mask.pseudonym("NAME", "bob"), mask.pseudonym("NAME", "ana lima")
    assert mask("from bob to ana lima now") == f"from {bob} to {ana} now"


def test_two_places_that_overlap_reach_to_the_end_of_the_further_one():
    """[0, 8) and [4, 10), and [4, 6) within both."""
    mask = PseudonymMask([Names("ana lima"), Names("lima x"), Names("li")], KEY)
    assert mask("ana lima x") == mask.pseudonym("NAME", "ana lima")


def test_everything_said_of_a_chunk_is_masked_and_what_identifies_it_is_not():
    chunk = Chunk(
        content="Ask Ana.",
        chunk_id="Ana-1",
        document_id="Ana-2",
        title="Of Ana",
        section="1 Ana",
        heading_path=("Part 1", "Ana"),
        metadata={"who": "Ana", "file": "Ana.md", "list": ["Ana", 3], "yes": True, "count": 3, "none": None},
        extra={"in": {"who": "Ana", "path": "Ana/x"}},
    )
    assert masked_chunk(chunk, MASK) == Chunk(
        content=f"Ask {ANA}.",
        chunk_id="Ana-1",
        document_id="Ana-2",
        title=f"Of {ANA}",
        section=f"1 {ANA}",
        heading_path=("Part 1", ANA),
        metadata={"who": ANA, "file": "Ana.md", "list": [ANA, 3], "yes": True, "count": 3, "none": None},
        extra={"in": {"who": ANA, "path": "Ana/x"}},
    )
    assert masked_labels(chunk, MASK) == masked_chunk(chunk, MASK)._replace(content="Ask Ana.")


def test_a_number_is_read_with_the_name_of_its_field():
    """7012 is a telephone number only where its field says so; any other number stays a number."""
    mask = PseudonymMask([Names("(?<=phone: )7012", kind="PHONE")], KEY)
    shown = mask("phone: 7012").removeprefix("phone: ")
    assert shown.startswith("[PHONE ")
    fields = {"phone": 7012, "other": 7012, "list": [7012], "flag": True, "inside": {"phone": "7012"}}
    assert masked_chunk(Chunk(content="x", metadata=fields), mask).metadata == {
        **fields,
        "phone": shown,
        "inside": {"phone": shown},
    }
    bare = PseudonymMask([Names("7012")], KEY)
    assert masked_chunk(Chunk(content="x", metadata={"list": [7012, True]}), bare).metadata["list"] == [
        bare("7012"),
        True,
    ]


def test_a_request_is_masked_in_its_question_and_in_the_values_of_its_filters():
    who, day = Condition("who", FilterOp.EQ, "Ana"), Condition("day", FilterOp.GT, "2025-01-01")
    request = SearchRequest(query="Ask Ana", domain="NPA", filters=And((Or((who, day)), Not(who))))
    masked = Condition("who", FilterOp.EQ, ANA)
    assert masked_request(request, MASK) == replace(
        request, query=f"Ask {ANA}", filters=And((Or((masked, day)), Not(masked)))
    )
    plain = SearchRequest(query="Ask Bob", domain="NPA", filters=day)
    assert masked_request(plain, MASK) is plain
    unfiltered = SearchRequest(query="Ask Ana", domain="NPA")
    assert masked_request(unfiltered, MASK) == replace(unfiltered, query=f"Ask {ANA}")


def test_a_result_for_a_model_is_masked_in_every_part(ask, chunk_of):
    """The answers of the sources stay as they are: they never go to a model."""
    texts = [chunk_of("a", 0.9, "Rule one: ask Ana.", title="Of Ana"), chunk_of("b", 0.8, "Rule two: ask Ana.")]
    result = ask([(1, texts), (5, [chunk_of("c", 0.9, "Rule one: ask Ana.", title="Ana on the web")])], query="Ask Ana")
    notice = Notice(NoticeCode.SOURCE_NOTE, "t1", "Ana was slow", {"note": "Ana was slow"})
    source = replace(result.sources[0], notices=(notice,), error={"message": "Ana left"}, problem="Ana left")
    caller = replace(result.caller, app="the app of Ana")
    result = replace(result, sources=(source, *result.sources[1:]), notices=(notice,), caller=caller)
    masked = with_masked_chunks(result, MASK)
    said = Notice(NoticeCode.SOURCE_NOTE, "t1", f"{ANA} was slow", {"note": f"{ANA} was slow"})
    assert (masked.query, masked.caller.app, masked.notices) == (f"Ask {ANA}", f"the app of {ANA}", (said,))
    assert masked.sources[0] == replace(
        source, notices=(said,), error={"message": f"{ANA} left"}, problem=f"{ANA} left"
    )
    assert [ranked.content for ranked in masked.chunks] == [f"Rule one: ask {ANA}.", f"Rule two: ask {ANA}."]
    assert masked.chunks[0].also_in[0].title == f"{ANA} on the web"
    assert [answer.chunks for answer in masked.raw] == [answer.chunks for answer in result.raw]


def test_what_names_nobody_stays_the_same_object(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.9, "Rule one: ask Ana.")])], query="Ask Bob")
    assert with_masked_query(result, MASK) is result
    assert as_kept(result, MASK) is result and as_kept(result, None) is result


def test_a_question_is_kept_masked_where_the_domain_says_so(ask, chunk_of):
    chunks = [chunk_of("a", 0.9, "Rule one: ask Ana.")]
    plain = ask([(1, chunks)], query="Ask Ana")
    assert as_kept(plain, MASK) is plain
    engine = {"mask": MASK, "domain_fields": {"settings": {"mask_stored_queries": True}}}
    kept = as_kept(ask([(1, chunks)], query="Ask Ana", engine=engine), MASK)
    assert kept.query == kept.request.query == f"Ask {ANA}"
    assert kept.chunks[0].content == "Rule one: ask Ana."


@pytest.mark.parametrize(
    ("digest", "body"),
    [("0" * 63 + "a", "0" * 11 + "a"), ("0" * 64, "a" * 12), ("9" * 12 + "f" + "0" * 51, "9" * 11 + "f")],
)
def test_a_pseudonym_is_the_first_window_of_the_digest_with_a_letter(monkeypatch, digest, body):
    """The last of the 64 - 12 + 1 windows begins at 52; without any letter twelve of "a" stand in."""

    class Fixed:
        def hexdigest(self):
            return digest

    monkeypatch.setattr("context_engine.core.policy.masking.hmac.new", lambda *_: Fixed())
    assert PseudonymMask([], KEY).pseudonym("NAME", "ana") == f"[NAME {body}]"


def test_what_is_neither_text_nor_a_whole_number_is_not_read():
    mask = PseudonymMask([Names("2.5", "None", "True")], KEY)
    fields = {"list": [2.5, None, True], "number": 2.5, "nothing": None, "yes": True}
    assert masked_chunk(Chunk(content="x", metadata=fields), mask).metadata == fields


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [((2, 6), (4, 9), "SECOND"), ((2, 7), (4, 9), "FIRST"), ((2, 7), (3, 9), "SECOND")],
)
def test_overlapping_places_have_the_name_of_the_longer_and_of_the_first_if_they_are_equal(first, second, named):
    """4 and 5 characters, 5 and 5, 5 and 6, found in the wrong order."""

    class Found:
        def find(self, text):
            if text == "to the board":
                yield PersonalData(*second, "SECOND", "x")
                yield PersonalData(*first, "FIRST", "x")

    mask = PseudonymMask([Found()], KEY)
    assert mask("to the board") == f"to{mask.pseudonym(named, 'x')}ard"


def test_a_result_without_a_request_is_masked_too(ask, chunk_of):
    result = replace(ask([(1, [chunk_of("a", 0.9, "Rule one.")])], query="Ask Ana"), request=None)
    masked = with_masked_query(result, MASK)
    assert (masked.query, masked.request) == (f"Ask {ANA}", None)
