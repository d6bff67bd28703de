"""The language of a short text, from its script and its function words."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

UNKNOWN: Final = "und"

_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA: Final = re.compile(r"[\u3041-\u30ff]")
_HANGUL: Final = re.compile(r"[\uac00-\ud7af\u1100-\u11ff]")
_LATIN_WORD: Final = re.compile(r"[a-z\u00df-\u024f\u1e00-\u1eff]{2,}(?:'[a-z]+)?|\b[aeioy]\b")
_SCRIPTS: Final = {
    "ru": re.compile(r"[\u0400-\u04ff]+"),
    "el": re.compile(r"[\u0370-\u03ff]+"),
    "he": re.compile(r"[\u0590-\u05ff]+"),
    "ar": re.compile(r"[\u0600-\u06ff]+"),
    "hi": re.compile(r"[\u0900-\u097f]+"),
    "ta": re.compile(r"[\u0b80-\u0bff]+"),
    "th": re.compile(r"[\u0e00-\u0e7f]+"),
}
"""Scripts, each under the language that most of its texts are in."""

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
    """Return the ISO 639-1 code of the language a text is most likely in, "und" where it has no words.

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
    kana, han = len(_KANA.findall(text)), len(_HAN.findall(text))
    counts = {name: float(len(script.findall(text))) for name, script in _SCRIPTS.items()}
    return {
        "latin": float(len(_LATIN_WORD.findall(text))),
        "ja" if kana else "zh": (kana + han) / 2,
        "ko": len(_HANGUL.findall(text)) / 2,
        **counts,
    }


def _latin(text: str) -> str:
    words = _LATIN_WORD.findall(text)
    hits = Counter(name for word in words for name in _LANGUAGES_OF.get(word, ()))
    best, count = hits.most_common(1)[0] if hits else ("en", 0)
    return (best if count > hits["en"] else "en") if words else UNKNOWN
