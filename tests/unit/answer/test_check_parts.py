"""The check of a sentence part by part: whose value it says, which bound limits it, and on which clauses it rests."""

from context_engine.answer.check import check
from context_engine.answer.values import Evidence, Sentence, Verdict


def checked(sentence: str, *texts: str) -> Sentence:
    evidence = {
        f"[{place}]": Evidence(f"[{place}]", "sops", str(place), text, (), place, None, None, None)
        for place, text in enumerate(texts, start=1)
    }
    return check(sentence, list(evidence), evidence)


def codes(sentence: Sentence) -> set[str]:
    return {finding.code for finding in sentence.findings}


def test_a_date_belongs_to_its_part() -> None:
    text = "Checks of large accounts must end by 1 March 2026 and checks of small accounts must end by 1 May 2026."
    large, small = text[:-1].split(" and ")
    assert checked(f"{small.capitalize()} and {large.lower()}.", text).verdict is Verdict.SUPPORTED
    # "small" shares check, small, account, end with the part of May, and only three of them with that of March
    assert codes(checked(text.replace("May", "March"), text)) == {"number"}
    assert codes(checked("Checks of small accounts must end by 1 March 2026.", text)) == {"value"}


def test_a_reference_belongs_to_its_part() -> None:
    text = "A loss of the desk is reported under Rule 4.1.2, and a gain of the desk is booked under Rule 4.1.3."
    assert checked("A gain of the desk is booked under Rule 4.1.3.", text).verdict is Verdict.SUPPORTED
    assert checked("A gain of the desk is booked under Rule 4.1.2.", text).verdict is not Verdict.SUPPORTED


def test_parts_say_a_value_no_more_often_than_the_statement_they_rest_on() -> None:
    # each part alone stands in the statement: swaps in USD, EUR; USD with a tenor; but USD stands there once
    text = "Classes are interest rate swaps in USD, EUR and ALD with a tenor of 5 years, and index derivatives."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert codes(checked(text.replace("ALD", "USD"), text)) == {"number"}


def test_a_bound_without_a_number_limits_too() -> None:
    text = "The customer receives back less than the amount paid."
    assert checked("The customer receives back below the amount paid.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("The customer receives back the amount paid.", text)) == {"bound"}
    assert codes(checked("The customer receives back more than the amount paid.", text)) == {"bound"}
    assert codes(checked("The desk reports trades.", "The desk reports most trades.")) == {"only"}


def test_one_with_a_unit_in_the_plural_is_no_value_of_the_passage() -> None:
    # nobody knows whether "1 Business Days" is 1 day or 10 days
    text = "A rejected report is corrected within 1 Business Day."
    assert checked("A rejected report is corrected within one Business Day.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("A rejected report is corrected within 1 Business Days.", text)) == {"unit"}


def test_a_verb_of_the_clause_is_no_subject_of_the_sentence() -> None:
    # "operations" has the stem of "operate", which the predicate of the sentence has already
    text = "A participant shall operate an automatic check of payments."
    assert codes(checked("Operations shall operate an automatic check of payments.", text)) == {"subject"}
    passive = "An automatic check of payments shall be operated by a participant."
    assert checked(passive, text).verdict is Verdict.SUPPORTED


def test_parts_on_two_statements_each_need_a_subject() -> None:
    classes = "Classification decides the route of approval and shall be entered in the register."
    records = "All records shall be kept for seven years from the date of closure."
    # "shall be kept" has the subject of "decides", which no modal shows
    blend = "Classification decides the route of approval and shall be kept for seven years from the date of closure."
    assert checked(blend, classes, records).verdict is not Verdict.SUPPORTED
    assert checked("Records shall be kept for seven years from the date of closure.", classes, records).labels == (
        "[2]",
    )
    risk, option = (
        "Risk means a part of the charge and set under Rule 5.5.",
        "Option means a charge set under Rule 5.8.",
    )
    assert checked(risk.replace("5.5", "5.8"), risk, option).verdict is not Verdict.SUPPORTED


def test_whether_or_not_denies_nothing() -> None:
    text = "Whether or not it is paid, the nature of the activity that is carried on counts."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    false = "Whether it is paid, the nature of the activity that is not carried on counts."
    assert "negation" in codes(checked(false, text))


def test_a_passive_may_leave_out_its_agent() -> None:
    text = "The owner must open a review within 2 days and record it in the register."
    assert checked("A review must be opened within 2 days and recorded in the register.", text).labels == ("[1]",)
    # who appoints is not who is appointed
    assert codes(checked("The officer must be appointed.", "The officer must appoint a deputy.")) == {"roles"}


def test_an_exception_of_a_lead_in_that_the_sentence_does_not_repeat_is_not_its_own() -> None:
    text = "For this Rule, exposure excludes:\n- fees. The five days include the date of payment.\n"
    assert codes(checked("The five days exclude the date of payment.", text)) == {"exception"}


def test_one_and_many_of_a_name_within_a_longer_name_are_not_told_apart() -> None:
    text = "The staff shall report an Event to the Event Register."
    assert checked("The staff shall report Events to the Event Register.", text).verdict is Verdict.SUPPORTED


def test_a_place_in_a_text_is_no_bound() -> None:
    text = "The desk shall report losses (as set out below)."
    assert checked("The desk shall report losses.", text).verdict is Verdict.SUPPORTED


def test_a_pronoun_of_the_clause_stands_for_what_is_said_before() -> None:
    text = "The Board reads the report. They should make sure that controls of the systems are robust."
    assert checked("The Board should make sure that controls of the systems are robust.", text).labels == ("[1]",)
    assert codes(checked("The systems should make sure that controls of the systems are robust.", text)) == {"subject"}


def test_a_subject_is_not_cut_short() -> None:
    text = "The insurer's least capital must be equal to USD 50,000 at the end of the year."
    assert checked("The capital must be equal to USD 50,000 at the end of the year.", text).labels == ("[1]",)
    assert codes(checked("The insurer must be equal to USD 50,000 at the end of the year.", text)) == {"subject"}


def test_what_is_said_of_some_is_not_said_of_all() -> None:
    text = "An exercise in which the target is missed shall be repeated within 60 days."
    missed = "If the target is missed, the exercise shall be repeated within 60 days."
    assert codes(checked("An exercise shall be repeated within 60 days.", text)) == {"subject"}
    assert "subject" not in codes(checked(missed, text))


def test_what_holds_of_one_kind_is_not_said_of_all() -> None:
    text = "The drafting party should be fixed in the agreement."
    assert checked("The drafting party should be fixed.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("Parties should be fixed in the agreement.", text)) == {"subject"}


def test_words_of_one_stem_are_not_one_subject() -> None:
    text = "Data given by the applicant is read, or should be treated as not verified by the desk."
    assert "subject" in codes(checked("Your application should be treated as not verified by the desk.", text))


def test_what_a_sentence_says_of_its_subject_stands_in_the_clause() -> None:
    text = "The three levels show the options that agencies may choose from by the risk and the harm of a false claim."
    assert "coverage" in codes(checked("The three levels show the options that agencies may be a burden for.", text))


def test_a_word_behind_a_preposition_is_not_the_subject() -> None:
    text = "The information in this ledger, including its notes, may be used by the desk."
    assert checked("The information in this ledger may be used by the desk.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("This ledger may be used by the desk.", text)) == {"subject"}


def test_names_behind_each_others_words_are_exchanged() -> None:
    text = "For this rule, a Trader is a Restricted Person in relation to a Listed Fund if he runs the Listed Fund."
    false = "For this rule, a Trader is a Listed Fund in relation to a Restricted Person if he runs the Listed Fund."
    assert "roles" in codes(checked(false, text))
    text = "The desk must keep the Client Money Rules in relation to that Client Money and show the Client Money daily."
    false = (
        "The desk must keep the Client Money in relation to that Client Money Rules and show the Client Money daily."
    )
    assert "roles" in codes(checked(false, text))
    turned = "In relation to that Client Money, the desk must keep the Client Money Rules."
    assert checked(turned, text).verdict is Verdict.SUPPORTED
    text = "An Entity is a Related Entity of another Entity if the two Entities are under common control."
    turned = "Related Entity is an Entity of another Entity if the two Entities are under common control."
    assert checked(turned, text).verdict is not Verdict.SUPPORTED


def test_a_condition_between_a_subject_and_its_predicate_binds_it() -> None:
    text = "The level of review, if it occurs at all, is chosen by the desk."
    assert codes(checked("The level of review is chosen by the desk.", text)) == {"condition"}


def test_a_value_with_its_bound_is_said_no_more_often() -> None:
    text = "Rates are 2 % up to five years, 4 % over five years, and 8 % up to ten years."
    assert "number" in codes(checked(text.replace("up to five", "more than five"), text))


def test_above_before_a_bound_is_a_place() -> None:
    text = "The desk answers most of the above over three days."
    assert codes(checked("The desk answers most of the below over three days.", text)) >= {"opposite"}
    several = "The desk uses more than one of the above forms."
    assert codes(checked(several.replace("more than ", ""), several)) == {"bound"}


def test_what_is_provided_is_no_condition() -> None:
    text = "Ideally, sufficient records should be provided to the desk."
    assert checked("Sufficient records should be provided to the desk.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("These should be provided to the desk.", text)) == {"subject"}
    given = "The desk may trade, provided the Board agrees."
    assert "condition" in codes(checked("The desk may trade.", given))


def test_an_opposite_in_a_topic_stands_in_a_heading() -> None:
    text = "Audits are kept. External and internal files differ."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, ("Internal audits",), 1, None, None, None)}
    assert check("On internal audits: audits are kept.", ["[1]"], evidence).verdict is Verdict.SUPPORTED
    assert check("On external audits: audits are kept.", ["[1]"], evidence).verdict is not Verdict.SUPPORTED


def test_the_term_of_a_definition_is_its_subject() -> None:
    text = "Clearing Member Contract means a contract of a Client with an Indirect Client of the house."
    assert checked("Clearing Member Contract means a contract of a Client.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("Clearing Member means a contract of a Client.", text)) == {"subject"}
    short = text.replace("Contract means", "Contract (CMC) means")
    assert checked("Clearing Member Contract means a contract of a Client.", short).verdict is Verdict.SUPPORTED


def test_a_sentence_that_is_cut_off_says_nothing() -> None:
    text = "The use of systems is subject to review. The desk must keep systems."
    for cut in ("The use of systems is.", "The desk must", "The desk must keep systems if"):
        assert codes(checked(cut, text)) == {"incomplete"}
    assert checked("The use of systems is subject to review.", text).verdict is Verdict.SUPPORTED
    factor = "A factor is something you know or something you are."
    assert checked(factor, factor).verdict is Verdict.SUPPORTED
    tool = "The tool has built-in support for checks of files with Hibernate Validator."
    assert codes(checked(tool.replace("Hibernate Validator", "In"), tool)) == {"incomplete"}
    ways = "Calculation of the Fund\nThere are two ways for calculating the Fund."
    assert codes(checked("Calculation of the Fund are two ways for calculating the Fund There.", ways)) == {
        "incomplete"
    }
    whole = "The file says who the owners are."
    assert checked(whole, whole).verdict is Verdict.SUPPORTED


def test_what_is_done_by_one_is_not_done_by_what_it_is_done_to() -> None:
    text = "Every Bank shall retain the files after the date of the report to the Authority."
    assert codes(checked("The Authority shall retain the files after the date of the report.", text)) == {"roles"}
    turned = "The files shall be retained by every Bank after the date of the report to the Authority."
    assert checked(turned, text).verdict is Verdict.SUPPORTED


def test_a_heading_is_no_predicate() -> None:
    text = "A Captive Cell that runs an insurance business must meet the criterion."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, ("Appropriate limits",), 1, None, None, None)}
    sentence = "A Captive Cell that runs an insurance business must be appropriate for it."
    assert "coverage" in {finding.code for finding in check(sentence, ["[1]"], evidence).findings}


def test_each_modal_behind_a_no_is_told_apart() -> None:
    text = "No check|Each file must be checked with a tool that is able to read it."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert codes(checked(text.replace("must", "may"), text)) == {"modal"}


def test_a_no_of_a_lead_in_governs_no_condition_behind_it() -> None:
    text = "- A first release with no approval history\n  - If approvals are needed, the clerks must review the file.\n"
    assert "negation" in codes(checked("The clerks must review the file if approvals are not needed.", text))


def test_each_agent_of_a_passive_has_its_own_acts() -> None:
    text = "A Loan may be placed in a higher class by anyone and in a lower class only by the Loan Board."
    assert checked("Only the Loan Board may place a Loan in a lower class.", text).verdict is Verdict.SUPPORTED
    assert "roles" in codes(checked("Only the Loan Board may place a Loan in a higher class.", text))
    text = "Exceptions must be approved by the Chief Risk Officer and new limits by the Board."
    assert "roles" in codes(checked("The Chief Risk Officer must approve new limits.", text))
    assert checked("The Chief Risk Officer must approve exceptions.", text).verdict is Verdict.SUPPORTED


def test_names_of_two_fields_are_not_mixed() -> None:
    text = "Register: Harbour Step-Up Note\nproduct name: Harbour Step-Up Note\napproving body: New Product Committee"
    assert checked("Harbour Step-Up Note: its approving body is the New Product Committee.", text).labels == ("[1]",)
    assert "row" in codes(checked("The approving body of Harbour Step-New Product Committee is the Note.", text))


def test_the_writer_the_reader_and_others_are_told_apart() -> None:
    text = "The desk is small. You should publish the data of a service each year."
    assert checked("You should publish the data of a service each year.", text).verdict is Verdict.SUPPORTED
    for subject in ("We", "They", "There"):
        assert codes(checked(f"{subject} should publish the data of a service each year.", text)) == {"subject"}


def test_what_one_subject_must_do_is_not_said_of_a_list_of_subjects() -> None:
    text = "The Bank must send the file of the clerk and the desk to the Board."
    assert "subject" in codes(checked("The clerk, the desk, and the Bank must send the file to the Board.", text))
    every = "The clerk, the desk, and the Bank must send the file to the Board."
    assert checked(every.replace("must", "shall"), every).verdict is Verdict.SUPPORTED


def test_a_condition_alone_supports_nothing() -> None:
    text = "A table of the holes, unless the Bank finds that the data of the holes is not material to the results."
    false = "Unless the Bank finds that the data of the holes is not material to the results, a memo of the data."
    assert "coverage" in codes(checked(false, text))


def test_a_list_in_a_condition_is_not_said_without_it() -> None:
    text = "Rule 4 is subject to the limits in rules 74 (Trustees), 76 (Sale of goods), and 82 (Receivers)."
    assert "condition" in codes(checked("Rule 4 is 76 (Sale of goods), and 82 (Receivers).", text))


def test_a_name_in_brackets_is_not_replaced() -> None:
    text = "Rule 4 names the limits of rules 77 (Groups and Joint Firms), 78 (Sale of a Desk) and 79 (Foreign Persons)."
    assert checked(text.replace(" (Sale of a Desk)", ""), text).verdict is Verdict.SUPPORTED
    assert "altered" in codes(checked(text.replace("Joint Firms", "Persons"), text))


def test_half_of_a_sentence_may_stand_above_where_a_pronoun_stands_for_it() -> None:
    evidence = {
        f"[{place}]": Evidence(f"[{place}]", "sops", str(place), text, ("Restricted Person",), place, None, None, None)
        for place, text in enumerate(("The Board of every Listed Entity.", "It requires consent."), start=1)
    }
    assert check("Restricted Persons require consent.", ["[2]"], evidence).verdict is Verdict.SUPPORTED
    assert check("A Listed Entity about a Restricted Person.", ["[1]"], evidence).verdict is not Verdict.SUPPORTED


def test_very_high_is_not_high() -> None:
    text = "A Loss rated very high may be kept by the Board. A Loss rated high may be kept by the head of the desk."
    assert checked("A Loss rated high can be kept by the head of the desk.", text).verdict is Verdict.SUPPORTED
    assert "only" in codes(checked("A Loss rated very high may be kept by the head of the desk.", text))


def test_the_object_of_a_preposition_is_not_the_subject_if_it_has_several_words() -> None:
    text = "The head of a trading desk must sign each trade. A trading desk must keep its files."
    assert checked("The head of a trading desk must sign each trade.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("A trading desk must sign each trade.", text)) == {"subject"}
    assert checked("A trading desk must keep its files.", text).verdict is Verdict.SUPPORTED


def test_findings_stand_in_the_order_of_the_sentence() -> None:
    """A replay must give them in the same order in every process, whatever the order of its sets is."""
    modals = ["could", "should", "may", "must"]
    for first, *others in (modals, modals[::-1], modals[2:] + modals[:2]):
        sentence = f"Desks {first} keep a register of gifts, {' '.join(f'{modal} close it,' for modal in others)}."
        details = [finding.detail for finding in checked(sentence, "Desks keep a register of gifts.").findings]
        told = [detail.split('"')[1] for detail in details if detail.startswith("the sentence says")]
        assert told == [first, *others]


def test_modals_do_not_change_their_verbs() -> None:
    text = "The desk must promptly report the loss and may close the book."
    assert checked("The desk must report the loss and may close the book.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("The desk may report the loss and must close the book.", text)) == {"modal"}


def test_words_of_a_cell_stand_beside_the_name_of_their_column() -> None:
    text = "| Step | Owner | Reviewer |\n|---|---|---|\n| Pricing | Market Risk | Group Finance |\n"
    for true in (
        "Of pricing the owner is Market Risk and the reviewer is Group Finance.",
        "Market Risk is the owner and Group Finance is the reviewer of pricing.",
    ):
        assert checked(true, text).verdict is Verdict.SUPPORTED
    swapped = "Of pricing the owner is Group Finance and the reviewer is Market Risk."
    assert codes(checked(swapped, text)) == {"column"}


def test_a_column_is_named_by_all_of_its_words() -> None:
    text = (
        "| Step | Trading desk | Trade Support |\n|---|---|---|\n| Confirm | tells the client | writes the letter |\n"
    )
    assert checked("To confirm, the trading desk tells the client.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("To confirm, the trading desk writes the letter.", text)) == {"column"}


def test_words_of_a_cell_name_no_other_column() -> None:
    text = (
        "| Change | Criterion | Approval |\n|---|---|---|\n| Minor | terms inside approved limits | senior officer |\n"
    )
    true = "Of a minor change the criterion is terms inside approved limits and the approval is senior officer."
    assert checked(true, text).verdict is Verdict.SUPPORTED


def test_what_the_row_before_says_is_not_said_of_a_row() -> None:
    text = (
        "| Version | Effective | Reason |\n|---|---|---|\n"
        "| 4.1 | 2025-04-01 | Hourly measurement added |\n| 4.0 | 2023-04-01 | Third rule added |\n"
    )
    assert checked("4.0: Effective 2023-04-01.", text).verdict is Verdict.SUPPORTED
    assert "row" in codes(checked("4.0: Effective 2025-04-01.", text))
    assert checked("The reason of 4.0 is hourly measurement added.", text).verdict is not Verdict.SUPPORTED


def test_none_is_a_value_of_its_column() -> None:
    text = "| Measure | Green | Amber |\n|---|---|---|\n| Backlog over 5 days | none | 1 to 3 trades |\n"
    true = "For a backlog over 5 days, green is none and amber is 1 to 3 trades."
    assert checked(true, text).verdict is Verdict.SUPPORTED
    assert codes(checked("For a backlog over 5 days, green is 1 to 3 trades and amber is none.", text)) == {"column"}


def test_a_and_i_are_letters_behind_a_kind_in_a_cell_and_behind_is() -> None:
    text = "Annex B lists the limits of the desk. Class A counterparties must post margin weekly."
    assert checked("Class A counterparties must post margin weekly.", text).verdict is Verdict.SUPPORTED
    assert "opposite" in codes(checked("Annex A lists the limits of the desk.", text))
    duties = "| Duty | Sponsor | Product Office |\n|---|---|---|\n| Review after launch | R | A |\n"
    assert checked("For the review after launch, the Sponsor is R and the Product Office is A.", duties).findings == ()
    swapped = "For the review after launch, the Sponsor is A and the Product Office is R."
    assert codes(checked(swapped, duties)) == {"column"}


def test_a_topic_denies_what_its_heading_denies() -> None:
    text = "Staff must keep the files for 5 years."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, ("No early deletion",), 1, None, None, None)}
    assert check(f"On no early deletion: {text}", ["[1]"], evidence).verdict is Verdict.SUPPORTED
    assert codes(check(f"On an early deletion: {text}", ["[1]"], evidence)) == {"negation"}


def test_a_heading_inside_the_passage_denies_too() -> None:
    rule = "The desk must hold the funds until the next business day."
    text = f"## Payments without approval\n\n{rule}\n\n## Fees\n\nA fee is due on the last day of the month."
    assert checked(f"On payments: {rule}", text.replace(" without approval", "")).verdict is Verdict.SUPPORTED
    assert codes(checked(f"On payments with approval: {rule}", text)) == {"negation"}


def test_a_restriction_is_left_out_though_the_predicate_has_its_words() -> None:
    text = "A branch that is to send files of customers must keep the files of customers for a year."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert codes(checked("A branch must keep the files of customers for a year.", text)) == {"subject"}


def test_what_is_said_of_a_thing_with_an_approval_is_not_said_of_approvals() -> None:
    text = "A product with branch approval must be sold in a branch."
    assert codes(checked("Approvals must be sold in a branch.", text)) == {"subject"}


def test_a_modal_stays_with_its_part_though_both_have_one_verb() -> None:
    text = "While daily checks may be performed by dealers, checks of models should be performed by another desk."
    swapped = "While daily checks should be performed by dealers, checks of models may be performed by another desk."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert codes(checked(swapped, text)) == {"modal"}


def test_a_condition_within_a_sentence_without_a_modal_is_not_left_out() -> None:
    text = "Thus it is acceptable, if the seal of the branch is whole, for them to be used as proof of a delivery."
    short = "Thus it is acceptable for them to be used as proof of a delivery."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert checked(short, text).verdict is not Verdict.SUPPORTED


def test_it_stands_for_the_subject_of_the_sentence_before() -> None:
    text = "The guide describes the files of a branch. It lists the keepers of files. It must be read by each keeper."
    for true in ("The guide lists the keepers of files.", "It lists the keepers of files."):
        assert checked(true, text).verdict is Verdict.SUPPORTED
    assert checked("The branch lists the keepers of files.", text).verdict is not Verdict.SUPPORTED
    rule = "Visitors sign the register of the branch. They must wear a badge at all times."
    assert checked("Visitors must wear a badge at all times.", rule).verdict is Verdict.SUPPORTED
    assert codes(checked("The branch must wear a badge at all times.", rule)) == {"subject"}


def test_a_word_that_tells_some_things_from_others_is_not_left_out() -> None:
    text = "The desk must promptly send a list of new customers of the branch to the Board."
    assert checked(text.replace("promptly ", ""), text).verdict is Verdict.SUPPORTED
    assert codes(checked(text.replace("new ", ""), text)) == {"altered"}
    assert codes(
        checked(
            "Customers must bring a card to the branch on each visit.",
            "New customers must bring a card to the branch on each visit.",
        )
    ) == {"altered"}


def test_a_phrase_is_not_left_out_within_a_sentence() -> None:
    text = "The desk may lend small sums to staff in the front office for urgent needs on behalf of the branch."
    assert codes(checked(text.replace("in the front office ", ""), text)) == {"altered"}
    assert checked(text.replace("on behalf of", "for"), text).verdict is Verdict.SUPPORTED


def test_in_the_case_of_begins_a_condition() -> None:
    text = "In the case of a fire, the clerk may leave the counter with the keys."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert "condition" in codes(checked("The clerk may leave the counter with the keys.", text))


def test_an_exception_right_behind_a_modal_is_not_left_out() -> None:
    text = "The value of a parcel must, except as the branch has otherwise agreed, be set by the guard of the vault."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    short = "The value of a parcel must be set by the guard of the vault."
    assert checked(short, text).verdict is not Verdict.SUPPORTED
