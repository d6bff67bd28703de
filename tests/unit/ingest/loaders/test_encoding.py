"""Encodings: told by marks and form, else guessed and said."""

import sys

import pytest

ENGLISH = "The counterparty’s limit is €5 million – see the Group’s policy on “large exposures”. "
CHINESE = "银行应当在二十四小时内向监管机构报告重大风险事件，并保存相关记录至少五年。"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_is_read_without_a_warning(one, encoding):
    loaded = one((ENGLISH * 3).encode(encoding), "a.txt")
    assert loaded.text == ENGLISH * 3
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        (ENGLISH, "cp1252", "cp1252"),
        ("Les établissements déclarent chaque dépassement dès qu’il est constaté. ", "cp1252", "cp1252"),
        ("Die Überschreitung ist der Geschäftsführung unverzüglich zu melden. ", "cp1252", "cp1252"),
        (CHINESE, "gb18030", "gb18030"),
        ("銀行應當在二十四小時內向監管機構報告重大風險事件，並保存相關記錄。", "big5", "big5"),
        ("銀行は二十四時間以内に監督当局へ重大な事象を報告しなければならない。", "shift_jis", "cp932"),
        ("Банк обязан сообщить о нарушении лимита в течение двадцати четырёх часов. ", "cp1251", "cp1251"),
    ],
)
@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.wording
def test_other_encodings_are_guessed_and_said(one, text, encoding, named, times):
    loaded = one((text * times).encode(encoding), "a.txt")
    assert loaded.text == text * times
    assert loaded.warnings == (f"is not UTF-8 (line 1): read as {named}, which is a guess",)


def test_a_guess_needs_some_text(refused):
    assert refused(b"caf\xe9", "a.txt") == "is not UTF-8, and its encoding is not known: save it as UTF-8"


def test_western_text_needs_no_library_other_text_names_the_extra(one, read, monkeypatch):
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    assert one(ENGLISH.encode("cp1252"), "a.txt").text == ENGLISH
    (skipped,) = read(CHINESE.encode("gb18030"), "b.txt")
    assert skipped.reason.startswith("is not UTF-8: save it as UTF-8. ")
    assert "pip install 'dify-context-engine[documents]'" in skipped.reason


@pytest.mark.wording
def test_a_stray_byte_far_into_a_large_file_is_found_before_anything_is_read(read):
    long = b"Harbour," + b"1" * 2_000 + b"\n"
    found = read(b"name,x\n" + long * 1_000 + b"Caf\xe9 Noir,2\n", "a.csv")
    assert found[0].warnings == ("is not UTF-8 (line 1002): read as cp1252, which is a guess",)
    assert found[-1].fields["name"] == "Café Noir"
    assert len(found) == 1_001


def test_nul_bytes_are_no_text(refused):
    assert (
        refused(b"words\nmore\x00words\n", "a.txt")
        == "holds NUL bytes, so it is not text: if it is one, save it as UTF-8"
    )


@pytest.mark.parametrize("label", ["iso-8859-1", "ISO8859-1", "latin1", "us-ascii", "windows-1252"])
def test_a_page_labelled_latin_1_is_windows_1252(one, label):
    page = f'<meta charset="{label}"><p>Gebühr: 5 € – „fest“</p>'
    assert one(page.encode("cp1252"), "a.html").text == "Gebühr: 5 € – „fest“"


@pytest.mark.wording
@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Kód;Název\nA-1;Řízení tržního rizika\n", "cp1250"),
        ("Kod;Nazwa\nA-1;Łączna ekspozycja, próg główny\n", "cp1250"),
    ],
)
def test_a_short_text_that_may_be_central_european_names_the_other_reading(read, text, encoding):
    first, *_ = read(text.encode(encoding), "a.csv")
    (guess,) = (notice for notice in first.notices if notice.code == "encoding_guessed")
    assert "in cp1250 it would read" in guess.message or "read as cp1250" in guess.message
