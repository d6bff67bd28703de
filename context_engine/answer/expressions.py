"""The expressions that hold an answer: durations, amounts, dates, roles, rules, reasons ..."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

_SMALL: Final = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_WORDED: Final = rf"(?:{_SMALL}|fifteen|twenty|thirty|forty|fifty|sixty|ninety|hundred)"
_NUMBER: Final = rf"(?:\d+(?:[.,]\d+)*|{_WORDED})"
_UNIT: Final = r"(?:seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|quarters?|years?)"
_PERIOD: Final = r"(?:second|minute|hour|day|week|fortnight|month|quarter|year)"
_SPAN: Final = (
    r"(?<!\bevery )(?<!\beach )(?<!\bper )"
    rf"\b(?:{_NUMBER}(?:\s*(?:-|–|to|or|and)\s*{_NUMBER})?(?:\s*\([\w ]{{1,12}}\))?|an?|half an?)"
    rf"[\s-]*(?:(?:full|business|working|calendar|consecutive|further)\s+)*{_UNIT}\b"
)
_AT_ONCE: Final = (
    r"\b(?:immediately|at once|same[\s-]day|next (?:business |working )?day|without (?:undue )?delay"
    r"|in real[\s-]time)\b"
)
_FOREVER: Final = r"\b(?:indefinitely|permanently|for as long as|until)\b"
_OFTEN: Final = (
    rf"\b(?:daily|weekly|fortnightly|monthly|quarterly|annual(?:ly)?|yearly|hourly|continuous(?:ly)?|biannual(?:ly)?"
    rf"|semi-annual(?:ly)?|(?:each|every|per)\s+(?:{_NUMBER}\s+)?(?:business |working |calendar )?{_PERIOD}s?"
    rf"|(?:once|twice|{_NUMBER} times)\s+(?:an?|per|each|every|in)\s|(?:on an?|at)\s+\w+\s+(?:basis|intervals?))\b"
)
_VAGUELY_OFTEN: Final = r"\b(?:regular(?:ly)?|periodic(?:ally)?|frequently|from time to time|as needed|ongoing)\b"
_CURRENCY: Final = r"(?:[$€£¥]|\b(?:USD|EUR|GBP|JPY|CHF|SGD|AUD|CAD|CNY|HKD|ALD|dollars?|euros?|pounds?)\b)"
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DAY: Final = (
    rf"\b(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:\s+\d{{4}})?|{_MONTH}\s+\d{{1,2}}(?:,?\s+\d{{4}})?"
    rf"|{_MONTH}\s+\d{{4}}|(?:19|20)\d{{2}}|(?:end|beginning|start|close) of (?:the |each )?\w+|\d{{1,2}}:\d{{2}})\b"
)
_OCCASION: Final = (
    r"\b(?:upon|after|before|prior to|following|at the time|as soon as|once|when|whenever|if|during|in the event"
    r"|on (?:the )?(?:initial|first))\b"
)
_POST: Final = (
    r"officers?|managers?|leads?|leaders?|heads?|chiefs?|directors?|executives?|presidents?|chair(?:man|person|woman)?"
    r"|owners?|supervisors?|administrators?|auditors?|engineers?|developers?|analysts?|approvers?|reviewers?|delegates?"
    r"|designees?|representatives?|responders?|investigators?|secretary|treasurer|trustees?|traders?|desk"
    r"|ceo|coo|cfo|cto|ciso|cro|cio|dpo|csp|rp|hr|(?-i:IT)"
)
_BODY: Final = (
    r"teams?|committees?|boards?|departments?|functions?|units?|groups?|divisions?|offices?|authorit(?:y|ies)|regulators?"
    r"|agenc(?:y|ies)|companies|company|firms?|banks?|organi[sz]ations?|ministry|council|court|police|part(?:y|ies)"
    r"|provider|security|devops|legal(?! (?:entit|person|risk|basis|hold|advice|opinion|requirement))|finance"
    r"|compliance|operations|management|leadership|procurement|resources"
)
_PARTY: Final = (
    r"members?|personnel|staff|employees?|workforce|users?|customers?|clients?|vendors?|suppliers?|contractors?"
    r"|visitors?|subscribers?|verifiers?|claimants?|applicants?|requesters?|requestors?|individuals?|persons?|people"
    r"|guards?|by (?:the|an?) \w+"
)
_MODAL: Final = (
    r"\b(?:must|shall|should|may|can|cannot|could|will|would|required?|requires|mandatory|optional|prohibit\w*|forbidden"
    r"|allow(?:ed|s)?|permit\w*|permissible|restricted|banned|not|no|never|none|only|needs? to|(?:is|are) to|n/r"
    r"|exempt\w*|subject to|obliged|entitled|eligible)\b"
)
_REASON: Final = (
    r"\b(?:because|since|so that|so as to|in order to|due to|therefore|ensures?|thereby|reasons?|rationale|purpose"
    r"|intent|to (?:ensure|prevent|avoid|protect|reduce|help|enable|allow|limit|minimi[sz]e|confirm|mitigate|support)"
    r"|(?:this|it|which) (?:is|allows?|enables?|helps?|provides?|means|reduces?|prevents?|protects?|increases?|can)"
    r"|as (?:it|they|this|these|it’s|it's))\b"
)
_STEP: Final = (
    r"\b(?:submit\w*|request\w*|creat\w+|open\w*|contact\w*|report\w*|notif\w+|complet\w+|send\w*|fill\w*|log\w*|verif\w+"
    r"|initiat\w+|approv\w+|follow\w*|us(?:e|ing)|via|through|by|must|should|ensure|first|then)\b"
)
_PLACE: Final = (
    r"\b(?:in|at|on|from|to|under|within|inside|outside|via|through|into)\b.{1,60}?\b(?:site|facilit\w+|folder|office|room|"
    r"cabinet|vault|store|storage|system|portal|page|wiki|repositor\w+|location|region|building|account|home|server|"
    r"environment|database|registry|register|cent(?:er|re)|address|desk|drawer|library|share|bucket|archive)s?\b"
)
_MEANS: Final = (
    r"\b(?:(?:is|are)(?! (?:not|never|no longer|subject to)\b)|means?|refers? to|refer to|stands? for|defined as"
    r"|includes?|indicates?|describes?)\b|[–—:-]"
)

_CODE: Final = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:[-/.][A-Za-z0-9]+){0,5}[-/]\d[\w./-]*")


class Expression(StrEnum):
    """A kind of expression."""

    DURATION = "duration"
    FREQUENCY = "frequency"
    AMOUNT = "amount"
    NUMBER = "number"
    DATE = "date"
    OCCASION = "occasion"
    ROLE = "role"
    PARTY = "party"
    RULE = "rule"
    REASON = "reason"
    STEP = "step"
    PLACE = "place"
    MEANS = "means"


_FORMS: Final[Mapping[Expression, re.Pattern[str]]] = {
    kind: re.compile(form, re.IGNORECASE)
    for kind, form in {
        Expression.DURATION: rf"{_SPAN}|{_AT_ONCE}|{_FOREVER}",
        Expression.FREQUENCY: rf"{_OFTEN}|\bevery\b|{_VAGUELY_OFTEN}",
        Expression.AMOUNT: rf"{_CURRENCY}\s*\d|\d\s*{_CURRENCY}|\d\s*(?:%|per ?cent|bps?\b|million|billion|m\b|bn\b)",
        Expression.NUMBER: rf"\b{_NUMBER}\b|(?<![\w.])\.\d|\b(?:once|twice|none)\b",
        Expression.DATE: _DAY,
        Expression.OCCASION: _OCCASION,
        Expression.ROLE: rf"\b(?:{_POST}|{_BODY})\b",
        Expression.PARTY: rf"\b(?:{_PARTY})\b",
        Expression.RULE: _MODAL,
        Expression.REASON: _REASON,
        Expression.STEP: _STEP,
        Expression.PLACE: _PLACE,
        Expression.MEANS: _MEANS,
    }.items()
}


def _without_codes(text: str) -> str:
    """Return a text of the same length without codes ("SOP-2025-01"), whose digits are no numbers."""
    return _CODE.sub(lambda code: " " * len(code[0]), text)


def places_of(kind: Expression, text: str) -> list[tuple[int, int]]:
    """Return where a text has expressions of a kind, as character spans in order.

    >>> places_of(Expression.DURATION, "Keep it for 7 years.")
    [(12, 19)]
    """
    return [match.span() for match in _FORMS[kind].finditer(_without_codes(text))]


def has(kind: Expression, text: str) -> bool:
    """Return whether a text has an expression of a kind.

    >>> has(Expression.FREQUENCY, "reviewed at least once per year"), has(Expression.AMOUNT, "in 7 days")
    (True, False)
    """
    return _FORMS[kind].search(_without_codes(text)) is not None
