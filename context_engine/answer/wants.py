"""What a question asks for (a duration, an amount, a role, a rule ...), of what, and the expressions that answer it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from context_engine.answer.bands import Quantity, quantities
from context_engine.answer.defining import AskedTerm, asked_term
from context_engine.answer.quantities import SPELLED
from context_engine.core.text import stems, term_weights, terms

_UNIT: Final = r"(?:seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|quarters?|years?)"
_WORDED: Final = rf"(?!one (?:or more|of|another)\b)(?:{SPELLED})(?!-(?!{_UNIT})[a-z])"
"""A number in words, not "one or more", "one-way" or "two-factor", which count nothing."""
_NUMBER: Final = rf"(?:\d+(?:[.,]\d+)*|{_WORDED})"
_PERIOD: Final = r"(?:second|minute|hour|day|week|fortnight|month|quarter|year)"
_SPAN: Final = (
    r"(?<!\bevery )(?<!\beach )(?<!\bper )"
    r"(?!an? second (?!of|or|and|to|after|before)[a-z]|an? quarter of )"
    rf"\b(?:{_NUMBER}(?:\s*(?:-|–|to|or|and)\s*(?:{_NUMBER}|(?:an? )?half))?(?:\s*\([\w ]{{1,12}}\))?|an?|half an?)"
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
_POST: Final = (
    r"officers?|managers?|leads?|leaders?|heads?|chiefs?|directors?|executives?|presidents?|chair(?:man|person|woman)?"
    r"|owners?|supervisors?|administrators?|auditors?|engineers?|developers?|analysts?|approvers?|reviewers?|delegates?"
    r"|designees?|representatives?|responders?|investigators?|secretary|treasurer|trustees?|traders?|desk"
    r"|ceo|coo|cfo|cto|ciso|cro|cio|dpo|csp|rp|hr|(?-i:IT)"
)
_BODY: Final = (
    r"teams?|committees?|boards?|departments?|functions?|units?|groups?|divisions?|offices?|authorit(?:y|ies)|regulators?"
    r"|agenc(?:y|ies)|companies|company|firms?|banks?|organi[sz]ations?|ministry|council|court|police|part(?:y|ies)"
    r"|commissions?|bureau|help ?desk|service desk|provider|security|devops"
    r"|legal(?! (?:entit|person|risk|basis|hold|advice|opinion|requirement))|finance"
    r"|compliance|operations|management|leadership|procurement|resources"
)
_PARTY: Final = (
    r"members?|personnel|staff|employees?|workforce|users?|customers?|clients?|vendors?|suppliers?|contractors?"
    r"|visitors?|subscribers?|verifiers?|claimants?|applicants?|requesters?|requestors?|individuals?|persons?|people"
    r"|clerks?|tellers?|cashiers?|brokers?|dealers?|accountants?|lawyers?|counsel|attorneys?|notar(?:y|ies)|judges?"
    r"|operators?|technicians?|specialists?|experts?|consultants?|advis[eo]rs?|architects?|designers?|testers?|authors?"
    r"|coordinators?|custodians?|stewards?|sponsors?|deput(?:y|ies)|assistants?|parents?|guardians?|maintainers?"
    r"|recipients?|holders?|researchers?|assessors?|inspectors?|trainers?|idps?|support|guards?|associates?|entit(?:y|ies)|processors?|controllers?|affiliates?|counterpart(?:y|ies)|issuers?|insurers?"
    r"|by (?:the|an?) \w+|(?:the|an?|each|every) [\w-]+(?= (?:is|are) (?:responsible|accountable)\b)"
)

_CODE: Final = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:[-/.][A-Za-z0-9]+){0,5}[-/]\d[\w./-]*")


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


class Expression(Enum):
    """A kind of expression, with the pattern that finds it."""

    DURATION = _form(rf"{_SPAN}|{_AT_ONCE}|{_FOREVER}")
    LASTING = _form(rf"{_SPAN}|{_FOREVER}")
    AGE = _form(rf"\bage[ds]?(?: of| in years)?:?\s+{_NUMBER}\b|\b{_NUMBER}[ -]years?[ -]old\b")
    FREQUENCY = _form(
        rf"{_OFTEN}|\bevery\b|{_VAGUELY_OFTEN}|\b(?:frequency|cycle|cadence|intervals?)\b[^.;|]{{0,20}}?{_SPAN}"
    )
    INTERVAL = _form(rf"\b(?:every|each|per) {_NUMBER} {_UNIT}\b")
    AMOUNT = _form(rf"{_CURRENCY}\s*\d|\d\s*{_CURRENCY}|\d\s*(?:%|per ?cent|bps?\b|million|billion|m\b|bn\b)")
    NUMBER = _form(rf"\b{_NUMBER}\b|(?<![\w.])\.\d|\b(?:once|twice|none)\b")
    COUNT = _form(
        rf"(?<![\w.-])(?:{_NUMBER}|\.\d+)\b(?!-\d|[\s-]*(?:(?:full|business|working|calendar) )*{_UNIT}\b)"
        r"|\b(?:once|twice|none)\b(?! (?:an?|per|each|every)\b)"
    )
    LENGTH = _form(
        rf"\b{_NUMBER}\s+(?:characters?|chars?|digits?|letters?|symbols?|bits?|bytes?|words?|lines?|pages?|mm|cm|m|km|metres?"
        rf"|meters?|inch(?:es)?|feet)\b|\b(?:length|size|long)\b[^.;|]{{0,30}}?\b{_NUMBER}\b"
    )
    DATE = _form(
        rf"\b(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:\s+\d{{4}})?|{_MONTH}\s+\d{{1,2}}(?:,?\s+\d{{4}})?"
        rf"|{_MONTH}\s+\d{{4}}|(?:19|20)\d{{2}}|(?:end|beginning|start|close) of (?:the |each )?\w+"
        r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|\d{1,2}:\d{2})\b"
    )
    OCCASION = _form(
        r"\b(?:upon|after|before|prior to|following|at (?:the )?time|any ?time|as soon as|once|when|whenever|if|during"
        r"|in the event|on (?:the )?(?:initial|first)|unless|provided that|in (?:the )?cases?"
        r"|where (?:an?|the|any|no|it|they))\b"
    )
    CONDITION = _form(
        r"\b(?:if|when|whenever|where|unless|until|only|provided|except|subject to|as long as"
        r"|in (?:the )?(?:case|event)|after|upon"
        r"|with (?:the )?(?:\w+ ){0,3}(?:approval|consent|permission|authori[sz]ation))\b"
    )
    ROLE = _form(rf"\b(?:{_POST}|{_BODY})\b(?!-\w)")
    PARTY = _form(rf"\b(?:{_PARTY})\b(?!-\w)")
    RULE = _form(
        r"\b(?:must|shall|should|may|can|cannot|could|will|would|required?|requires|mandatory|optional|prohibit\w*|forbidden"
        r"|allow(?:ed|s)?|permit\w*|permissible|restricted|banned|not|no|never|none|only|needs? to|(?:is|are) to|n/r"
        r"|exempt\w*|subject to|obliged|entitled|eligible)\b"
    )
    REASON = _form(
        r"\b(?:because|since|so that|so as to|in order to|due to|therefore|ensures?|thereby|reasons?|rationale|purpose"
        r"|intent|to (?:ensure|prevent|avoid|protect|reduce|help|enable|allow|limit|minimi[sz]e|confirm|mitigate)"
        r"|to support"
        r"|(?:this|it|which) (?:is|allows?|enables?|helps?|provides?|means|reduces?|prevents?|protects?|increases?|can)"
        r"|as (?:it|they|this|these|it’s|it's))\b"
    )
    STEP = _form(
        r"\b(?:submit\w*|request\w*|creat\w+|open\w*|contact\w*|report\w*|notif\w+|complet\w+|send\w*|fill\w*|log\w*|verif\w+"
        r"|initiat\w+|approv\w+|follow\w*|us(?:e|ing)|via|through|by|must|should|ensure|first|then)\b"
    )
    PLACE = _form(
        r"\b(?:in|at|on|from|to|under|within|inside|outside|via|through|into)\b.{1,60}?\b(?:site|facilit\w+|folder|office|room|"
        r"cabinet|vault|store|storage|system|portal|page|wiki|repositor\w+|location|region|building|account|home|server|"
        r"environment|database|registry|register|cent(?:er|re)|address|desk|drawer|library|share|bucket|archive)s?\b"
    )


def _without_codes(text: str) -> str:
    """Return a text of the same length without codes ("SOP-2025-01"), whose digits are no numbers."""
    return _CODE.sub(lambda code: " " * len(code[0]), text)


def places_of(kind: Expression, text: str) -> list[tuple[int, int]]:
    """Return where a text has expressions of a kind, as character spans in order.

    >>> places_of(Expression.DURATION, "Keep it for 7 years.")
    [(12, 19)]
    """
    return [match.span() for match in kind.value.finditer(_without_codes(text))]


def has(kind: Expression, text: str) -> bool:
    """Return whether a text has an expression of a kind.

    >>> has(Expression.FREQUENCY, "reviewed at least once per year"), has(Expression.AMOUNT, "in 7 days")
    (True, False)
    """
    return kind.value.search(_without_codes(text)) is not None


_E = Expression
_TIME: Final = r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|time|notice|inactivity)"
_PERIODS: Final = (
    r"(?:(?:retention|notice|grace|waiting|cooling[- ]off|testing|holding|validity) )?"
    r"(?:period|duration|deadline|time-?out|time limit|response time|recovery time|cut[- ]off|interval|lifetime|sla|rto"
    r"|rpo|term)"
)
_SUMS: Final = (
    r"(?:amount|fee|cost|price|limit|threshold|haircut|rate|percentage|budget|salary|fine|penalty|premium|charge"
    r"|tolerance|cap|notional|size|value|maximum|minimum|loss|appetite)"
)
_MONEY: Final = r"(?:fee|cost|price|budget|salary|fine|penalty|premium|charge|pay|reward|bonus)"
_POSTS: Final = (
    r"(?:team|person|people|role|department|committee|body|officer|function|unit|group|manager|authority|executive|desk"
    r"|(?:\w+ )?approvers?|owner|regulator|supervisor|company|firm)"
)
_SITES: Final = r"(?:building|folder|system|country|location|place|room|office|city|region|site|database|register)"
_AUXILIARY: Final = (
    r"(?:may|must|can|could|should|shall|will|would|do|does|did|is|are|was|were|has|have|am|need|cannot|can't|isn't"
    r"|aren't|don't)"
)
_YES_OR_NO: Final = rf"^\W*(?:so )?{_AUXILIARY}\b(?: (?:it|i|we|you|one|there))?\b"
_ANYONE: Final = r"(?:i|we|you|one|someone|somebody|people|employees|staff|users?)"


class Want(NamedTuple):
    """A kind of question.

    Attributes:
        name: as `Extraction.wants` names it.
        asked: what is looked for, in words for people.
        form: recognises the question; its match is cut out of the words that are looked for.
        holds: expressions of which an answer has one, the most telling first.
        strict: whether a statement without such an expression is no answer.
    """

    name: str
    asked: str
    form: re.Pattern[str]
    holds: tuple[Expression, ...]
    strict: bool


def _want(name: str, asked: str, form: str, *holds: Expression, strict: bool = True) -> Want:
    return Want(name, asked, re.compile(form, re.IGNORECASE), holds, strict)


_DEFINITION: Final = _want("definition", "a definition", r"^\W*what(?:'s| is| are)\b", strict=False)
_KINDS: Final = (
    _want("duration", "how often",
        r"\bhow (?:often|frequently|regularly|many times an? \w+)\b|\b(?:at what intervals?|frequency)\b",
        _E.FREQUENCY),
    _want("number", "a number",
        rf"\bhow (?:(?=long )|(?:short|large|big|high|deep|wide) )(?=(?:long )?{_AUXILIARY}\b.*\bbe\W*$)",
        _E.LENGTH, _E.NUMBER),
    _want("duration", "an age", r"\bhow old\b|\b(?:at|from|until) (?:what|which) age\b", _E.AGE, _E.DURATION),
    _want("duration", "a duration", r"\bhow long\b", _E.LASTING, _E.INTERVAL),
    _want("duration", "a duration",
        rf"\bhow (?:many|much) (?:(?=notice\b|inactivity\b)|(?:(?!per )\w+ )?{_TIME}\b)", _E.LASTING),
    _want("duration", "a duration",
        r"\bhow (?:soon|fast|quickly|promptly|recent)\b|\bhow far in advance\b"
        r"|\b(?:by|until|since|till) when\b"
        rf"|\b(?:within|after|for|in|before|over|during) (?:how (?:many|much)|what|which) (?:{_TIME}|period)\b",
        _E.DURATION),
    _want("duration", "a duration",
        r"\b(?:what|which)(?:'s| is| are) the (?:longest|shortest)\b", _E.DURATION, _E.LENGTH),
    _want("duration", "a duration",
        rf"\b(?:what|which)\b(?:'s| is| are)?(?=.*\b{_PERIODS}s?\b)", _E.DURATION, _E.FREQUENCY),
    _want("number", "a number", r"\bhow many\b|\bwhat (?:is |are )?(?:the )?(?:\w+ )?number of\b"
        r"|\bwhat is the (?=(?:phone|telephone|fax|account) number)", _E.COUNT),
    _want("amount", "an amount",
        rf"\b(?:how much|what)\b(?:'s| is| are)?(?=.*\b{_MONEY}s?\b)", _E.AMOUNT, _E.COUNT),
    _want("amount", "an amount",
        rf"\bhow (?:much|large|big|high)\b|\bwhat\b(?:'s| is| are)?(?=.*\b{_SUMS}s?\b)"
        r"|\bwhat(?:'s| is) the (?:most|fewest|least)\b|\bwhat (?:share|proportion|fraction)\b", _E.AMOUNT, _E.NUMBER),
    _want("condition", "a condition",
        r"\b(?:(?:under|on|in|upon) )(?:what|which) (?:conditions?|circumstances?|cases?|situations?|terms|events?)\b",
        _E.CONDITION),
    _want("rule", "a rule", _YES_OR_NO + r"(?=.*\bwho(?:m|se)?\b)(?!.*\b(?:know|tell|say|ask|see|check)\b.* who)",
        _E.RULE, strict=False),
    _want("role", "a role or a body",
        r"\b(?:(?P<before>to|by|from|with|for) )?(?:whose (?:job|task|duty|responsibility) is it to|who|whom|whose)\b"
        rf"(?:'s)?|\b(?:which|what) {_POSTS}\b",
        _E.ROLE, _E.PARTY),
    _want("date", "a date",
        r"\b(?:on |from |since )?(?:what|which) (?:date|day|weekday|year|month)\b(?: of (?:the|each|a) \w+)?", _E.DATE),
    _want("date", "a date", r"^\W*when (?:was|were|did)\b", _E.DATE),
    _want("date", "a time or an occasion",
        r"^\W*when\b(?!.*\bcounts? as\b)|\bat what (?:time|point|stage)\b",
        _E.DATE, _E.DURATION, _E.FREQUENCY, _E.OCCASION),
    _want("reason", "a reason",
        r"\bwhy\b|\bhow come\b|\bfor what reasons?\b|\bwhat(?:'s| is) the (?:reason|purpose|rationale)(?: for| of)?\b",
        _E.REASON, strict=False),
    _want("steps", "steps", rf"\bhow (?:do|can|should|would|must|could|does|to|shall) {_ANYONE}?\b"
        r"|\bwhat (?:(?:may|might|can|could|will|would) )?happens?\b"
        rf"|\bwhat (?:should|must|do|does|shall|can) (?=.{{1,40}}? do\b)"
        r"|\bwhat (?:are the steps|is the (?:process|procedure))\b(?: for| to)?", _E.STEP, strict=False),
    _want("rule", "a rule", _YES_OR_NO, _E.RULE, strict=False),
    _want("place", "a place", rf"\bwhere\b(?: (?:can|may|do|could|should) {_ANYONE} find\b)?"
        rf"|\b(?:in|at|on) (?:which|what) {_SITES}\b", _E.PLACE, strict=False),
    _want("list", "a list",
        r"\b(?:which|what)\b(?=.*\b(?:include|contain|consist of|comprise|show|cover|reflect)\b)", strict=False),
    _DEFINITION,
    _want("list", "a list", r"\b(?:which|list|name)\b|\bwhat (?:are|kinds?|types?|sorts?)\b", strict=False),
    _want("fact", "a statement", r"^\W*(?:what|which|how)\b(?:'s| is| are| does| do)?", strict=False),
    _want("duration", "a duration", rf"^(?=.*\b{_PERIODS}s?\b)", _E.DURATION, _E.FREQUENCY),
    _want("amount", "an amount", rf"^(?=.*\b{_SUMS}s?\b)", _E.AMOUNT, _E.NUMBER),
)  # fmt: skip
"""The kinds of questions; the first that recognises a question names it. The last two are for bare keywords."""

_FACT: Final = _want("fact", "a statement", r"(?!)", strict=False)
_ASKS: Final = re.compile(
    r"\b(?:allowed|permitted|permissible|ok|okay|have to|has to|had to|ever|there|mean|stands? for|as a minimum"
    r"|at least|at most|whether|neither|nor|either|must|may|needs?|needed|no|not|unless|except|if|one|away|sure|really"
    r"|still|on file|be|being|someone|somebody|anyone|anybody|nobody|please|per"
    r"|(?:my|your|him|her|it)self|(?:our|them)selves|together)\b"
    r"|是?多少[天日年月次]?|是?什么|吗|如何|怎么|是否|哪些|谁",
    re.IGNORECASE,
)
_AT_LEAST: Final = r"at (?:the (?:very )?)?least|(?:at|as) (?:an? )?(?:absolute )?minimum"
_AT_MOST: Final = r"at (?:the (?:very )?)?most|(?:at|as) (?:an? )?(?:absolute )?maximum"
FRAMED: Final = re.compile(rf" ?\b(?:{_AT_LEAST}|{_AT_MOST})\b", re.IGNORECASE)
"""The words of a question that say which bound it asks for; a text need not repeat them."""
_LEADS_IN: Final = re.compile(
    r"^\W*(?:(?:on|about|regarding|concerning|as (?:to|for|regards)|with (?:regard|respect) to|under|for|in|at|if|when"
    r"|where|during|before|after|once|unless)(?! (?:what|which|whom?|how)\b)\b)[^?:]{2,100}?[,:] "
    rf"(?=(?:(?:to|by|from|with|for|at|on|in|within|after|before|until|under) )?(?:wh\w+|how|{_AUXILIARY})\b)",
    re.IGNORECASE,
)
"""What stands before the question itself: "On secrets: how long must they be?", "If a card is lost, who is told?"."""
_TOPIC: Final = re.compile(
    rf"^[^?]{{2,100}}?(?:(?: [-–—]|:) (?=(?:wh\w+|how|{_AUXILIARY})\b)|, (?=(?:who|whom|how|what)\b))", re.IGNORECASE
)
"""A topic before the question itself: "session cookies - may scripts read them?", "I lost a key, who is told?"."""
_SENTENCE_END: Final = re.compile(r"(?<=\w[.!?]) +(?=[A-Z])")
_ASKED_BOUNDS: Final = {
    "least": re.compile(rf"\b(?:{_AT_LEAST}|minimum|minimal|shortest|smallest|lowest|fewest)\b", re.IGNORECASE),
    "most": re.compile(rf"\b(?:{_AT_MOST}|maximum|maximal|longest|largest|highest|latest)\b", re.IGNORECASE),
}
_DUTY: Final = re.compile(r"\b(?:must|shall|required?|requires|needs?|ha(?:s|ve) to|mandatory)\b", re.IGNORECASE)
_DENIED: Final = re.compile(r"\b(?:not|no longer|never|without|cannot|exempt(?:ed)?)\b|n't\b", re.IGNORECASE)
_MOST_READ: Final = 1_000  # characters of a sentence; what follows counts as little as a story before it
_WHATS: Final = re.compile(r"\bwhats\b", re.IGNORECASE)
_HYPHENED: Final = re.compile(r"(?<=\d)-(?=[a-z])")  # "5-year" is a number with its unit, no code
_COUNTED: Final = re.compile(
    r"\bhow many ((?:[\w-]+ ){0,2}?[\w-]+?)"
    r"(?= (?:of|must|may|can|do|does|did|are|is|has|have|lock|will|should|sit)\b|\W*$)"
)
_GENERAL: Final = """
    employee employees staff people person user users company firm bank organisation organization business work
    thing things case cases kind type types way use used using make made get gets got take takes taken give given
    put go goes come become happen happens want new old good system systems information process procedure rule rules
    requirement require minimum maximum number amount value time date day days own our usual usually normal general
    certain first last look looks like carry carries carried place say says said tell told ask asked call called let
    know long set act stay valid prepared due count counts do done doing perform performed last lasts include
    contain consist comprise show along afterwards again already content contents enough hit hits push
"""
_LIGHT: Final = frozenset(stems(_GENERAL.split()))
LIGHT: Final = 0.35
"""Weight of a word that many sentences of a policy could hold; a word that names something weighs 1."""


class AskedQuestion(NamedTuple):
    """A question as it is looked for.

    Attributes:
        text: on one line.
        weights: its search terms and their weights, (0, 1].
        act: the first of these terms in the question; of a question with "who", what somebody does.
        counted: terms of what is counted ("how many approvals"); an answer has its number beside one of them.
        quantities: numbers with units; a row of a table for another band is no answer.
        before: of a question with "to whom", its preposition.
        bound: "least" or "most" where it asks for one; else empty.
        is_price: whether it asks what something costs.
        is_duty, is_denied: whether it says "must", and "not".
        term: what a question for a definition wants explained.
    """

    text: str
    want: Want
    weights: Mapping[str, float]
    act: str
    counted: frozenset[str]
    quantities: tuple[Quantity, ...]
    before: str = ""
    bound: str = ""
    is_price: bool = False
    is_duty: bool = False
    is_denied: bool = False
    term: AskedTerm = AskedTerm()


def _question_last(text: str) -> list[str]:
    """Split a text into sentences and put the last question at the end; return [text] if there is no question."""
    sentences = _SENTENCE_END.split(text)
    asks = [place for place, sentence in enumerate(sentences) if sentence.endswith("?")]
    return [*sentences[: asks[-1]], *sentences[asks[-1] + 1 :], sentences[asks[-1]]] if asks else [text]


def _want_of(plain: str, core: str) -> tuple[Want, AskedTerm | None]:
    """Return what an English question, whole and without what leads into it, asks for, and of a definition the term."""
    term = asked_term(plain, explicit=True) or asked_term(core, explicit=True)
    if term:
        return _DEFINITION, term
    term = asked_term(core, explicit=False)
    want = next((kind for kind in _KINDS if kind.form.search(core) and (term or kind is not _DEFINITION)), _FACT)
    return want, term if want is _DEFINITION else None


def read_question(text: str, language: str = "en") -> AskedQuestion:
    """Return what a question asks for.

    Args:
        language: ISO 639-1; the kind of a question is recognised in English alone, others ask for a "fact".

    >>> read_question("How long are call recordings kept?").want.name
    'duration'
    """
    whole = _HYPHENED.sub(" ", " ".join(_WHATS.sub("what's", text.replace("’", "'")).split()))
    *story, sentence = _question_last(whole)
    story, plain = [*story, sentence[_MOST_READ:]], sentence[:_MOST_READ]
    leads_in = _LEADS_IN.match(plain) or _TOPIC.match(plain)
    start = leads_in.end() if leads_in else 0
    core = FRAMED.sub("", plain[start:])
    want, term = _want_of(plain, core) if language == "en" else (_FACT, None)
    match = want.form.search(core)
    lead, rest = (_ASKS.sub(" ", part) for part in (plain[:start], want.form.sub(" ", core, count=1)))
    if term:
        story, lead, rest = [*story, lead, term.context], "", term.text
    weights = term_weights(f"{lead} {rest}") or term_weights(plain)
    beside = {word: LIGHT * weight for word, weight in term_weights(" ".join(story)).items()}
    counted = _COUNTED.search(core.casefold()) if want.name == "number" else None
    return AskedQuestion(
        whole,
        want,
        beside | {term: weight * LIGHT if term in _LIGHT else weight for term, weight in weights.items()},
        next(iter(terms(rest) or terms(lead)), ""),
        frozenset(terms(counted[1])) if counted else frozenset(),
        quantities(whole),
        before=(match["before"] or "").lower() if match and want.name == "role" else "",
        bound=next((name for name, form in _ASKED_BOUNDS.items() if form.search(plain)), ""),
        is_price=want.holds == (Expression.AMOUNT, Expression.COUNT),
        is_duty=_DUTY.search(core) is not None,
        is_denied=_DENIED.search(plain) is not None and want.name != "rule",
        term=term or AskedTerm(),
    )
