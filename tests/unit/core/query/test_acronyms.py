from __future__ import annotations

import pytest

from context_engine.core.query import acronyms, glossary_of


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
