"""A passage cut into statements with what they hang on."""

from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.sentences import StatementKind, statements


def shown(statement):
    return statement.text(statement.above), statement.text(), statement.text(statement.after)


def of_kind(evidence, kind):
    return [statement for statement in statements(evidence) if statement.kind is kind]


def test_sentences_of_a_paragraph(passage):
    first, second = statements(passage("Keys are counted daily. The vault is sealed."))
    assert shown(first) == ("", "Keys are counted daily.", "")
    assert second.text(second.around) == "Keys are counted daily."


def test_an_item_hangs_on_its_lead_in(passage):
    text = "The teller must not:\n\n- lend a key;\n- leave the\n  vault open."
    items = of_kind(passage(text), StatementKind.SENTENCE)
    assert [shown(item)[:2] for item in items] == [
        ("The teller must not:", "lend a key;"),
        ("The teller must not:", "leave the vault open."),
    ]


def test_a_lead_in_alone_is_of_a_kind_of_its_own(passage):
    assert [each.text() for each in of_kind(passage("Keys are:\n- red\n- blue"), StatementKind.LEAD)] == ["Keys are:"]


def test_a_list_is_a_statement_too(passage):
    (whole,) = of_kind(passage("Approved colours:\n\n1. red\n2. blue"), StatementKind.LIST)
    assert shown(whole) == ("Approved colours:", "red blue", "")


def test_a_list_holds_its_items_to_the_end(passage):
    (whole,) = of_kind(passage("Lend:\n\n- cards. Not to visitors.\n- keys."), StatementKind.LIST)
    assert whole.text() == "cards. Not to visitors. keys."


def test_a_nested_item_hangs_on_every_item_above_it(passage):
    text = "Rules:\n\n* If a card is lost:\n    * report it;\n    * block it."
    inner = next(each for each in statements(passage(text)) if each.text() == "report it;")
    assert inner.text(inner.above) == "Rules: If a card is lost:"


def test_another_form_of_list_begins_anew(passage):
    text = "Approved colours:\n\n* red\n\n1. Keys are counted.\n2. Seals are kept."
    counted = next(each for each in statements(passage(text)) if each.text() == "Keys are counted.")
    assert counted.above == ()


def test_headings_inside_the_passage_follow_those_of_the_evidence(passage):
    text = "## 4 Keys\n\n### 4.1 Loss\n\nReport it."
    (only,) = statements(passage(text, headings=("Vault Procedure", "4 Keys")))
    assert only.headings == ("Vault Procedure", "4 Keys", "4.1 Loss")


def test_a_row_knows_its_columns(passage):
    evidence = passage("| Rating | Limit |\n|---|---|\n| Low | USD 5 |\n| High | USD 1 |")
    rows = of_kind(evidence, StatementKind.ROW)
    assert [row.text() for row in rows] == ["Low USD 5", "High USD 1"]
    assert [rows[0].text((cell.column,)) for cell in rows[0].cells] == ["Rating", "Limit"]


def test_a_record_has_fields_and_a_number_its_currency(passage):
    text = "Register entry (R-1)\nlimit amount: 500\nlimit currency: USD\nowner: Treasury"
    fields = of_kind(passage(text), StatementKind.FIELD)
    assert shown(fields[1]) == ("", "limit amount: 500", "limit currency: USD")
    assert shown(fields[3]) == ("", "owner: Treasury", "")


def test_struck_and_deleted_words_are_left_out(passage):
    text = "The limit is ~~USD 5~~ USD 7. [deleted: The limit is USD 9.] ~~It never changes.~~"
    assert [each.text() for each in statements(passage(text))] == ["The limit is USD 7."]


def test_a_struck_cell_is_left_out(passage):
    (row,) = of_kind(passage("| Rating | Limit |\n|---|---|\n| Low | ~~USD 5~~ |"), StatementKind.ROW)
    assert row.text() == "Low"


def test_a_sentence_that_refers_back_brings_the_one_before(passage):
    text = "Cards are blocked after a loss. This must happen within 1 hour."
    assert shown(statements(passage(text))[1])[0] == "Cards are blocked after a loss."


def test_a_sentence_brings_the_limits_right_after_it(passage):
    limits = "This does not apply to the vault key. Except on Friday, seals are checked."
    first = statements(passage(f"A key is returned daily. {limits} Doors close."))[0]
    assert shown(first)[2] == limits


def test_limits_may_stand_in_the_next_paragraph(passage):
    first = statements(passage("A key is returned daily.\n\nHowever, the vault key stays."))[0]
    assert shown(first)[2] == "However, the vault key stays."


def test_an_exception_below_its_own_title(passage):
    text = "- Passwords expire after 60 days.\n\nExceptions\n\nAn account with a token may keep it for longer."
    first = statements(passage(text))[0]
    assert shown(first)[2] == "Exceptions An account with a token may keep it for longer."


def test_code_is_no_statement(passage):
    assert [each.text() for each in statements(passage("```\nmust run\n```\nIt runs."))] == ["It runs."]


def test_words_that_lead_to_code_are_a_lead_in(passage):
    evidence = passage("1. If the vault is open, call\n\n```\nclose vault\n```\n\n2. The step ends.")
    assert [each.text() for each in of_kind(evidence, StatementKind.LEAD)] == ["If the vault is open, call"]
    assert [each.text() for each in of_kind(evidence, StatementKind.SENTENCE)] == ["The step ends."]


PIECES = ["A rule applies. ", "It does not. ", "\n", "\n\n", "- an item", "1. step", "    ", "## Title", "| a | b |\n"]
PIECES += ["|---|---|\n", "~~gone~~", "[deleted: x y]", "name: 5\n", "Lead:", "`code`", "```\n", '!!! note "T"\n']
PIECES += ["银行不得。", "<b>x</b>"]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_every_span_lies_in_the_passage_and_holds_words(text):
    from context_engine.answer.values import Evidence

    evidence = Evidence("[1]", "s", "c", text, (), 1, None, None, None)
    for each in statements(evidence):
        assert each.text()
        for start, end in (*each.spans, *each.above, *each.after, *each.around):
            assert 0 <= start < end <= len(text)


RULES = """1. Keys must not be lent.
2. Locks must have:

    * six pins;
    * a cover.

    Exceptions

    Locks of safes may have four pins.
"""


def test_what_limits_a_later_item_limits_no_earlier_one(passage):
    first, *_ = of_kind(passage(RULES), StatementKind.SENTENCE)
    assert shown(first) == ("", "Keys must not be lent.", "")


def test_a_lead_in_is_of_its_list_and_not_of_a_paragraph_after_it(passage):
    texts = {each.text(): shown(each) for each in of_kind(passage(RULES), StatementKind.SENTENCE)}
    limit = "Exceptions Locks of safes may have four pins."
    assert texts["six pins;"] == ("Locks must have:", "six pins;", limit)
    assert texts["Locks of safes may have four pins."][0] == ""


def test_every_exception_below_an_item_limits_it_in_any_words(passage):
    text = (
        "Keep:\n\n* the names of all customers of the branch\n\n  - excluding minors\n  - other than staff\n  - see C"
    )
    item, *_ = of_kind(passage(text), StatementKind.SENTENCE)
    assert item.text(item.after) == "excluding minors other than staff"


def test_an_item_has_the_exceptions_below_it_and_they_have_the_item(passage):
    names = "personal data, names and numbers of customers (PII)"
    text = f"Logs must not hold:\n\n* {names}\n\n  - except for IP addresses\n  - see C"
    item, exception, other = of_kind(passage(text), StatementKind.SENTENCE)
    assert shown(item) == ("Logs must not hold:", names, "except for IP addresses")
    assert shown(exception) == (f"Logs must not hold: {names}", "except for IP addresses", "")
    assert other.text(other.after) == ""
