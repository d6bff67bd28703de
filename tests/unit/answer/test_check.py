"""The check of a sentence against the passages that it cites: what is supported, and each rule by which it is not."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.check import check
from context_engine.answer.values import Evidence, Sentence, Verdict

LIMITS = "The exposure of the desk shall not exceed 5 % of its assets. The Board may waive this limit for 30 days."
RULE = "The Event Owner must open an investigation within 2 Business Days of Discovery and record it in the Register."
TABLE = """\
| Rating | Head of Risk | FCAA |
|---|---|---|
| High | 8 hours | 3 business days |
| Severe | 1 hour | 24 hours |
"""
CHANNEL = "The online channel of the desk is marketing and does not count."
LIST = """\
A bank shall not:
(a) lend to a director; or
(b) waive a fee, if the Board has not agreed.
"""
RECORD = (
    "Limit monitor: Rates desk\nlimit amount: 4500000\nused amount: 4260000\nlimit currency: USD\nstatus colour: amber"
)


def passage(text: str, label: str = "[1]", headings: Sequence[str] = ()) -> Evidence:
    return Evidence(label, "sops", f"chunk{label}", text, tuple(headings), int(label[1:-1]), None, None, None)


def checked(sentence: str, *texts: str, quotes: Sequence[str] = (), headings: Sequence[str] = ()) -> Sentence:
    evidence = {f"[{place}]": passage(text, f"[{place}]", headings) for place, text in enumerate(texts, start=1)}
    return check(sentence, list(evidence), evidence, quotes)


def codes(sentence: Sentence) -> set[str]:
    return {finding.code for finding in sentence.findings}


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Within two business days of Discovery, the Event Owner must open an investigation.", RULE),
        ("An investigation must be opened by the Event Owner within 2 Business Days of Discovery.", RULE),
        (
            "According to the policy, the Event Owner shall open an investigation within 2 Business Days of Discovery.",
            RULE,
        ),
        ("The exposure of the desk must not exceed five per cent of its assets.", LIMITS),
        ("The desk pays EUR 1m.", "The desk pays 1,000,000 euros."),
        ("The desk pays at least 5 days before launch.", "The desk pays no less than five days prior to launch."),
        ("It ends on 2026-03-01.", "It ends on 1 March 2026."),
        ("The Board must keep records.", "If a fee is due, the Board pays it; the Board must keep records."),
        ("The limit applies if the Board agrees.", "If the Board agrees, the limit applies."),
        (
            "The Chief Officer's consent is needed for closure.",
            "The consent of the Chief Officer is needed for closure.",
        ),
        ("No member may trade.", "A member may not trade."),
        ("A Severe event goes to the FCAA within 24 hours.", TABLE),
        ("The limit amount of the Rates desk is USD 4.5 million.", RECORD),
        ("A bank must not lend to a director.", LIST),
        ("Based on the provided passages, the Board may waive this limit for 30 days.", LIMITS),
        ("However, passage 1 also states that the Board may waive this limit for 30 days (passage 1).", LIMITS),
        ("Fees are due in May, and rents in June.", "Fees are due in May, while rents in June."),
        ("Staff report losses, including fines.", "Staff report losses, fines included."),
        ("No trader may have left in the past 12 months.", "No trader may have left within the preceding 12 months."),
        (
            "The file must be sent within 30 days after the review.",
            "The file must be sent within 30 days of the review.",
        ),
        ("A Fee of a Desk is linked to that Desk.", "A Fee of a Desk is linked to it."),
        ("The lower limit applies in a conflict.", "In a conflict the lower limit applies."),
    ],
)
def test_a_sentence_in_other_words_is_supported(sentence: str, text: str) -> None:
    assert checked(sentence, text).verdict is Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("sentence", "text", "code"),
    [
        ("The exposure of the desk shall not exceed 7 % of its assets.", LIMITS, "number"),
        ("The exposure of the desk shall not exceed 5 basis points of its assets.", LIMITS, "unit"),
        ("The Board may waive this limit for 30 business days.", LIMITS, "unit"),
        ("The desk pays USD 1m.", "The desk pays 1,000,000 euros.", "currency"),
        ("It ends on 2 March 2026.", "It ends on 1 March 2026.", "date"),
        ("See Rule 4.2.2 for the list.", "See Rule 4.2.1 for the list.", "reference"),
        ("The exposure of the desk shall exceed 5 % of its assets.", LIMITS, "negation"),
        ("The Board may not waive this limit for 30 days.", LIMITS, "negation"),
        ("The Board must waive this limit for 30 days.", LIMITS, "modal"),
        ("The Event Owner opens an investigation within 2 Business Days of Discovery.", RULE, "modal"),
        ("The desk pays at most 5 days before launch.", "The desk pays at least 5 days before launch.", "bound"),
        ("The desk pays 5 days before launch.", "The desk pays at least 5 days before launch.", "bound"),
        ("The desk pays after launch.", "The desk pays before launch.", "bound"),
        ("The limit applies.", "If the Board agrees, the limit applies.", "condition"),
        ("The limit applies unless the Board agrees.", "The limit applies if the Board agrees.", "condition"),
        ("The limit applies if the desk pays.", "The limit applies if the Board agrees.", "condition"),
        ("No issuer may exceed the limit.", "No issuer other than a government may exceed the limit.", "exception"),
        ("The Board may lower a rating.", "Only the Board may lower a rating.", "only"),
        ("The Board rejects the limit of the desk.", "The Board approves the limit of the desk.", "opposite"),
        ("Unauthorised trades are closed daily.", "Authorised trades are closed daily.", "negation"),
        ("Records go to Group Compliance daily.", "Records go to Group Finance daily.", "name"),
        ("The trader shall approve the manager.", "The manager shall approve the trader.", "roles"),
        ("The trader shall hold records for 2 years.", "The manager shall hold records for 2 years.", "subject"),
        ("It must keep records of trades.", "The desk must keep records of trades.", "subject"),
        ("It may reach 85 % in London, and 60 % in Paris.", "It may reach 60 % in London, and 85 % in Paris.", "value"),
        ("A rule of 5 days and 3 years applies.", "A rule of 3 days and 5 years applies.", "unit"),
        ("A High event goes to the FCAA within 24 hours.", TABLE, "number"),
        ("A Severe event goes to the FCAA within 1 hour.", TABLE, "number"),
        ("The limit amount of the Rates desk is EUR 4.5 million.", RECORD, "currency"),
        ("A bank may lend to a director.", LIST, "negation"),
        ("The online channel of the desk is marketing and does count.", CHANNEL, "negation"),
        ("A bank must not waive a fee.", LIST, "condition"),
        ("No customer may sign.", "No customer is required to sign.", "modal"),
        (
            "The desk must report to the Board before a trade must be settled.",
            "The desk must report to the Board and the file shows why before a trade can be settled.",
            "modal",
        ),
        (
            "The officer is dependent of the desk, and responsible for the file of the trades, fees and rents.",
            "The officer is independent of the desk, and responsible for the file of the trades, fees and rents.",
            "negation",
        ),
        ("A Severe event should go to the FCAA.", TABLE, "modal"),
    ],
)
def test_a_sentence_that_says_something_else_is_not_supported(sentence: str, text: str, code: str) -> None:
    result = checked(sentence, text)
    assert result.verdict is not Verdict.SUPPORTED
    assert code in codes(result)


def test_what_is_left_out_is_partly_supported() -> None:
    result = checked(
        "The desk keeps records of trades in green paper folders downstairs.", "The desk keeps records of trades."
    )
    assert result.verdict is Verdict.PARTLY
    assert codes(result) == {"coverage"}


def test_coverage_is_the_share_of_the_information() -> None:
    # desk, keep, record, paper: three of four words, each in the only passage or in none, so of equal weight
    assert checked("The desk keeps paper records.", "The desk keeps records.").coverage == 0.75


def test_a_sentence_without_labels_is_uncited() -> None:
    assert check("The limit is 5 %.", [], {"[1]": passage(LIMITS)}).verdict is Verdict.UNCITED


def test_an_unknown_label_is_found_first() -> None:
    result = check("The limit is 5 %.", ["[1]", "[9]"], {"[1]": passage("The limit is 5 %.")})
    assert (result.verdict, codes(result)) == (Verdict.UNSUPPORTED, {"unknown_label"})


def test_a_quote_must_stand_in_a_cited_passage_white_space_and_typography_apart() -> None:
    text = "The “limit” is\n5\u00a0% of assets. It binds."
    assert (
        checked('The "limit" is 5 % of assets.', text, quotes=['The "limit" is 5 % of assets']).verdict == "supported"
    )
    assert codes(checked("The limit is 5 % of assets.", text, quotes=["The limit is 7 %"])) == {"quote_not_found"}


def test_a_quote_that_stops_before_the_exception_does_not_hide_it() -> None:
    text = "A trader may deal for himself, except in the products of his desk."
    assert "exception" in codes(
        checked("A trader may deal for himself.", text, quotes=["A trader may deal for himself"])
    )


def test_a_subject_of_one_passage_and_a_predicate_of_another_make_no_supported_sentence() -> None:
    assert checked(
        "Group Finance must close the desk.", "Group Finance must keep records.", "The Board must close the desk."
    ).verdict == (Verdict.UNSUPPORTED)


def test_a_sentence_that_says_two_things_rests_on_two_passages() -> None:
    result = checked(
        "The Board must close the desk, and Group Finance must keep records.",
        "Group Finance must keep records.",
        "The Board must close the desk.",
    )
    assert (result.verdict, result.labels) == (Verdict.SUPPORTED, ("[2]", "[1]"))


def test_quotes_are_slices_with_their_lead_in_first() -> None:
    result = checked("A bank must not lend to a director.", LIST)
    assert [quote.text for quote in result.quotes] == ["A bank shall not:", "lend to a director; or"]
    assert all(LIST[quote.start : quote.end] == quote.text for quote in result.quotes)


def test_a_heading_gives_its_words() -> None:
    assert (
        checked("Personal dealing requires consent.", "It requires consent.", headings=["Personal dealing"]).verdict
        == "supported"
    )


class Doubting:
    name = "doubting"

    def __init__(self, sure: float | None) -> None:
        self.sure = sure

    def entails(self, texts: Sequence[str], sentence: str) -> float | None:
        return self.sure


@pytest.mark.parametrize(("sure", "verdict"), [(0.2, "partly"), (0.9, "supported"), (None, "supported")])
def test_an_entailment_model_only_lowers_a_verdict(sure: float | None, verdict: str) -> None:
    evidence = {"[1]": passage(LIMITS)}
    sentence = "The Board may waive this limit for 30 days."
    assert check(sentence, ["[1]"], evidence, entails=Doubting(sure)).verdict == verdict
    assert check("The Board may lend.", ["[1]"], evidence, entails=Doubting(1.0)).verdict == Verdict.UNSUPPORTED


SUBJECTS = st.sampled_from(["The Board", "Group Finance", "A trader of the desk", "Each bank", "No member"])
MODALS = st.sampled_from(["must", "may", "shall", "should"])
ACTS = st.sampled_from(
    ["approve the limit", "keep records for 5 years", "report the event to Compliance", "pay USD 5,000"]
)
ENDS = st.sampled_from(["", " within 2 days", " if the owner agrees", " unless it is closed", ", except on Fridays"])
RULES = st.tuples(SUBJECTS, MODALS, ACTS, ENDS).map(lambda parts: f"{parts[0]} {parts[1]} {parts[2]}{parts[3]}.")


@given(st.lists(RULES, min_size=1, max_size=4, unique=True), st.data())
def test_a_verbatim_sentence_is_always_supported(rules: list[str], data: st.DataObject) -> None:
    sentence = data.draw(st.sampled_from(rules))
    result = checked(sentence, " ".join(rules))
    assert (result.verdict, result.coverage, result.findings) == (Verdict.SUPPORTED, 1.0, ())


@given(RULES, st.integers(1, 12))
def test_a_sentence_with_an_inserted_not_is_never_supported(rule: str, place: int) -> None:
    words = rule.split()
    words.insert(min(place, len(words) - 1), "not")
    assert checked(" ".join(words), rule).verdict is not Verdict.SUPPORTED


@given(RULES, st.lists(RULES, min_size=1, max_size=3), st.randoms())
def test_the_order_of_the_evidence_does_not_matter(rule: str, texts: list[str], order: object) -> None:
    evidence = {f"[{place}]": passage(text, f"[{place}]") for place, text in enumerate(texts, start=1)}
    turned = dict(reversed(evidence.items()))
    assert check(rule, list(evidence), evidence) == check(rule, list(evidence), turned)


def test_a_sentence_without_end_is_refused_and_not_compared() -> None:
    assert codes(checked("The Board must pay and " * 100 + ".", LIMITS)) == {"length"}


def test_a_value_said_twice_must_stand_there_twice() -> None:
    text = "The desk holds USD, EUR and Rule 2.1 with Rule 4.1."
    assert codes(checked("The desk holds USD, USD and Rule 2.1 with Rule 4.1.", text)) == {"number"}


def test_the_topic_before_a_sentence_is_read_too() -> None:
    text = "The fee is 5 %."
    assert checked("On minimum fees: the fee is 5 %.", text, headings=["Minimum fees"]).verdict is Verdict.SUPPORTED
    assert checked("On maximum fees: the fee is 5 %.", text, headings=["Minimum fees"]).verdict is not Verdict.SUPPORTED


def test_what_stands_only_around_a_clause_is_no_support() -> None:
    text = "A meeting of the members is competent to approve any matter by resolution. Such a resolution has no effect."
    sentence = "A meeting of the members is not competent to approve any matter by resolution."
    assert checked(sentence, text).verdict is not Verdict.SUPPORTED


def test_no_one_may_and_no_one_must_are_told_apart() -> None:
    text = "No record shall be destroyed. No holder may hold more than 10 %."
    assert checked("No record must be destroyed.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("No record may be destroyed.", text)) == {"modal"}
    assert codes(checked("No holder must hold more than 10 %.", text)) == {"modal"}
    assert checked("A holder must not hold more than 10 %.", text).verdict is Verdict.SUPPORTED


def test_a_modal_is_read_through_words_inserted_behind_it() -> None:
    text = "A member may, as applicable, be required to pay a fee, and can use the desk."
    assert checked("A member may be required to pay a fee.", text).verdict is Verdict.SUPPORTED
    assert "modal" in codes(
        checked("A member must, as applicable, be required to pay a fee, and can use the desk.", text)
    )


def test_a_modal_between_is_not_left_out() -> None:
    text = "Facts of the transaction which the desk has entered into or may have contemplated with or for the client."
    false = "Facts of the transaction which the desk has entered into with or for the client."
    assert "modal" in codes(checked(text.replace("may", "must"), text))
    assert checked(false, text).verdict is not Verdict.SUPPORTED


def test_a_topic_with_another_bound_than_its_heading_is_not_known() -> None:
    text, headings = "The test file states what was not tested.", ["Before the release"]
    assert checked(f"Regarding before the release: {text}", text, headings=headings).verdict is Verdict.SUPPORTED
    assert codes(checked(f"Regarding after the release: {text}", text, headings=headings)) == {"bound"}


def test_one_and_many_of_a_name_are_told_apart() -> None:
    text = "Each other Agency reviews independently of the Agencies of the issuer."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert codes(checked("Each other Agencies reviews independently of the Agency of the issuer.", text)) == {"roles"}


def test_two_sides_are_not_said_as_one_twice() -> None:
    text = "The result is a percentage above or below the prior period."
    assert codes(checked("The result is a percentage below or below the prior period.", text)) == {"bound"}


def test_a_title_in_capitals_is_no_subject() -> None:
    text = "RULES FOR AUTHORISED PERSONS Encryption of data, both at rest and in transit, should be in the policy."
    assert checked("Encryption of data, both at rest and in transit, should be in the policy.", text).labels == ("[1]",)
    assert codes(checked("Authorised Persons should be in the policy.", text)) >= {"subject"}


def test_words_of_two_parts_are_not_joined() -> None:
    text = (
        "Within the Code, the rules relating to Abuse in relation to Stocks, extend to Abuse in the context of Metals."
    )
    false = (
        "Within the Code, the rules relating to Stocks in relation to Abuse, extend to Abuse in the context of Metals."
    )
    assert codes(checked(false, text)) == {"roles"}


def test_the_agent_of_a_passive_acts_and_nothing_else() -> None:
    text = "A Residual Risk rated very high may be accepted only by the Risk Committee, for 3 months."
    assert checked("Only the Risk Committee may accept a Residual Risk rated very high, for 3 months.", text).quotes
    false = "Only the Residual Risk may accept a Risk Committee rated very high, for 3 months."
    assert codes(checked(false, text)) == {"subject"}


def test_the_name_of_a_row_does_not_act() -> None:
    text = "| Change | Approved by |\n|---|---|\n| Emergency | Incident Commander |\n"
    assert checked("An Emergency change is approved by the Incident Commander.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("The Incident Commander change is approved by an Emergency.", text)) == {"row"}


def test_a_condition_at_the_beginning_turns_the_main_clause_round() -> None:
    text = "An insurance recovery is recorded only when the insurer has confirmed it in writing."
    turned = "Only when the insurer has confirmed it in writing is an insurance recovery recorded."
    assert checked(turned, text).verdict is Verdict.SUPPORTED


@pytest.mark.parametrize("title", ["", "PART B SCOPE "])
def test_a_rule_in_capitals_is_no_title(title: str) -> None:
    rule = title + "KBV SHALL NOT be used for remote proofing."
    assert checked("KBV shall not be used for remote proofing.", rule).verdict is Verdict.SUPPORTED
    assert checked("KBV shall be used for remote proofing.", rule).verdict is not Verdict.SUPPORTED


def test_a_name_at_the_end_is_not_cut_short() -> None:
    text = "The desk sends each report of the losses of the day to the Market Risk Board."
    assert codes(checked("The desk sends each report of the losses of the day to the Market.", text)) == {"altered"}
    listed = "The desk sends each report of the losses of the day to the Market Desk, the Risk Board."
    assert (
        checked("The desk sends each report of the losses of the day to the Market Desk.", listed).verdict
        is Verdict.SUPPORTED
    )


def test_a_name_of_a_heading_does_not_stand_for_another_word_wherever_it_is_put() -> None:
    text = "The policy must be approved by the committee before it is used."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, ("Risk Board",), 1, None, None, None)}
    false = "Before it is used, the policy must be approved by the Risk Board."
    assert "name" in codes(check(false, ["[1]"], evidence))
    assert check(false.replace("Risk Board", "committee"), ["[1]"], evidence).verdict is Verdict.SUPPORTED


def test_a_condition_before_the_first_predicate_is_not_left_out() -> None:
    text = "In this and other rules where a note is made to a desk, generally, it is a note to the head of the group."
    false = "In this and other rules, generally, it is a note to the head of the group."
    assert codes(checked(false, text)) == {"condition"}
    assert checked(text, text).verdict is Verdict.SUPPORTED


SEEDED = """
from context_engine.answer.check import check
from context_engine.answer.values import Evidence

texts = ("The verifier shall limit failed attempts of a subscriber to one hundred on a single account.",
         "A subscriber account shall be locked by the verifier, and the lock recorded in the log for audit.",
         "Failed attempts shall be counted for each account, device and channel of the subscriber.")
known = {f"[{n}]": Evidence(f"[{n}]", "s", f"c{n}", text, (), n, None, None, None) for n, text in enumerate(texts, 1)}
words = " ".join(texts).split()
for at in range(0, len(words) - 12, 3):
    print(check(" ".join(words[at : at + 12]), list(known), known))
"""


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_verdicts_and_coverage():
    """A replay compares them to the last digit, and runs in another process."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SEEDED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1 and b"coverage" in outputs.pop()
