"""Notices: codes that are documented and stable, a published form that JSON can hold."""

import json
import pickle
import re
from datetime import date

import pytest

from context_engine.core.models import Notice, NoticeCode, about, distinct, messages


@pytest.mark.parametrize("code", list(NoticeCode))
def test_every_code_has_a_meaning_and_names_its_details(code):
    assert code == code.name.lower() and re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
    assert code.__doc__ is not None and re.fullmatch(r"[A-Z].*[^.]\.", code.__doc__)
    assert len(set(code.fields)) == len(code.fields)
    assert NoticeCode(str(code)) is code


def test_the_published_form_can_be_written_as_json():
    notice = Notice(NoticeCode.SOURCE_NOTE, "kb", "old", {"age_s": float("nan"), "day": date(2026, 3, 2)})
    assert json.loads(json.dumps(notice.to_dict(), allow_nan=False)) == {
        "code": "source_note",
        "subject": "kb",
        "message": notice.message,
        "detail": {"age_s": None, "day": "2026-03-02"},
    }


def test_a_notice_can_be_pickled():
    notice = Notice(NoticeCode.KEYWORDS_ONLY, "", "few words")
    assert pickle.loads(pickle.dumps(notice)) == notice


def test_distinct_keeps_the_order_and_tells_details_apart():
    first, second = (Notice(NoticeCode.CHUNKS_REFUSED, "kb", "some", {"count": count}) for count in (1, 2))
    assert distinct([second, first, second]) == (second, first)


def test_a_notice_keeps_the_subject_that_it_has():
    named, unnamed = (Notice(NoticeCode.SOURCE_NOTE, subject, "x") for subject in ("part", ""))
    assert [notice.subject for notice in about("kb", [named, unnamed])] == ["part", "kb"]


@pytest.mark.wording
def test_messages_are_the_sentences_in_order():
    assert messages(Notice(NoticeCode.SOURCE_NOTE, "", text) for text in ("b", "a")) == ("b", "a")


def test_reworded_says_the_code_alone(request):
    message = Notice(NoticeCode.SOURCE_NOTE, "", "a sentence").message
    assert message == ("source_note" if request.config.getoption("reworded") else "a sentence")
