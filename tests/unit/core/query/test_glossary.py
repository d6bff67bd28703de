""""""

from __future__ import annotations

import pytest

from context_engine.core.query import Glossary, Mention, acronyms, glossary_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Harbour Conduct Authority (HCA) said so.", {"HCA": "Harbour Conduct Authority"}),
        ("each New Product Approval (“NPA”) is kept", {"NPA": "New Product Approval"}),
        ("New Product Approval (the 'NPA')", {"NPA": "New Product Approval"}),
        ("NPA (New Product Approval) is kept", {"NPA": "New Product Approval"}),
        ('"NPA" means the New Product Approval process', {"NPA": "New Product Approval"}),
        ("NPA: New Product Approval", {"NPA": "New Product Approval"}),
        ("know-your-customer (KYC)", {"KYC": "know-your-customer"}),
        ("Exposure at Default (EAD)", {"EAD": "Exposure at Default"}),
        ("value at risk (VaR)", {"VaR": "value at risk"}),
        ("Common Equity Tier 1 (CET1)", {"CET1": "Common Equity Tier 1"}),
        ("the Asset and Liability Committee (ALCO)", {"ALCO": "Asset and Liability Committee"}),
        ("American Association of Harbour Geologists (AAHG)", {"AAHG": "American Association of Harbour Geologists"}),
        ("Digital Settlement Facilities (DSFs)", {"DSF": "Digital Settlement Facility"}),
        ("Recognised Clearing Houses (RCHs)", {"RCH": "Recognised Clearing House"}),
        ("the committee meets (NPA)", {}),
        ("a limit (SGD) of five", {}),
        ("under rule (b) or (iv)", {}),
        ("The firm. Harbour Conduct Authority (NPA)", {}),
        ("Harbour (HAR)", {}),
    ],
)
def test_definitions(text: str, found: dict[str, str]) -> None:
    assert acronyms(text) == found


def test_the_long_form_given_most_often_comes_first() -> None:
    texts = [
        "non-performing asset (NPA)",
        "New Product Approval (NPA)",
        "a new product approval (NPA) New Product Approval (NPA)",
    ]
    assert glossary_of(texts) == {"NPA": ("New Product Approval", "non-performing asset")}


GLOSSARY = Glossary(
    {
        "NPA": ["New Product Approval", "Non-Performing Asset"],
        "NPA SOP": ["Approval Procedure"],
        "IT": ["Information Technology"],
        "KYC": ["Know Your Customer"],
        "client": ["customer", "counterparty"],
        "审批": ["核准"],
    }
)


def found(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(mention.written, mention.others) for mention in GLOSSARY.mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NPA criteria", [("NPA", ("New Product Approval", "Non-Performing Asset"))]),
        ("npa criteria", [("npa", ("New Product Approval", "Non-Performing Asset"))]),
        ("all NPAs", [("NPAs", ("New Product Approval", "Non-Performing Asset"))]),
        ("new product approvals", [("new product approvals", ("NPA",))]),
        ("the NPA SOP", [("NPA SOP", ("Approval Procedure",))]),
        ("know-your-customer checks", [("know-your-customer", ("KYC",))]),
        ("clients", [("clients", ("customer", "counterparty"))]),
        ("a customer", [("customer", ("client",))]),
        ("审批标准", [("审批", ("核准",))]),
        ("systems of IT", [("IT", ("Information Technology",))]),
        ("is it approved", []),
        ("NPA-001", []),
        ("new approval", []),
    ],
)
def test_what_a_query_names(text: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("new prodcut approval", "New Product Approval"),
        ("informaton technology", "Information Technology"),
        ("a costumer file", None),
        ("a custommer file", "customer"),
        ("NPB criteria", None),
        ("NPA-OO1", None),
        ("new product", None),
        ("new product approval", None),
    ],
)
def test_a_word_that_is_misspelt(text: str, name: str | None) -> None:
    assert [mention.name for mention in GLOSSARY.misspelt(text)] == ([name] if name else [])


def test_a_mention_keeps_the_words_of_the_query() -> None:
    assert GLOSSARY.mentions("What is Know-Your-Customer?") == [
        Mention("Know-Your-Customer", "Know Your Customer", ("KYC",))
    ]
