"""What is found as personal data and what is not: the forms people write, and look-alikes that a checksum tells."""

from __future__ import annotations

import pytest

pytest.importorskip("stdnum")
pytest.importorskip("phonenumbers")

from context_engine.adapters.maskers import PersonalDataOptions, open_personal_data
from context_engine.adapters.maskers.national_ids import COUNTRIES, find_national_ids, hkid, nric, resident_number
from context_engine.adapters.maskers.plain_text import plain_text
from context_engine.errors import ConfigError

MASKER = open_personal_data(
    PersonalDataOptions(
        countries=("SG", "HK", "CN", "US", "FR"),
        phone_regions=("SG", "US"),
        patterns={"staff": r"\bSTF-\d{5}\b"},
    )
)


def found(text: str) -> list[tuple[str, str]]:
    """Return (kind, what stands there) of all that is found."""
    return [(one.kind, text[one.start : one.end]) for one in MASKER.find(text)]


@pytest.mark.parametrize(
    "written",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111\u00a01111\u00a01111\u00a01111",
        "4111\u20111111\u20111111\u20111111",
        "４１１１ １１１１ １１１１ １１１１",
        "٤١١١ ١١١١ ١١١١ ١١١١",
        "4111\u200b1111\u200b1111\u200b1111",
        "4111&nbsp;1111&#8203;&#xA0;1111 1111",
        "&#52;111 1111 1111 111&#49;",
        "4111 1111\n1111 1111",
        "3782 822463 10005",
        "378282246310005",
        "3056 930902 5904",
        "5555 5555 5555 4444",
        "2223 0031 2200 3222",
        "6200000000000005",
    ],
)
def test_card_numbers_as_they_are_written(written):
    assert found(f"Paid with {written}, thank you.") == [("CARD", written)]


def test_a_security_code_is_no_part_of_a_card_number():
    assert found("4111 1111 1111 1111 123") == [("CARD", "4111 1111 1111 1111")]


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # the check digit is wrong
        "1111 1111 1111 1117",  # Luhn holds, and no issuer has it
        "A4111111111111111",
        "0.4111111111111111",
        "411 111 111 111 1111",  # not written as cards are
        "41111111111111111111",
    ],
)
def test_numbers_that_are_no_card(text):
    assert found(text) == []


@pytest.mark.parametrize(
    "written",
    [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "de89 3704 0044 0532 0130 00",
        "DE89-3704-0044-0532-0130-00",
        "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000",
        "DE89 3704 0044\n0532 0130 00",
        "GB82 WEST 1234 5698 7654 32",
        "AE07 0331 2345 6789 0123 456",
    ],
)
def test_ibans_as_they_are_written(written):
    assert found(f"Credit {written} is the instruction") == [("IBAN", written)]
    assert [one.value for one in MASKER.find(written)] == ["".join(filter(str.isalnum, written)).upper()]


@pytest.mark.parametrize("text", ["DE88 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130", "XX89370400440532013000"])
def test_accounts_that_fail_the_check_are_no_iban(text):
    assert found(text) == []


def test_check_letters_of_identity_cards():
    # 2*1 + 7*2 + 6*3 + 5*4 + 4*5 + 3*6 + 2*7 = 106 = 9*11 + 7: the eighth of JZIHGFEDCBA
    assert nric("S1234567D") and not nric("S1234567E")
    assert nric("T1234567J")  # 106 + 4 = 110: remainder 0
    assert nric("F1234567N") and nric("G1234567X") and not nric("1234567D")
    # 9*36 + 8*10 + 7*1 + 6*2 + 5*3 + 4*4 + 3*5 + 2*6 = 481, and 481 + 3 = 44 * 11
    assert hkid("A123456(3)") and hkid("A1234563") and not hkid("A123456(4)") and not hkid("123456(3)")
    assert resident_number("11010519491231002X") and not resident_number("110105194912310021")
    assert not resident_number("110105194913310025")


def test_national_ids_are_those_of_the_countries_that_are_set():
    text = "S1234567D, A123456(3), 11010519491231002X, 123-45-6789, 2 55 08 14 168 025 38"
    assert [kind for kind, _ in found(text)] == ["ID"] * 5
    assert [one.value for one in find_national_ids(plain_text(text), ("SG",))] == ["S1234567D"]
    assert found("NPA-2024-0017 S1234567A 123-45-67890 PRD/S1234567D") == []


@pytest.mark.parametrize("country", sorted(COUNTRIES))
def test_every_country_has_a_validator_that_answers(country):
    assert list(find_national_ids(plain_text("1234567 12345678901234567 AB12"), (country,))) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("under +65 6123 4567 today", "+65 6123 4567"),
        ("(+44 20 7946 0958)", "+44 20 7946 0958"),
        ("under 0044 20 7946 0958.", "0044 20 7946 0958"),
        ("under 6123 4567 today", "6123 4567"),
        ("call me at 91234567", "91234567"),
        ("mobile: 91234567", "91234567"),
        ("(202) 555-0143", "(202) 555-0143"),
        ("电话：91234567", "91234567"),
    ],
)
def test_telephone_numbers(text, number):
    assert found(text) == [("PHONE", number)]


@pytest.mark.parametrize(
    "text",
    [
        "account 91234567",
        "2024-11-23",
        "years 2024 2025",
        "pp. 6501-6505",
        "6123 4567 8123 4567 9123",
        "https://files.example/6123-4567",
        "USD 61,234,567.00",
        "clause 4.2.1(b)",
    ],
)
def test_numbers_that_are_no_telephone(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("Write to Jane.Doe+bank@Mail-One.example.com.", "Jane.Doe+bank@Mail-One.example.com"),
        ("<o'neil@mail.example>", "o'neil@mail.example"),
        ("q?to=jane@mail.example&x", "jane@mail.example"),
        ("jane＠mail.example", "jane＠mail.example"),
    ],
)
def test_addresses(text, address):
    assert found(text) == [("EMAIL", address)]


def test_entities_are_read_as_their_characters():
    text = "Limits &lt; 5 &amp; up: ana.tan&#64;bank.example, tel.&nbsp;+65&nbsp;9123&nbsp;4567; 4111&1111 &co; &#0;"
    assert found(text) == [("PHONE", "+65&nbsp;9123&nbsp;4567"), ("EMAIL", "ana.tan&#64;bank.example")]
    assert plain_text("no entity &nosuch; & none").places is None


def test_signs_that_are_no_address():
    assert found("@team package@1.2.3 a@b .x@ @@ a@@b.example") == []


def test_own_patterns_have_their_name():
    assert found("ask STF-12345, not STF-123456") == [("STAFF", "STF-12345")]


@pytest.mark.parametrize(
    ("patterns", "key", "problem"),
    [
        ({"x": "(["}, "mask_patterns.x", "is not a regular expression"),
        ({"x": "a*"}, "mask_patterns.x", "matches the empty text"),
        ({"x": "(a+)+b"}, "mask_patterns.x", "repeats a group that repeats itself"),
        ({"1 x": "a"}, "mask_patterns.1 x", "cannot name a pattern"),
        ({"x": "a" * 1001}, "mask_patterns.x", "longer than 1000"),
    ],
)
def test_patterns_that_cannot_be_used(patterns, key, problem):
    with pytest.raises(ConfigError, match=problem) as error:
        open_personal_data(PersonalDataOptions(patterns=patterns))
    assert error.value.key == key


def test_countries_and_regions_that_are_not_known():
    with pytest.raises(ConfigError, match="no national id is known of 'XX'"):
        open_personal_data(PersonalDataOptions(countries=("xx",)))
    with pytest.raises(ConfigError, match="there is no telephone region 'XX'"):
        open_personal_data(PersonalDataOptions(phone_regions=("XX",)))


def test_kinds_that_are_not_set_are_not_looked_for():
    masker = open_personal_data(PersonalDataOptions(kinds=("iban",)))
    assert [one.kind for one in masker.find("4111111111111111 DE89370400440532013000 a@b.example")] == ["IBAN"]


def test_places_are_those_of_the_text_as_it_is_written():
    text = "a\u200bb jane\u200b@mail.example and 41\u00ad11 1111 1111 1111"
    assert found(text) == [("CARD", "41\u00ad11 1111 1111 1111"), ("EMAIL", "jane\u200b@mail.example")]
