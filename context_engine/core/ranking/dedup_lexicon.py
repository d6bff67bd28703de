"""Words whose change changes what a rule says: the lists behind the guard of near-duplicate merging."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from context_engine.core.text import has_cjk
from context_engine.core.text.stem import stems

_NUMBERS: Final = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million
    millions billion billions trillion mn bn mio half double twice triple third thirds quarter quarters first second
    fourth fifth sixth seventh eighth ninth tenth once dozen single
"""
_UNITS: Final = """
    % ‰ percent percentage percentages pct bp bps basis point points day days week weeks month months year years hour
    hours minute minutes seconds daily weekly monthly quarterly annual annually yearly intraday overnight calendar
    working kg tonne tonnes barrel barrels ounce ounces share shares lot lots
"""
_DATES: Final = """
    january february march april june july august september october november december jan feb mar apr jun jul aug sep
    sept oct nov dec monday tuesday wednesday thursday friday saturday sunday today tomorrow yesterday
"""
_CURRENCIES: Final = """
    $ € £ ¥ usd eur gbp jpy chf cny cnh rmb hkd sgd aud nzd inr krw twd thb myr idr php vnd sek nok dkk pln czk huf
    brl mxn zar aed sar qar ils dollar dollars euro euros sterling pound pounds yen yuan renminbi franc francs rupee
    rupees cent cents
"""
_REFERENCES: Final = "ii iii iv vi vii viii ix xi xii xiii xiv xv"
_NEGATIONS: Final = """
    not no never without cannot neither nor non none nobody nothing nowhere hardly barely except unless until only
"""
_MODALS: Final = "must shall should may might can could will would ought need needs"
_SIDES: Final = """
    before after prior previously subsequently earlier later preceding following minimum maximum min max least most
    above below over under exceeding more less fewer greater smaller higher lower high low larger largest smallest
    highest lowest longer shorter longest shortest all any some always sometimes or up down out off from against
    within outside inside beyond bought sold long short internal external domestic foreign onshore offshore gross net
    inbound outbound incoming outgoing upper senior junior open solely wholly partly fixed floating retail wholesale
    positive negative active inactive early late yes true false last old new former latter both either
"""
_ACTS: Final = """
    approve approval reject rejection accept acceptance refuse refusal increase decrease include exclude inclusive
    exclusive inclusion exclusion buy sell purchase sale debit credit permit permission prohibit prohibition allow
    forbid ban require requirement optional mandatory voluntary compulsory recommend grant deny denial pay receive
    lend borrow pass fail start begin end close suspend resume enable disable exempt exemption waive waiver raise
    reduce rise fall gain loss profit asset liability comply breach succeed
    precede confirm cancel add remove import export
"""
_CJK: Final = frozenset(
    "不未无無非勿禁否没沒别別莫须須必应應可得能准许許一二三四五六七八九十百千万萬亿億零〇两兩半几年月日天周週时時"
    "分秒季元圆圓美欧歐英港币幣前后後上下内內外高低多少增减減加大小超买買卖賣借贷貸收付批拒允或仅僅只除最至以"
)
_QUANTITIES: Final = frozenset(f"{_NUMBERS} {_UNITS} {_DATES} {_CURRENCIES}".split())
_WORDS: Final = _QUANTITIES | frozenset(f"{_REFERENCES} {_NEGATIONS} {_MODALS} {_SIDES}".split())
_ACT_STEMS: Final = frozenset(stems(_ACTS.split()))

NEGATING_PREFIXES: Final = ("un", "in", "im", "ir", "il", "dis", "non", "mis", "de")
"""What turns a word into its contrary: authorised, unauthorised."""


@lru_cache(maxsize=65_536)
def meaning(token: str) -> str | None:
    """Return what the guard compares for a token, or None for an ordinary word.

    Forms of one act are one meaning: `approved` and `approval` are both `approv`.

    Args:
        token: a token as `text.tokens` gives it.

    >>> meaning("4.2.1(b)"), meaning("shall"), meaning("rejected"), meaning("committee")
    ('4.2.1(b)', 'shall', 'reject', None)
    """
    if token in _WORDS or not token.isalpha():
        return token
    if len(token) == 1:
        ordinary = token in "ais" or (has_cjk(token) and token not in _CJK)
        return None if ordinary else token
    stem = stems([token])[0]
    return stem if stem in _ACT_STEMS else None


@lru_cache(maxsize=65_536)
def carries(token: str) -> bool:
    """Return whether a token is what the guard compares as it is: near-duplicates have the same of these.

    >>> carries("must"), carries("rejected"), carries("reject"), carries("committee")
    (True, False, True, False)
    """
    return meaning(token) == token


def is_quantity(token: str) -> bool:
    """Return whether a token is a number, a unit, a date or a currency: a number before it is a value, not a label."""
    return token in _QUANTITIES or token[:1].isdigit()
