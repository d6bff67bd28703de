"""Folding: what a text reads as, and where each character stands in the original."""

import pytest

from context_engine.core.text import fold


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Plain ASCII, 5 %", "plain ascii, 5 %"),
        ("Größe", "grosse"),
        ("ＩＧＮＯＲＥ", "ignore"),
        ("іgnоrе", "ignore"),  # Cyrillic і, о, е
        ("ΙGΝΟRΕ", "ignore"),  # Greek capitals
        ("ɪɢɴᴏʀᴇ", "ignore"),
        ("ⓘⓖⓝⓞⓡⓔ", "ignore"),
        ("𝐢𝐠𝐧𝐨𝐫𝐞", "ignore"),
        ("🅸🅶🅽🅾🆁🅴", "ignore"),
        ("i\u200bg\u00adn\u2060o\u202er\ufeffe", "ignore"),
        ("i\u0301g\u0338nore", "ignore"),
        ("a\u00a0b\u3000c\td", "a b c d"),
        ("a\r\nb\u2028c\x85d", "a\n\nb\nc\nd"),
        ("&lt;b&gt; &#105; &#x49; &amp;amp;lt;", "<b> i i <"),
        ("AT&T, 5 %, C:\\new, R&D;", "at&t, 5 %, c:\\new, r&d;"),
        ("%69%67 %2569 \\u0069\\x67\\u{6e}", "ig i ign"),
        ("%ff is no text", "%ff is no text"),
        ("«a» ‹b› 【c】 ｜", "<<a>> <b> [c] |"),
        ("", ""),
    ],
)
def test_a_text_reads_as_its_plain_letters(text: str, folded: str):
    assert fold(text).text == folded


@pytest.mark.parametrize("text", ["plain words", "a&#105;b", "x\u200byz", "ßa", "&amp;lt;b", "%69%67nore", "«q»"])
def test_every_character_has_its_place_in_the_original(text: str):
    folded = fold(text)
    spans = [folded.span(place, place + 1) for place in range(len(folded.text))]
    assert spans == sorted(spans)
    for (start, end), char in zip(spans, folded.text, strict=True):
        assert 0 <= start < end <= len(text)
        assert char in fold(text[start:end]).text


def test_the_place_of_a_word_is_its_escapes_from_the_first_to_the_last():
    text = "go &#105;g\u200bn%6Fre it"
    folded = fold(text)
    start = folded.text.index("ignore")
    begin, end = folded.span(start, start + 6)
    assert text[begin:end] == "&#105;g\u200bn%6Fre"
