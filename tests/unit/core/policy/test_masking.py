"""Pseudonyms: keyed, the same for equal values, read by nobody twice; and what happens where a masker fails."""

from __future__ import annotations

import hmac
import re

import pytest

from context_engine.core.policy.masking import PseudonymMask
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
