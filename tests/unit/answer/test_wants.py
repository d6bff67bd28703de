"""What a question asks for."""

import pytest

from context_engine.answer.wants import LIGHT, read_question


@pytest.mark.parametrize(
    ("question", "wants"),
    [
        ("How long are call recordings kept?", "duration"),
        ("How often is the vault counted?", "duration"),
        ("How many times a year is the vault counted?", "duration"),
        ("At what age does the account become a current account?", "duration"),
        ("How old must a guardian be?", "duration"),
        ("By when must a dispute be closed?", "duration"),
        ("Within how many days is a claim paid?", "duration"),
        ("How far in advance must the board be told?", "duration"),
        ("What is the retention period for emails?", "duration"),
        ("recovery time of the payment service", "duration"),
        ("How many signatures does a payment need?", "number"),
        ("How long must a password be?", "number"),
        ("How much may a teller pay out?", "amount"),
        ("What is the fee for a late transfer?", "amount"),
        ("overnight limit of the FX desk", "amount"),
        ("After how much idle time is a session closed?", "duration"),
        ("How much notice is given before a visit?", "duration"),
        ("Who approves a write-off?", "role"),
        ("Can you tell me who counts the keys?", "role"),
        ("May people who sort the mail count the keys?", "rule"),
        ("Does someone who loses a key pay for it?", "rule"),
        ("To whom do I report a lost card?", "role"),
        ("Which committee accepts the risk?", "role"),
        ("When are keys handed back?", "date"),
        ("On what date did the policy start?", "date"),
        ("Why is the desk closed?", "reason"),
        ("How do I order a token?", "steps"),
        ("What should I do if a card is lost?", "steps"),
        ("May I use my own phone?", "rule"),
        ("Is it allowed to lend a badge?", "rule"),
        ("Do near misses have to be reported?", "rule"),
        ("Where are the seals kept?", "place"),
        ("What is a near miss?", "definition"),
        ("What does category 3 stand for?", "definition"),
        ("What does RTO stand for?", "definition"),
        ("What does notional limit mean?", "definition"),
        ("Which classes are there?", "list"),
        ("What must a report contain?", "list"),
        ("What protects the backup?", "fact"),
    ],
)
def test_kinds(question, wants):
    assert read_question(question).want.name == wants


def test_words_that_ask_are_not_looked_for():
    assert dict(read_question("How long are call recordings kept?").weights) == {
        "call": LIGHT,
        "record": 1.0,
        "kept": 1.0,
    }


def test_what_is_counted():
    asked = read_question("How many signatures does a payment need?")
    assert asked.counted == {"signatur"}
    assert asked.want.strict


def test_what_somebody_does_comes_first():
    assert read_question("Who may approve a write-off?").act == "approv"


def test_the_kind_is_recognised_in_english_alone():
    german = read_question("Wie lange werden Belege aufbewahrt?", "de")
    assert german.want.name == "fact"
    assert "beleg" in german.weights or "belege" in german.weights


def test_a_question_of_asking_words_alone_keeps_them():
    assert read_question("Is it allowed?").weights


@pytest.mark.parametrize("bound", ["at minimum", "at a minimum", "as a minimum", "at an absolute minimum", "at least"])
def test_a_bound_is_no_question_for_an_amount(bound):
    asked = read_question(f"Which events must be logged {bound}?")
    assert (asked.want.name, asked.bound) == ("list", "least")
    assert "minimum" not in asked.weights
