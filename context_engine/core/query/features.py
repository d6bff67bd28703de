"""What a question or a text refers to: language, codes, section references, quotations, clauses, documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from context_engine.core.models import Chunk, CitedClause
from context_engine.core.text import STOP_WORDS, terms, tokens

UNKNOWN: Final = "und"
_HAN: Final = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"  # compiled when used: the range makes it slow
_KANA: Final = r"[\u3041-\u30ff]"
_HANGUL: Final = r"[\uac00-\ud7af\u1100-\u11ff]"
_LATIN_WORD: Final = re.compile(r"[a-z\u00df-\u024f\u1e00-\u1eff]{2,}(?:'[a-z]+)?|\b[aeioy]\b")
_SCRIPTS: Final = {
    "ru": r"[\u0400-\u04ff]+",
    "el": r"[\u0370-\u03ff]+",
    "he": r"[\u0590-\u05ff]+",
    "ar": r"[\u0600-\u06ff]+",
    "hi": r"[\u0900-\u097f]+",
    "ta": r"[\u0b80-\u0bff]+",
    "th": r"[\u0e00-\u0e7f]+",
}
"""Scripts, each under the language that most of its texts are in."""
_ITEMS: Final = re.compile(r"(?:\(\w{1,4}\))+$")
_CLAUSE: Final = r"(?:sections?|clauses?|paragraphs?|part|§)\s*([A-Z]?\d[\w.]*(?:\(\w{1,4}\))*)"
_CLAUSE_OF: Final = rf"{_CLAUSE}\s+(?:of|in)\s+(?:the\s+)?$"
_AFTER: Final = rf"^,?\s+{_CLAUSE}"
_PART: Final = re.compile(r"\w+")
_FUNCTION_WORDS: Final = {
    "en": "the of and to in is are what which how who when where does do for with on by must should can a an be",
    "de": "der die das und ist sind ein eine für mit von zu wie was welche wer wann nicht den dem des im auf bei",
    "fr": "le la les des et est sont une pour avec dans que quels quelles quel quelle comment qui du aux sur à",
    "es": "el la los las y es son una para con qué cuáles cuál cómo quién del por en cuando un se al",
    "it": "il lo gli e è sono una per con quali quale come chi della del che nel di alla dei delle",
    "pt": "o os as e é são uma para com quais qual como quem do da no na que em dos das ao",
    "nl": "de het een en is zijn voor met van wat welke hoe wie wanneer niet bij op aan",
    "id": "yang dan di untuk dengan apa bagaimana adalah dari siapa kapan tidak pada ini itu ke dalam",
    "vi": "là và của các cho với những gì như thế nào khi không được trong có một",
}
_LANGUAGES_OF: Final[dict[str, list[str]]] = {}


for _language, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_language)


def language(text: str) -> str:
    """Return the ISO 639-1 code of a text's most likely language; "und" if the text has no words.

    Chinese, Japanese and Korean characters are counted two to a word against the words of other scripts, so that
    "NPA 的审批标准" is Chinese and "What does 审批 mean?" English. Latin words without a function word are
    English.

    >>> [language(text) for text in ("approval criteria", "审批标准是什么", "承認の基準", "승인 기준", "4.2.1")]
    ['en', 'zh', 'ja', 'ko', 'und']
    """
    lowered = text.casefold()
    if lowered.isascii():
        return _latin(lowered)
    counts = _by_script(lowered)
    best = max(counts, key=lambda name: counts[name])
    return best if best != "latin" and counts[best] else _latin(lowered)


def _by_script(text: str) -> dict[str, float]:
    kana, han = len(re.findall(_KANA, text)), len(re.findall(_HAN, text))
    counts = {name: float(len(re.findall(script, text))) for name, script in _SCRIPTS.items()}
    return {
        "latin": float(len(_LATIN_WORD.findall(text))),
        "ja" if kana else "zh": (kana + han) / 2,
        "ko": len(re.findall(_HANGUL, text)) / 2,
        **counts,
    }


def _latin(text: str) -> str:
    words = _LATIN_WORD.findall(text)
    hits = Counter(name for word in words for name in _LANGUAGES_OF.get(word, ()))
    best, count = hits.most_common(1)[0] if hits else ("en", 0)
    return (best if count > hits["en"] else "en") if words else UNKNOWN


_IDENTIFIER: Final = re.compile(r"(?<![\w.-])(?=[\w./-]*\d)([A-Za-z]{2,12}(?:[-/][A-Za-z0-9]+)+)(?![\w-])")
_INSTRUMENT: Final = re.compile(
    r"(?<![A-Z0-9&])((?:[A-Z][\w&]*\s+){0,3})"
    r"((?:notices?|circulars?|guidelines?|directives?|regulations?|bulletins?|forms?|policy|policies|standards?)"
    r"\s+(?:no\.?\s*)?((?:[A-Z]{1,6}[-/ ]?)?)\d[\w./-]*+(?:\(\w{1,4}\))*+)"
    r"(?!\s?%|\s(?:(?:business|working|calendar)\s)?(?:hours?|minutes?|days?|weeks?|months?|years?|percent|bps)\b)",
    re.IGNORECASE,
)
"""A kind and a number: not a length of time or a share ("a notice of 30 days", "a standard 5 % buffer")."""
_TIME: Final = re.compile(
    r"(?:pre|post|mid|early|late|non|fy|cy|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*)"
    r"[-/](?:(?:19|20)\d\d(?:[-/]\d{2,4}|s)?|\d\d)",
    re.IGNORECASE,
)
_KINDS: Final = ("notice", "circular", "guideline", "guidelines", "directive", "regulation", "bulletin", "standard")
_ISSUED: Final = re.compile(
    r"(?<![\w./-])([A-Z]{2,6}(?:/[A-Z]{2,6})?)\s(\d+(?:[-/]\d+)*)((?:\(\w{1,4}\))*)(?![\w/-]|[.,]\d|\s?%"
    r"|\s(?:thousand|million|billion|mn|bn|[mk]|hours?|hrs?|minutes?|days?|weeks?|months?|quarters?|years?|bps?|basis"
    r"|per|percent|business|working|calendar|times|x)\b)"
)
"""An issuer's letters and a number, `BCBS 239`: not an amount, a share or a time."""
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_NO_ISSUER: Final = """
    aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn bzd cad cdf chf clp
    cnh cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gnf gtq gyd hkd hnl htg huf
    idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw kwd kyd kzt lak lbp lkr lrd lsl lyd mad mdl mga mkd mmk
    mnt mop mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar
    sbd scr sdg sek sgd shp sle sos srd ssp stn svc syp szl thb tjs tmt tnd top try ttd twd tzs uah ugx usd uyu uzs ves
    vnd vuv wst xaf xag xau xcd xdr xof xpd xpf xpt yer zar zmw zwg rmb
    jan feb mar apr may jun june jul july aug sep sept oct nov dec
    fy cy hy ye ytd mtd gmt utc max min not no page pages item items table step level tier option line row figure
    pd lgd ead ltv lcr nsfr var cva rwa npl roe kri kpi aum fx rto rpo sla
"""
_NO_ISSUERS: Final = STOP_WORDS | frozenset(_NO_ISSUER.split())
"""Currencies (ISO 4217), months, measures and other capitals before a number that is no name."""
_FEWEST_SHOUTED: Final = 5
_SECTION_WORD: Final = (
    r"(?:§+|\b(?:sections?|clauses?|rules?|articles?|paragraphs?|paras?|chapters?|parts?|annex(?:es)?|"
    r"appendix|appendices|schedules?|subsections?)\b\.?)"
)
_SECTION: Final = re.compile(_SECTION_WORD, re.IGNORECASE)
_BRACKETS: Final = r"(?:\(\w{1,4}\))"
_SPACED: Final = r"(?:\s\((?:[A-Za-z]|[IVXivx]{2,5}|\d{1,2})\))"
_NUMBER: Final = rf"[A-Za-z]?\d+[A-Za-z]?(?:\.\d+[A-Za-z]?)*(?:{_BRACKETS}|{_SPACED})*"
_LISTED: Final = re.compile(
    rf"{_SECTION_WORD}\s*({_NUMBER}(?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|to)\s+){_NUMBER})*)", re.IGNORECASE
)
_BARE: Final = re.compile(
    rf"(?<![\w.])[A-Za-z]?\d+[A-Za-z]?(?:(?:\.\d+[A-Za-z]?){{2,}}{_BRACKETS}*|(?:\.\d+)*{_BRACKETS}+)"
)
_QUOTED: Final = re.compile(r'"([^"]{1,300})"')


def codes(text: str) -> tuple[str, ...]:
    """Return the identifiers and numbered instruments of a cleaned text, as written, each once.

    Lower-case letters with a number are an identifier only with three digits or more ("npa-001", not "covid-19").
    Capitals with a number need two digits or more, and must not be a currency, month, year, share or length of time.
    Times are not names: "post-2008", "notice of 30 days".

    >>> codes("Does MAS Notice 637 apply to NPA-001 within 12-month terms?")
    ('MAS Notice 637', 'NPA-001')
    >>> codes("BCBS 239 and SR 11-7 for exposures above USD 500 since FY 2024")
    ('BCBS 239', 'SR 11-7')
    """
    if not any(map(str.isdigit, text)):
        return ()
    places = [(match.start(2), _named(match)) for match in _INSTRUMENT.finditer(text) if _is_instrument(match)]
    places += [(match.start(), match[0]) for match in _IDENTIFIER.finditer(text) if _is_identifier(match[0])]
    if not (text.isupper() and len(text.split()) >= _FEWEST_SHOUTED):  # all in capitals, any word would be an issuer
        places += [(match.start(), match[0]) for match in _ISSUED.finditer(text) if _is_issued(match)]
    named = dict.fromkeys(name for _, name in sorted(places))
    return tuple(name for name in named if not any(name != other and name in other for other in named))


def _is_instrument(match: re.Match[str]) -> bool:
    """Return whether the letters separated from the number are capitals and not a word; "policy after 2020" is no
    name.
    """
    letters = match[3].rstrip(" ")
    return letters == match[3] or (letters.isupper() and letters.casefold() not in STOP_WORDS)


def _is_identifier(word: str) -> bool:
    if _TIME.fullmatch(word):
        return False
    digits = sum(map(str.isdigit, word))
    return any(map(str.isupper, word)) and word[:2].isupper() if digits < 3 else True


def _is_issued(match: re.Match[str]) -> bool:
    """Whether letters and number are a name."""
    issuer, number = match[1], match[2]
    is_word = not _NO_ISSUERS.isdisjoint(issuer.casefold().split("/")) or _SECTION.fullmatch(issuer) is not None
    return not (is_word or len(number) < 2 or _YEAR.fullmatch(number))


def spellings(code: str) -> tuple[str, ...]:
    """Return a code and its other spellings: an issuer's number also with a hyphen or the kind of instrument.

    >>> spellings("MAS 637")[:3]
    ('MAS 637', 'MAS-637', 'MAS notice 637')
    """
    match = _ISSUED.fullmatch(code)
    if match is None:
        return (code,)
    issuer, number = match[1], match[2] + match[3]
    return (code, f"{issuer}-{number}", *(f"{issuer} {kind} {number}" for kind in _KINDS))


def _named(match: re.Match[str]) -> str:
    """An instrument with the capitalised words before it, without a question's first word."""
    before = match[1].split()
    kept: list[str] = []
    for word in reversed(before):
        if word.casefold() in STOP_WORDS or not word[0].isupper():
            break
        kept.insert(0, word)
    return " ".join([*kept, match[2].strip().rstrip(".,;/-")])


def references(text: str) -> tuple[str, ...]:
    """Return the section numbers of a cleaned text, each once: `4.2.1`, `4.2.1(b)`, `3.5` after "section" or "rule".

    After a word such as "section" or a sign, a space may separate the number from an item: `7.2 (c)`.

    >>> references("section 4.2.1(b) of the NPA SOP, Rules 3.5 and 8.4.1, § 7.2 (c), a limit of 5.5 %")
    ('4.2.1(b)', '3.5', '8.4.1', '7.2 (c)')
    """
    if not any(map(str.isdigit, text)):
        return ()
    names: dict[int, str] = {match.start(): match[0] for match in _BARE.finditer(text)}
    for listed in _LISTED.finditer(text):
        for number in re.finditer(_NUMBER, listed[1]):
            if "." in number[0] or "(" in number[0]:
                names[listed.start(1) + number.start()] = number[0]
    return tuple(dict.fromkeys(name for _, name in sorted(names.items())))


def names_sections_only(text: str, numbers: Sequence[str]) -> bool:
    """Return whether a text is nothing but section numbers and words such as "section": "Rules 3.5 and 8.4.1"."""
    return bool(numbers) and not words_beside(text, numbers)


def words_beside(text: str, names: Sequence[str]) -> int:
    """Return the number of search terms beside these names; words such as "section" do not count.

    >>> words_beside("what does section 4 of MAS Notice 637 apply to?", ["MAS Notice 637"])
    2
    """
    rest = text
    for name in sorted(names, key=len, reverse=True):
        rest = rest.replace(name, " ")
    return len(terms(_SECTION.sub(" ", rest)))


def phrases(text: str) -> tuple[str, ...]:
    """Return the distinct phrases of two words or more in double quotes in a cleaned text.

    A single quoted word is searched like any other.

    >>> phrases('what is a "material change" to a "product"?')
    ('material change',)
    """
    inside = (match[1].strip() for match in _QUOTED.finditer(text))
    return tuple(dict.fromkeys(phrase for phrase in inside if len(tokens(phrase)) > 1))


def citations(text: str) -> tuple[CitedClause, ...]:
    """Return the documents that a text names, each with the clause beside its name, then clauses of its own document.

    >>> citations("Rule 4.2 applies. In every other case section 5.1 of ORM-SOP-001 applies.")
    (CitedClause(document='ORM-SOP-001', clause='5.1'), CitedClause(document='', clause='4.2'))
    """
    names = codes(text)
    others = [_citation(text, name) for name in names]
    elsewhere = {clause for _, clause in others}
    own = [
        CitedClause("", number)
        for number in references(text)
        if number not in elsewhere and not any(number in name for name in names)
    ]
    return tuple(dict.fromkeys((*others, *own)))


def _citation(text: str, name: str) -> CitedClause:
    document = _ITEMS.sub("", name)
    return CitedClause(document, name.removeprefix(document) or _clause(text, name))


def _clause(text: str, name: str) -> str:
    before, _, after = text.partition(name)
    beside = re.search(_CLAUSE_OF, before, re.IGNORECASE) or re.search(_AFTER, after, re.IGNORECASE)
    return beside[1] if beside else ""


def belongs_to(chunk: Chunk, document: str) -> bool:
    """Return whether a chunk belongs to a document that is cited by its id, or by a name in its title."""
    if (chunk.document_id or "").casefold() == document.casefold():
        return True
    title = f" {' '.join(tokens(chunk.title or ''))} "
    return any(f" {' '.join(tokens(name))} " in title for name in spellings(document))


def cited_sections(sections: Sequence[str | None], clause: str) -> list[int]:
    """Return the indices of the sections that a clause number means.

    These are the sections with the number; else those below it; else the nearest one above it, which it is an item of.
    Points, brackets and spaces only separate: `8.3.3.(3)` and `8.3.3 (3)` are one number.

    Args:
        sections: the numbers of a document's chunks, in order.

    >>> cited_sections(["4", "4.1", "4.2.(1)", "4.2.(2)"], "4.2")
    [2, 3]
    >>> cited_sections(["4", "4.1", "4.2.(1)", "4.2.(2)"], "4.1(b)")
    [1]
    """
    wanted = _parts(clause)
    known = [_parts(section or "") for section in sections]
    below = [index for index, parts in enumerate(known) if wanted and parts[: len(wanted)] == wanted]
    exact = [index for index in below if known[index] == wanted]
    if exact or below:
        return exact or below
    above = max((len(parts) for parts in known if parts and wanted[: len(parts)] == parts), default=0)
    return [index for index, parts in enumerate(known) if above and parts == wanted[:above]]


def _parts(number: str) -> tuple[str, ...]:
    return tuple(_PART.findall(number.casefold()))
