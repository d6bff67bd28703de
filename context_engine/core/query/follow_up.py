"""Whether a question of a conversation has a subject of its own, by simple rules for four languages.

The rules are for a turn of a conversation ("And for retail clients?", "What about that?", "那零售客户呢？"). They are
made to miss rather than to suspect a complete question.
"""

from __future__ import annotations

import re
from typing import Final

_ENGLISH_JOINED: Final = re.compile(r"(?:and|but|so|or|then|also|ok|okay|well)\b,?\s+(?:also\s+|then\s+)?")
_ENGLISH_ABOUT: Final = re.compile(
    r"(?:(?:what|how)\s+)?(?:about|for|in|with|at|on|by|from|without|under|after|before|during)\b"
)
_ENGLISH_ALONE: Final = re.compile(
    r"(?:and\s+|but\s+|so\s+)?(?:why(?:\s+not|\s+so)?|how(?:\s+so|\s+come|\s+many|\s+much|\s+long)?|when|where|who|which(?:\s+ones?)?"
    r"|what\s+(?:else|then|if\s+not)|anything\s+else|who\s+else|then\s+what|more|more\s+details?(?:\s+please)?|go\s+on|continue"
    r"|(?:please\s+)?(?:tell\s+me\s+more|explain(?:\s+(?:that|it|this|more))?|elaborate)|(?:can|could)\s+you\s+(?:explain|elaborate)"
    r"(?:\s+(?:that|it|this|more|further))?|(?:an?\s+|for\s+|give\s+me\s+an\s+)?example|are\s+you\s+sure|really|is\s+that\s+all)"
)
_ENGLISH_SUBJECT: Final = re.compile(
    r"(?:(?:who|what|when|where|why|how(?: long| much| often| soon)?)\s+)?"
    r"(?:is|are|was|were|does|do|did|must|may|can|should|will|has|have)"
    r"\s+(?:it|they)\b(?!.*\bto\b)"
)
"""A question whose subject is a pronoun; "is it allowed to" and "does it take to" have none."""
_ENGLISH_POINTING: Final = frozenset({"it", "its", "that", "this", "they", "them", "their", "those", "these"})
_ENGLISH_ASKING: Final = frozenset(
    re.findall(
        r"\w+",
        "what which who whom whose when where why how does do did is are was were can could should must may might would"
        " will has have had",
    )
)
_ENGLISH_EMPTY: Final = _ENGLISH_ASKING | frozenset(
    re.findall(
        r"\w+",
        "be been a an the and or but so then to of for in on at by with from about if not no also there i we you me us"
        " any some mean means meant happen happens apply applies work works long often much many",
    )
)
_TOPIC_ENDS: Final = re.compile(r" [-–—] |: ")
_LONGEST: Final = 120
_MOST_JOINED: Final = 7
_MOST_POINTING: Final = 6
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")

_CHINESE: Final = re.compile(
    r"(?:那么?|还有|而|那如果)?.{0,10}呢|(?:那|然后|接着|还有|其他|别的)(?:呢|吗|么)?|(?:那|这|它们?|他们|这个|那个|这些|那些)"
    r"(?:是|怎么|为什么|为何|由谁|如何|需要|适用|有|要|又|呢|什么|多久|多少).{0,6}"
    r"|(?:为什么|为何|怎么办|谁|什么时候|多久|多少|哪里|举个例子|详细一点|详细说明|请?继续|还有吗|真的吗|确定吗)"
)
_JAPANESE: Final = re.compile(
    r"(?:では|じゃあ?|それで|それでは|それなら|あと|ちなみに)、?.{0,14}(?<!と)は|.{1,12}の場合は"
    r"|(?:それ|これ|あれ|そちら|こちら)(?:は|が|を|に|も|って|なら).{0,10}"
    r"|(?:なぜ|どうして|誰が|いつ|どこ|他に(?:は)?|例えば|具体的には|もっと詳しく|続けて|本当)(?:ですか|か|は|教えてください)?"
)
_PORTUGUESE: Final = re.compile(
    r"(?:e|mas|então)\s+(?:para|no|na|nos|nas|em|se|com|quanto|sobre|depois|antes|sem|por|quando|quem|como|os|as|o|a)\b"
    r"(?:\s+\S+){0,6}"
    r"|(?:por\s*qu[eê]|quem|quando|onde|como|quanto|e\s+então|e\s+depois|mais\s+detalhes|um\s+exemplo|continue|tem\s+certeza)"
    r"|(?:\S+\s+){0,3}(?:isso|isto|aquilo)(?:\s+\S+){0,2}"
)
_END: Final = " \t\n?？!！.。…,，、;；:：\"'“”「」"


def needs_subject(question: str) -> bool:
    """Return whether a question, asked in a conversation, cannot be understood without the turns before it.

    >>> [needs_subject(text) for text in ("And for retail clients?", "What about that?", "Who approves a new product?")]
    [True, True, False]
    """
    text = " ".join(question.split()).strip(_END)
    lowered = text.casefold()
    if not lowered or len(lowered) > _LONGEST:
        return False
    if any(rule.fullmatch(lowered) for rule in (_CHINESE, _JAPANESE, _PORTUGUESE, _ENGLISH_ALONE)):
        return True
    return not _names_topic(lowered) and _is_english_follow_up(_WORD.findall(text), lowered)


def _names_topic(lowered: str) -> bool:
    """Return whether a telling word stands before a dash or colon: "MFA - what is that?"."""
    topic, *rest = _TOPIC_ENDS.split(lowered)
    return bool(rest) and not _ENGLISH_EMPTY.union(_ENGLISH_POINTING).issuperset(_WORD.findall(topic))


def _is_english_follow_up(words: list[str], lowered: str) -> bool:
    """Return whether a short English question has nothing to look up.

    It has only a pronoun and at most one other telling word ("Is it mandatory?"), the same after "and" ("And who
    signs?"), or names a circumstance alone ("And for retail clients?"). After "and" a pronoun may be its subject: "And
    how long is it valid if it is sent by mail?". "IT" in capitals is a department.
    """
    joined = _ENGLISH_JOINED.match(lowered)
    rest = lowered[joined.end() :] if joined else lowered
    if "IT" in words:
        return False
    if joined and _ENGLISH_SUBJECT.match(rest):
        return True
    if len(words) > _MOST_JOINED:
        return False
    plain = [word.casefold() for word in words]
    telling = [word for word in plain if word not in _ENGLISH_POINTING and word not in _ENGLISH_EMPTY]
    circumstance = _ENGLISH_ABOUT.match(rest)
    if circumstance and (joined or circumstance[0].startswith(("what", "how"))):
        return not _ENGLISH_ASKING.intersection(_WORD.findall(rest[circumstance.end() :]))
    points = any(word in _ENGLISH_POINTING for word in plain) and len(words) <= _MOST_POINTING
    return len(telling) <= 1 and (points or (joined is not None and len(words) > 1))
