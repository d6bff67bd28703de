"""A17: entity records, field by field. One token is one word here."""

from context_engine.core.chunking.fields import field_pieces, record_text


def count(text):
    return len(text.split())


def test_a_record_reads_as_lines():
    record = {
        "risk_rating": "high",
        "issue_limit": 150000000,
        "live": True,
        "closed": False,
        "functions": ["Tax", "Operations"],
        "limits": {"amount": 5.5, "currency": "USD"},
        "legs": [{"desk": "Rates"}, {"desk": "FX"}],
        "note": "two\nlines",
        "unknown": None,
        "empty": "",
    }
    assert record_text("Harbour Note (NPA-001)", record) == (
        "Harbour Note (NPA-001)\n"
        "risk rating: high\n"
        "issue limit: 150000000\n"
        "live: yes\n"
        "closed: no\n"
        "functions: Tax, Operations\n"
        "limits amount: 5.5\n"
        "limits currency: USD\n"
        "legs 1 desk: Rates\n"
        "legs 2 desk: FX\n"
        "note: two lines"
    )


def test_zero_is_a_value():
    assert record_text("T", {"amount": 0}) == "T\namount: 0"


def test_a_record_that_fits_is_one_piece():
    text = "Harbour Note\nrisk: high\ndesk: Rates"
    (piece,) = field_pieces(text, 16, count)
    assert (piece.content, piece.span, piece.section, piece.position) == (text, (0, len(text)), None, 0)


def test_fields_are_grouped_up_to_the_limit_and_every_piece_opens_with_the_title():
    text = "Harbour Note\n" + "\n".join(f"field{number}: a b c" for number in range(6))  # 2 + 6 * 4
    pieces = field_pieces(text, 16, count)
    # 2 + 3 * 4 = 14 twice
    assert [count(piece.content) for piece in pieces] == [14, 14]
    assert pieces[1].content == "Harbour Note\nfield3: a b c\nfield4: a b c\nfield5: a b c"
    assert text[slice(*pieces[1].span)] == "field3: a b c\nfield4: a b c\nfield5: a b c"


def test_a_long_field_is_cut_and_its_name_repeated():
    text = "Harbour Note\nreason: " + " ".join(f"w{number}" for number in range(30)) + "\ndesk: Rates"
    pieces = field_pieces(text, 16, count)
    assert all(count(piece.content) <= 16 for piece in pieces)
    assert pieces[1].content.startswith("Harbour Note\nreason: w0")
    assert pieces[2].content.startswith("Harbour Note\nreason (continued): w")
    assert pieces[-1].content == "Harbour Note\ndesk: Rates"
    shown = " ".join(text[slice(*piece.span)] for piece in pieces)
    assert shown.split() == text.split()


def test_a_title_over_the_limit_is_cut_too():
    text = " ".join(f"t{number}" for number in range(40)) + "\ndesk: Rates"
    pieces = field_pieces(text, 16, count)
    assert all(count(piece.content) <= 16 for piece in pieces)
    assert pieces[-1].content == "t0 t1 t2 t3 t4 t5 t6 t7\ndesk: Rates"


def test_nothing_gives_nothing():
    assert field_pieces("", 16, count) == []
