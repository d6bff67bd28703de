"""Which terms a text defines."""

import pytest

from context_engine.ingest.chunk_metadata import defined_terms, is_glossary


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ('"Client Money" means money held for a Client.', ("Client Money",)),
        ("“Insurer”, in relation to a fund, means a firm.", ("Insurer",)),
        ("The term “Custodial Account” means an account.", ("Custodial Account",)),
        ("**New product** means a product that is new.", ("New product",)),
        ("Net Asset Value means the value less debts.", ("Net Asset Value",)),
        ("(a) A Qualified Investor refers to a person who qualifies.", ("Qualified Investor",)),
        ("Approved Bank\thas the meaning given in rule 2.", ("Approved Bank",)),
        ("under the Vault Act 2015 (“the Act”) or the bank (the “Bank”)", ("the Act", "Bank")),
        ("本办法所称客户资金，是指客户存入的资金。", ("客户资金",)),
        ("“限额”是指上限。", ("限额",)),
        ("「口座」とは、預金の口座をいう。", ("口座",)),
        ("| Term | Meaning |\n|---|---|\n| NPA | New Product Approval |", ("NPA",)),
        ('"X1" means one. "X1" means one again. "Y" is no term.', ("X1",)),
    ],
)
def test_terms(text, terms):
    assert defined_terms(text) == terms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "This means that the limit is hard.",
        "It means war.",
        "by any means necessary",
        "In relation to Fees means nothing.",
        "Providers must ensure that care means care.",
        "Limit: five million in all currencies",
        "The **limit** is hard.",
        "| Step | Meaning of it |\n|---|---|\n| Draft | Write the text |",
    ],
)
def test_no_terms(text):
    assert defined_terms(text) == ()


def test_in_a_glossary_entries_and_bold_words_are_terms():
    text = "Sponsor: the head who proposes\n- **Variation** – changed in part\nRisk appetite - what the board accepts"
    assert defined_terms(text, glossary=True) == ("Sponsor", "Variation", "Risk appetite")


@pytest.mark.parametrize(
    ("heading", "glossary"),
    [
        ("2 Definitions", True),
        ("GLOSSARY", True),
        ("一、术语和定义", True),
        ("3 Limits", False),
        ("Redefining risk", False),
    ],
)
def test_headings_of_glossaries(heading, glossary):
    assert is_glossary(heading) is glossary
