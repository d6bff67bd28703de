"""Answers without a model: the right statement, its quotes, and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.extract import extract
from context_engine.answer.values import Evidence, Verdict
from context_engine.errors import InvalidRequest

LENT = "A vault key may be lent only with the approval of the branch manager."
VAULT = f"""## 4 Vault keys

Vault keys are counted daily by the duty officer. The key register is retained for seven years.
{LENT} This does not apply to the night key.

A key must be returned:

- by 18:00 on a working day;
- at once when an alarm is raised.

| Key | Holder | Deposit |
|---|---|---|
| Day key | Head teller | USD 50 |
| Night key | Duty officer | USD 120 |
"""


def texts(question, *evidence, **options):
    return [sentence.text for sentence in extract(question, evidence, **options).sentences]


@pytest.mark.parametrize(
    ("question", "wants", "answer"),
    [
        ("How long is the key register kept?", "duration", "The key register is retained for seven years."),
        ("How often are vault keys counted?", "duration", "Vault keys are counted daily by the duty officer."),
        ("Who counts the vault keys?", "role", "Vault keys are counted daily by the duty officer."),
        (
            "May I lend a vault key?",
            "rule",
            f"{LENT} This does not apply to the night key.",
        ),
        ("How much is the deposit for the night key?", "amount", "Key: Night key; Deposit: USD 120"),
    ],
)
def test_the_sentence_that_answers(passage, question, wants, answer):
    result = extract(question, [passage(VAULT)])
    assert (result.wants, result.refusal) == (wants, None)
    assert result.sentences[0].text == answer


def test_an_item_is_shown_below_its_lead_in(passage):
    assert texts("When must a key be returned if an alarm is raised?", passage(VAULT))[0] == (
        "A key must be returned: at once when an alarm is raised."
    )


def test_a_whole_list_where_a_list_is_asked_for(passage):
    text = "Approved token colours:\n\n- red\n- blue\n\nTokens are counted."
    assert texts("Which token colours are approved?", passage(text))[0] == "Approved token colours:\n- red\n- blue"


def test_quotes_are_verbatim_with_the_lead_in_first(passage):
    evidence = passage("The teller **must not**:\n\n* lend a vault key to anyone.")
    (sentence,) = extract("May the teller lend a vault key?", [evidence]).sentences
    assert sentence.text == "The teller must not: lend a vault key to anyone."
    assert [quote.text for quote in sentence.quotes] == ["The teller **must not**:", "lend a vault key to anyone."]
    assert (sentence.verdict, sentence.coverage, sentence.findings) == (Verdict.SUPPORTED, 1.0, ())


@pytest.mark.parametrize(
    "question",
    [
        "How long is the visitor register kept?",  # another subject
        "How much does the key register cost?",  # another attribute
        "Who paints the vault keys?",  # another act
        "On what date was the key register introduced?",
        "How many night keys are there?",
    ],
)
def test_a_near_miss_is_refused(passage, question):
    result = extract(question, [passage(VAULT)])
    assert result.sentences == ()
    assert result.refusal is not None
    assert result.refusal.code == "no_sentence"


@pytest.mark.wording
def test_a_duration_of_another_subject_is_no_answer(passage):
    text = "The retention period of the key register is seven years."
    assert texts("How long is the retention period of the register?", passage(text)) == [text]
    assert texts("How long is the notice period?", passage(text)) == []


def test_a_pronoun_is_no_department(passage):
    text = "A tool is new if it has not been approved.\n\nIT approves a tool."
    assert texts("Who approves a tool?", passage(text))[0] == "IT approves a tool."


def test_what_a_thing_is_not_defines_nothing(passage):
    text = "A spare key is not counted.\n\nA spare key is a second key of one lock."
    assert texts("What is a spare key?", passage(text))[0] == "A spare key is a second key of one lock."


def test_a_refusal_says_what_was_looked_for_and_what_is_missing(passage):
    refusal = extract(
        "How long is the visitor register kept?", [passage("The key register is kept for 7 years.")]
    ).refusal
    assert refusal is not None
    assert "a duration about: visitor, register, kept" in refusal.message
    assert "lacks: visitor" in refusal.message


def test_no_evidence_is_refused():
    assert extract("How long is it kept?", []).refusal.code == "no_sentence"


def test_a_duration_elsewhere_in_the_passage_is_no_answer(passage):
    text = "Seals are checked by the auditor. Gloves are kept for 7 years."
    assert texts("How long are seals kept?", passage(text)) == []


def test_struck_text_is_no_answer(passage):
    text = "The deposit for a key is ~~USD 50~~. [deleted: The deposit for a key is USD 70.]"
    assert texts("How much is the deposit for a key?", passage(text)) == []


def test_the_condition_above_an_item_is_shown(passage):
    text = "- If the alarm is out of order, the guard stays.\n  - The vault door must be locked by the guard."
    assert texts("Who must lock the vault door?", passage(text)) == [
        "If the alarm is out of order, the guard stays. The vault door must be locked by the guard."
    ]


def test_a_row_shows_every_duration_if_no_column_tells_which(passage):
    text = "| Rating | Desk | Board |\n|---|---|---|\n| Severe | 1 hour | 2 hours |\n| Low | 1 day | 2 days |"
    assert texts("time limit for a Severe rating to the supervisor", passage(text))[:1] in (
        [],
        ["Rating: Severe; Desk: 1 hour; Board: 2 hours"],
    )


@pytest.mark.parametrize(("years", "haircut"), [("three", "2 %"), ("seven", "4 %"), ("5", "2 %")])
def test_a_row_for_another_band_is_no_answer(passage, years, haircut):
    text = (
        "| Bonds | Maturity | Haircut |\n|---|---|---|\n| State | up to 5 years | 2 % |\n| State | over 5 years | 4 % |"
    )
    (answer,) = texts(f"What is the haircut for a {years}-year state bond?", passage(text))
    assert answer.endswith(f"Haircut: {haircut}")


def test_of_two_roles_the_one_that_acts(passage):
    text = (
        "The treasurer asks the auditor. The loan is approved by the credit committee at the request of the treasurer."
    )
    assert texts("Who approves the loan?", passage(text))[0].startswith("The loan is approved")


def test_the_same_words_in_two_passages_are_shown_once(passage):
    twice = [passage("Seals are kept for 7 years.", rank=rank) for rank in (1, 2)]
    (sentence,) = extract("How long are seals kept?", twice).sentences
    assert sentence.labels == ("[1]",)


def test_a_chinese_question(passage):
    assert texts("凭证的保存期是多少年？", passage("凭证的保存期为七年。客户须签字。"), language="zh") == [
        "凭证的保存期为七年。"
    ]


@pytest.mark.parametrize("most", [0, -1, True, 1.5])
def test_most_is_a_whole_number(passage, most):
    with pytest.raises(InvalidRequest, match="most must be a whole number"):
        extract("How long?", [passage("7 years.")], most=most)


WORDS = [
    "vault",
    "keys",
    "officer",
    "must",
    "not",
    "return",
    "counted",
    "daily",
    "seven",
    "years",
    "approve",
    "if",
    "only",
]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(
    lambda words: " ".join(words).capitalize() + "."
)
TEXTS = st.lists(
    st.one_of(SENTENCES, SENTENCES.map("- {}".format), SENTENCES.map("\n{}\n".format)), min_size=1, max_size=6
)
PASSAGES = st.lists(TEXTS.map("\n".join), min_size=1, max_size=4)
QUESTIONS = st.sampled_from(
    ["How long are vault keys counted?", "Who must return keys?", "May an officer approve keys?", "What is a vault?"]
)


def numbered(passages):
    return [
        Evidence(f"[{rank}]", "s", f"c{rank}", text, ("Vault",), rank, None, None, None)
        for rank, text in enumerate(passages, start=1)
    ]


@given(QUESTIONS, PASSAGES, st.integers(1, 4))
def test_laws(question, passages, most):
    evidence = numbered(passages)
    result = extract(question, evidence, most=most)
    assert result == extract(question, evidence, most=most)
    assert (result.refusal is None) == bool(result.sentences)
    assert len(result.sentences) <= most
    by_label = {passage.label: passage.text for passage in evidence}
    for sentence in result.sentences:
        assert sentence.quotes
        assert all(quote.text == by_label[quote.label][quote.start : quote.end] for quote in sentence.quotes)


@given(QUESTIONS, PASSAGES, st.randoms())
def test_the_order_in_which_passages_are_given_does_not_matter(question, passages, random):
    evidence = numbered(passages)
    shuffled = random.sample(evidence, len(evidence))
    assert extract(question, shuffled) == extract(question, evidence)


def test_what_limits_a_sentence_is_not_shown_again_as_a_sentence() -> None:
    text = "A teller may pay out EUR 500 without a second signature. This may only be done if the customer is present."
    given_answer = extract("May a teller pay out without a second signature?", numbered([text]))
    assert [sentence.text for sentence in given_answer.sentences] == [text]


def test_a_role_in_passing_does_not_answer_who(passage) -> None:
    mentioned = passage("The ledger stores the class, the officer's role that chose it, and the date of the entry.")
    assert texts("Who keeps the class ledger?", mentioned) == []
    holder = passage("The Branch Manager has the only access to the sealed paper ledger of class codes.")
    assert texts("Who keeps the sealed paper ledger of class codes?", holder) == [holder.text]


def test_a_noun_said_again_brings_the_sentence_that_names_it_whole(passage) -> None:
    text = "Camera footage is stored on discs. Footage is kept for 30 days."
    assert texts("How long is camera footage kept?", passage(text)) == [text]


def test_a_sentence_is_not_shown_again_above_another(passage) -> None:
    first = "The Head of Testing shall set the test schedule for the contingency plan."
    shown = texts("Who sets the test schedule for the contingency plan?", passage(f"{first} It is the Head's duty."))
    assert shown == [first]


def test_the_label_before_a_role_says_what_it_does(passage) -> None:
    record = passage("Harbour Note: product; approving body: Branch Product Committee; keeper: the Head of Vaults")
    other = passage("The Vault Office shall sort every product within three days.")
    assert texts("Who approves a product?", record, other)[0] == record.text


def test_general_words_are_a_subject_only_side_by_side(passage) -> None:
    apart = "Passwords must differ from the last 24 and change every 60 days."
    together = "On the last day of work you must hand in your badge."
    assert texts("What must I do on my last day?", passage(apart)) == []
    assert texts("What must I do on my last day?", passage(f"{apart}\n\n{together}")) == [together]


@pytest.mark.parametrize(
    ("pointer", "where"),
    [
        ("See section 7 for the differences between fees and levies.", "In which section are fees and levies?"),
        ("Fees and levies are described in section 7.", "Where are fees and levies described?"),
        ("You can read more about fees and levies in section 7.", "Where can I read about fees and levies?"),
    ],
)
def test_a_sentence_that_only_says_where_to_look_answers_who_asks_where(passage, pointer, where) -> None:
    assert texts("What are fees and levies?", passage(pointer)) == []
    assert texts(where, passage(pointer)) == [pointer]


def test_the_notice_of_a_question_is_its_subject(passage) -> None:
    text = "The rules of a safe go on until the safe is empty. The notice for a safe is three weeks."
    assert texts("How much notice does a safe need?", passage(text)) == ["The notice for a safe is three weeks."]


def test_half_of_the_subject_is_not_enough_for_a_rule(passage) -> None:
    text = "You may check the seal of a parcel and show it to the guard."
    assert texts("May I check ledgers that show my own bonus?", passage(text)) == []
    assert texts("May I check the seal of a parcel?", passage(text)) == [text]


def test_where_links_lead_is_no_sentence(passage) -> None:
    text = "Seals are counted before they are sent.\n\n[seals]: https://vault.example/after\n[vault]: /keys#when"
    assert texts("When are seals counted?", passage(text)) == ["Seals are counted before they are sent."]


def test_a_number_that_tells_some_from_others_is_not_what_is_counted(passage) -> None:
    some = "Parcels with fewer than 9 seals must be weighed by the guard of the night."
    rule = "On its way to the vault of another branch a parcel must have at least 4 seals."
    assert texts("How many seals must a parcel have?", passage(f"{some} {rule}"))[0] == rule


def test_a_value_for_all_other_things_is_not_that_of_the_exception(passage) -> None:
    other = "Codes sent by means other than mail are valid for 10 minutes."
    own = "Codes that the branch has sent to a customer by mail are valid for a period of 7 days."
    assert texts("How long are codes sent by mail valid?", passage(f"{other} {own}"))[0] == own


@pytest.mark.parametrize("column", ["Review cycle", "Frequency of review"])
def test_a_column_says_that_a_duration_is_how_often(passage, column) -> None:
    text = f"| Register | {column} |\n|---|---|\n| Key register | 12 months |\n| Seal register | 6 months |"
    assert texts("How often is the seal register reviewed?", passage(text)) == [
        f"Register: Seal register; {column}: 6 months"
    ]


def test_the_sentence_after_a_label_defines_it(passage) -> None:
    text = "**Seals (Wax or Lead).** These are stamped plates on a parcel.\n\nUse the word seal in a letter."
    assert texts("What is a seal?", passage(text))[0] == "Seals (Wax or Lead). These are stamped plates on a parcel."


DUTIES = """## 4 Authority

| Decision | Desk head | Chief Risk Officer |
|---|---|---|
| Closing of a vault | C | A |
| Loan of a key | A | I |

| Ground | Proposed by | Decided by |
|---|---|---|
| Loss above USD 2 million | Audit | Vault council |
| Change of law | Compliance | Chief counsel |
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who decides on the closing of a vault?", "Decision: Closing of a vault; Desk head: C; Chief Risk Officer: A"),
        ("Who decides after a change of law?", "Ground: Change of law; Decided by: Chief counsel"),
        (
            "Who decides after a loss above USD 2 million?",
            "Ground: Loss above USD 2 million; Decided by: Vault council",
        ),
    ],
)
def test_a_table_says_who_acts_by_its_columns(passage, question, answer):
    assert texts(question, passage(DUTIES))[0] == answer


def test_a_field_says_who_acts_by_its_name(passage):
    record = "vault: North\nowner: Martha Lee\nopened on: 2024-05-01"
    assert texts("Who owns the North vault?", passage(record, headings=("North vault",))) == ["owner: Martha Lee"]


def test_who_is_responsible_may_be_anybody(passage):
    text = "The author is responsible for a review of the code. The review has 2 steps."
    assert texts("Who is responsible for a review of the code?", passage(text)) == [text.split(". ")[0] + "."]


def test_a_length_is_not_just_any_number(passage):
    text = "Seals must have:\n- a minimum length of 9 digits;\n- a change of at least 6 digits;\n- a two-way lock.\n"
    assert texts("How long must a seal be?", passage(text))[0] == "Seals must have: a minimum length of 9 digits;"


def test_a_day_of_the_week_is_a_date(passage):
    text = "Vaults are opened on Mondays. A vault has 3 locks."
    assert texts("On which day of the week are vaults opened?", passage(text)) == ["Vaults are opened on Mondays."]


def test_he_stands_for_the_person_of_the_sentence_before(passage):
    text = "Peter is a waiter and earns EUR 9 an hour. He will gain EUR 825 from the change."
    assert texts("How much will Peter gain from the change?", passage(text)) == [text]


def test_also_refers_to_the_sentence_before(passage):
    text = "The plan may be started by the chair. In a flood the plan may also be started by the guard."
    assert texts("Who may start the plan in a flood?", passage(text))[0] == text


def test_a_share_per_year_is_no_duration(passage):
    text = "The number of claims grew by 3.6 % per year from 1975 to 1991."
    assert texts("By how much per year did the number of claims grow from 1975 to 1991?", passage(text)) == [text]


def test_an_age_is_a_duration(passage):
    assert texts("How old is Keith?", passage("Anne is aged 71 and Keith is aged 72.")) == [
        "Anne is aged 71 and Keith is aged 72."
    ]


def test_the_sentence_that_spells_out_an_acronym_tells_what_it_means(passage) -> None:
    rating = passage("Fair evidence has one copy that was checked.", rank=1)
    data = passage("The data office keeps all data Findable, Accessible, Interoperable and Reusable (FAIR).", rank=2)
    answer = extract("What does FAIR mean?", [rating, data])
    assert "Findable" in answer.sentences[0].text


def test_what_a_statement_takes_for_granted_is_no_rule(passage):
    text = "If night keys are lent to guards, the vault officer must tell the branch. Night keys may not be lent."
    assert texts("May night keys be lent to guards?", passage(text))[0] == "Night keys may not be lent."


def test_who_does_a_general_verb_is_the_one_by_whom_it_is_done(passage) -> None:
    text = "Checks of new keys are performed by the key team before they are lent."
    assert texts("Which team carries out checks of new keys?", passage(text)) == [text]


def test_what_comes_before_a_comma_is_not_what_somebody_does(passage) -> None:
    text = "A lost key is reported to the vault officer. The key manager replaces a lost key."
    assert texts("I lost my key, who replaces a lost key?", passage(text))[0] == "The key manager replaces a lost key."


@pytest.mark.parametrize("body", ["Key Safety Commission", "service desk", "Key Bureau"])
def test_commissions_and_desks_are_bodies(passage, body) -> None:
    text = f"The {body} enforces the rules on keys."
    assert texts("Which body enforces the rules on keys?", passage(text)) == [text]


def test_whose_job_it_is_asks_who_does_it(passage) -> None:
    text = "The vault officer counts the spare keys."
    assert texts("Whose job is it to count the spare keys?", passage(text)) == [text]


def test_a_role_does_not_report_to_itself(passage) -> None:
    text = "The tally is delegated to the vault officer. The vault officer reports to the board of keys."
    assert texts("To whom does the vault officer report?", passage(text))[0] == (
        "The vault officer reports to the board of keys."
    )


def test_whoever_does_anything_answers_a_general_verb(passage) -> None:
    text = "Key tags are of brass. The key manager is responsible for the tags on keys."
    assert texts("Who puts tags on keys?", passage(text))[0] == "The key manager is responsible for the tags on keys."


def test_a_part_of_a_compound_is_no_body(passage) -> None:
    text = "Company-owned keys are wiped after a loss. A lost key is wiped by the key manager."
    assert texts("Which role wipes a lost key?", passage(text))[0] == "A lost key is wiped by the key manager."


def test_a_limit_of_what_is_counted_is_its_number(passage) -> None:
    text = "Guards limit wrong attempts at one lock of a vault to no more than 12. A vault has 3 locks."
    assert texts("How many wrong attempts are allowed?", passage(text)) == [
        "Guards limit wrong attempts at one lock of a vault to no more than 12."
    ]


def test_a_post_with_the_name_of_an_act_does_not_do_it(passage) -> None:
    text = "The team leads must keep a copy. The Head of Guards leads the team."
    assert texts("Who leads the team?", passage(text))[0] == "The Head of Guards leads the team."
