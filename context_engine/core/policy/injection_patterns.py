"""Signs of an injection: phrases in any spelling, and text that hides."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from context_engine.core.concurrency.forking import cached_property
from context_engine.core.text import fold

_compiled = cache(re.compile)


class PromptMark(NamedTuple):
    """One pattern; if it has a group, its match distinguishes marks of the same name.

    Attributes:
        kind: of the finding.
        weight: 2 is enough by itself, 1 with another mark or phrase near it.
        needs: a string that a text must contain for the pattern to be tried.
    """

    name: str
    kind: str
    weight: int
    needs: str
    pattern: str

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches in a text. The pattern is compiled only when a text contains `needs`, because few texts
        do.
        """
        return _compiled(self.pattern).finditer(text) if self.needs in text else iter(())


def _words(words: str) -> str:
    return "|".join(re.escape(fold(word).text) for word in words.split("|"))


_TOKENS: Final = (
    "im_start|im_end|im_sep|system|user|assistant|endoftext|end_of_text|begin_of_text|eot_id|eom_id|start_header_id"
    "|end_header_id|python_tag|fim_prefix|fim_suffix|fim_middle|endofprompt|channel|message|return|call|start|end"
)

_SURE_TOKENS: Final = "im_start|im_end|im_sep|endoftext|end_of_text|begin_of_text|eot_id|start_header_id|end_header_id"

_SYSTEM: Final = _words(
    "system|système|sistema|systeem|система|النظام|系统|系統|システム|시스템|sistem|hệ thống|ระบบ|सिस्टम"
)

_ASSISTANT: Final = _words(
    "assistant|assistent|asistente|assistente|ассистент|助手|アシスタント|어시스턴트|asisten|trợ lý"
)

_TYPES: Final = "system[ _]of[ _]record|bank[ _]sop|industry[ _]standard|external[ _]official|general[ _]web"
_LINE: Final = r"(?m:^)[ >*_#\[(-]{0,12}"
_ABOUT: Final = "context|prompt|untrusted|retrieved|quoted|system|instructions?|user input|user message|search results"
_RULE: Final = r"[-=#*<>\[\]~+|_]"
_TURN_OF: Final = "(?:end|begin|start)(?: of)?(?: the)?"
_ROLE_WORDS: Final = r"(?:prompt|override|instructions?)\b[\w ]{0,20}"

_COMMANDS: Final = _words(
    "you must|you are|you will|you shall|you should|you have to|your task|your job|now tell|tell the user|from now"
    "|always answer|always respond|always recommend|always say|ignore|disregard|forget|respond|answer|reply"
    "|du bist|du musst|du sollst|du wirst|ab sofort|ignoriere|antworte|tu dois|tu es|vous devez|vous êtes|réponds"
    "|ahora eres|debes|eres|tienes que|responde|ora sei|devi|sei ora|rispondi|você deve|agora você|responda"
    "|je bent|je moet|jesteś|musisz|ты|вы должны|artık|anda mesti|anda harus|kamu|awak|bạn là|bạn phải"
)

_UNBOUNDED_COMMANDS: Final = _words("أنت|你|您|请|あなた|당신|너는|คุณ|तुम|आप")
SECOND_PERSON: Final = re.compile(rf"\b(?:{_COMMANDS})\b|{_UNBOUNDED_COMMANDS}")
"""Words by which a line after the name of a role addresses a model."""

MARKS: Final = (
    # Tokens of chat templates, whole and cut
    PromptMark(
        "token", "chat_template", 2, "|", rf"<\s{{0,3}}\|\s{{0,3}}/?(?:{_TOKENS})\b[^<>|\n]{{0,40}}(?:\|\s{{0,3}}>|>)"
    ),
    PromptMark("token_cut", "chat_template", 2, "|", rf"<\s{{0,3}}\|\s{{0,3}}/?(?:{_SURE_TOKENS})\b"),
    PromptMark("token_end", "chat_template", 2, "|", rf"\b(?:{_SURE_TOKENS})\s{{0,3}}\|\s{{0,3}}>"),
    PromptMark("token_other", "chat_template", 2, "|", r"<\|[^\s<>|][^<>|\n]{0,40}\|>"),
    PromptMark("turn", "chat_template", 2, "<", r"</?(?:start_of_turn|end_of_turn|bos|eos)>?|<turn\|>|<\|turn>"),
    PromptMark("inst", "chat_template", 2, "[", r"\[\s{0,3}/?\s{0,3}inst(?:\s{0,3}\]| )"),
    PromptMark("sys", "chat_template", 2, "<<", r"<<\s{0,3}/?\s{0,3}sys\b(?:\s{0,3}>>)?"),
    PromptMark(
        "bracketed", "chat_template", 2, "[", r"\[/?(?:system_prompt|available_tools|tool_calls?|tool_results?)\]"
    ),
    PromptMark(
        "heading",
        "chat_template",
        1,
        "##",
        rf"{_LINE}##{{1,5}}\s{{0,3}}(system|assistant|human|response|instruction|input)\s{{0,3}}:",
    ),
    PromptMark(
        "json_role",
        "chat_template",
        2,
        "role",
        r"[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|assistant|developer|tool)[\"']\s{0,3},\s{0,3}[\"']content",
    ),
    PromptMark(
        "call",
        "chat_template",
        2,
        "<",
        r"</?(?:\w{1,10}:)?(?:tool_calls?|function_calls?|function_results?|tool_response|invoke name=)[^<>\n]{0,60}>",
    ),
    PromptMark("think", "chat_template", 1, "think", r"</?think(?:ing)?>"),
    PromptMark("template", "chat_template", 2, "{{#", r"\{\{#\s{0,3}[\w.\-]{1,80}\s{0,3}#\}\}"),
    # Lines that speak as the system or the model; what only fills in a field ("System: core banking") weighs 1
    PromptMark("prompt_line", "role_line", 1, ":", rf"{_LINE}(?:{_SYSTEM}|human)[\])*_ ]{{0,6}}:"),
    PromptMark("assistant_line", "role_line", 1, ":", rf"{_LINE}(?:{_ASSISTANT})[\])*_ ]{{0,6}}:"),
    PromptMark("role_link", "role_line", 2, "](#", rf"{_LINE}(?:system|assistant|human|user)\]\(#\w{{1,40}}\)"),
    PromptMark("role_word", "role_line", 2, ":", rf"{_LINE}(?:system|developer|admin|assistant)[ _-]{_ROLE_WORDS}:"),
    PromptMark(
        "role_message",
        "role_line",
        1,
        ":",
        rf"{_LINE}(?:system|developer|admin|operator) (?:message|note|notice)\s{{0,3}}:",
    ),
    # Our own fence, and lines that pretend to end what is quoted
    PromptMark("fence_open", "fence", 2, "<<<", r"<{3}\s{0,3}/?\s{0,3}(?:(?:end|begin)\b|(?:un)?trus)"),
    PromptMark("fence_close", "fence", 2, ">>>", r"\b(?:[0-9a-f]{8,64}|untrusted|trusted)\s{0,3}>{3}"),
    PromptMark(
        "divider",
        "fence",
        2,
        " ",
        rf"(?<!{_RULE}){_RULE}{{2,}}+\s{{0,3}}{_TURN_OF} (?:{_ABOUT})\b[^\n]{{0,40}}?{_RULE}{{2}}",
    ),
    PromptMark("divider_box", "fence", 2, "[", rf"\[\s{{0,3}}/?{_TURN_OF} (?:{_ABOUT})\b[^\n\]]{{0,40}}\]"),
    # Our labels, origins and the head of a context
    PromptMark("label", "citation", 2, "source", r"\[\d{1,3}\]\s{0,3}[\[(]source\s{0,3}:"),
    PromptMark(
        "source", "citation", 2, "[source", r"\[source\s{0,3}:[^\]\n]{1,200}, (?:section|pages?) [^\]\n]{1,160}\]"
    ),
    PromptMark("origin", "citation", 2, "tier ", rf"\btier [1-5]\s{{0,3}},\s{{0,3}}(?:{_TYPES})\b"),
    PromptMark("head", "citation", 2, "cite by label", r"\bcite by label, such as"),
    # Our provenance tag
    PromptMark(
        "tag_name", "provenance", 2, "_", r"(?<![a-z0-9])_(?:provenance|rag_score|authority_boost|relevance_score)\b"
    ),
    PromptMark("tier", "provenance", 1, "authority_tier", r"\bauthority_tier\b[\"']?\s{0,3}[:=]\s{0,3}[\"']?[1-5]"),
    PromptMark("trust", "provenance", 1, "trust_class", r"\btrust_class\b[\"']?\s{0,3}[:=]?\s{0,3}[\"']?trusted"),
    PromptMark(
        "type", "provenance", 1, "source_type", rf"\bsource_type\b[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?:{_TYPES})\b"
    ),
    # Tags that prompts put around what they quote
    PromptMark("sure_tag", "tag", 2, "<", r"</?(?:system[_-]?(?:prompt|reminder|message)|untrusted)\s{0,3}>"),
    PromptMark(
        "wrapper",
        "tag",
        1,
        "<",
        r"</?(instructions?|system|assistant|retrieved[_-]\w{1,20}|search[_-]results?|user[_-](?:query|input|message))\s{0,3}>",
    ),
    PromptMark("context_tag", "tag", 1, "</context", r"</context\s{0,3}>"),
)

_FIRST_UNBOUNDED: Final = "\u0900"
"""From this character on, words are not separated by blanks, or do not end where a pattern sees a word end."""

_LEAST_COMPACT: Final = 4
_STEM: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")
_END: Final = ""
_Tree = dict[str, "_Tree"]


def words_of(folded: str) -> frozenset[str]:
    """Return the words of a folded text and the first characters of each, for phrases with any ending."""
    words = set(_WORD.findall(folded))
    return frozenset(words.union([word[:_STEM] for word in words]))


class PhraseClass:
    """The phrases of one class, in any language; its patterns are compiled when a text may hold one of them.

    Args:
        phrases: words separated by one blank; "*" at the end of a word stands for any ending.

    Attributes:
        needs: of each phrase that begins and ends with words, the `words_of` every text with it.
        begins: the first letters of each phrase that is looked for in letters without blanks.
        characters: the first character of each other phrase, which may stand within a word.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self._folded = list(dict.fromkeys(fold(phrase).text for phrase in phrases))
        self._words = [phrase for phrase in self._folded if max(phrase) < _FIRST_UNBOUNDED]
        self.needs = frozenset(map(_words_needed, self._words))
        letters = (phrase.replace(" ", "").rstrip("*") for phrase in self._words)
        self._long = [run for run in letters if len(run) >= _LEAST_COMPACT]
        self._others = [phrase for phrase in self._folded if max(phrase) >= _FIRST_UNBOUNDED]
        self.characters = frozenset(phrase[0] for phrase in self._others)
        self.begins = frozenset(run.partition("*")[0][:_LEAST_COMPACT] for run in self._long)

    @cached_property
    def _bounded(self) -> re.Pattern[str]:
        return re.compile(r"(?<![^\W_])" + _pattern(_tree(self._words), r"[\W_]{1,6}") + r"(?![^\W_])")

    @cached_property
    def _unbounded(self) -> re.Pattern[str]:
        return re.compile(_pattern(_tree(self._others), r"[\W_]{0,6}"))

    @cached_property
    def _compact(self) -> re.Pattern[str]:
        return re.compile(_pattern(_tree(self._long), ""))

    def in_text(self, folded: str) -> list[tuple[int, int]]:
        """Return the places of the class's phrases in a folded text."""
        spans = [match.span() for match in self._bounded.finditer(folded)]
        return spans if folded.isascii() else spans + [match.span() for match in self._unbounded.finditer(folded)]

    def in_letters(self, letters: str) -> list[tuple[int, int]]:
        """Return the places of the class's phrases in folded letters without blanks."""
        return [match.span() for match in self._compact.finditer(letters)]


def _words_needed(phrase: str) -> frozenset[str]:
    return frozenset(word[:_STEM] if word.endswith("*") else word for word in phrase.split())


def _tree(phrases: Iterable[str]) -> _Tree:
    tree: _Tree = {}
    for phrase in phrases:
        node = tree
        for char in phrase:
            node = node.setdefault(char, {})
        node[_END] = {}
    return tree


def _pattern(node: _Tree, gap: str) -> str:
    """Return a pattern for the rest of the phrases, longer phrases first; it never matches for no phrases."""
    if not node:
        return "(?!)"
    ways = [_one(char, gap) + _pattern(below, gap) for char, below in sorted(node.items()) if char != _END]
    if _END in node:
        ways.append("")
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _one(char: str, gap: str) -> str:
    if char == " ":
        return gap
    return r"\w{0,12}" if char == "*" else re.escape(char)


_MOST_DECODED: Final = 20_000
"""Maximum number of characters decoded of one passage."""

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}+(?:\r?\n[A-Za-z0-9+/_-]{20,}+)*+={0,2}")
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}:?){12,10000}(?![0-9A-Fa-f])")
_LEAST_ENCODED: Final = 20
_LEAST_APART: Final = 15
_LEAST_SPELT: Final = 8
_REVERSED: Final = re.compile("[\u202e\u2067]([^\u202c\u2069\u202a-\u202e\n]{4,20000})")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{8,20000}")
_FLAG: Final = "\U0001f3f4"  # a black flag before tags: the flag of a region
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,20000}")
_SPELT: Final = re.compile(r"(?<![^\W_])[^\W_](?:[\W_]{1,4}[^\W_](?![^\W_])){7,2000}")
_RUN_TOGETHER: Final = re.compile(r"[a-z0-9]{18,}+")


class HiddenPassage(NamedTuple):
    """A hidden passage: its place [start, end) in a text, and its plain text."""

    start: int
    end: int
    says: str


def encoded(text: str) -> Iterator[HiddenPassage]:
    """Yield the passages in Base64 or hexadecimal digits that decode to words."""
    if _longest(text) < _LEAST_ENCODED:
        return
    for match in _BASE64.finditer(text):
        yield from _decoded(match, _from_base64("".join(match[0].split()).rstrip("=")))
    for match in _HEX.finditer(text):
        yield from _decoded(match, _from_hex(match[0]))


def _from_base64(letters: str) -> bytes:
    letters = letters[:_MOST_DECODED].replace("-", "+").replace("_", "/")
    if len(letters) % 4 == 1:
        letters = letters[:-1]  # no octet ends there
    return base64.b64decode(letters + "==")


def _from_hex(digits: str) -> bytes:
    return bytes.fromhex(digits.replace(":", " "))


def _decoded(match: re.Match[str], octets: bytes) -> Iterator[HiddenPassage]:
    try:
        says = octets.decode()
    except UnicodeDecodeError as error:
        says = octets[: error.start].decode()
    if len(says) >= 8 and " ".join(says.split()).isprintable():
        yield HiddenPassage(match.start(), match.end(), says)


def _longest(text: str) -> int:
    return max(map(len, text.split()), default=0)


def invisible(text: str) -> Iterator[HiddenPassage]:
    """Yield the passages written in invisible characters: tags, and bytes as variation selectors."""
    if text.isascii():
        return
    for match in _TAGS.finditer(text):
        if text[max(0, match.start() - 1) : match.start()] != _FLAG:
            yield HiddenPassage(match.start(), match.end(), "".join(chr(ord(char) - 0xE0000) for char in match[0]))
    for match in _SELECTORS.finditer(text):
        octets = bytes(ord(char) - (0xFE00 if char <= "\ufe0f" else 0xE0100 - 16) for char in match[0])
        yield HiddenPassage(match.start(), match.end(), octets.decode("utf-8", "replace"))


def reversed_text(text: str) -> Iterator[HiddenPassage]:
    """Yield the passages forced to display from right to left, in the order in which they display."""
    for match in _REVERSED.finditer(text):
        yield HiddenPassage(match.start(), match.end(), match[1][::-1])


def apart(folded: str) -> Iterator[HiddenPassage]:
    """Yield passages of a folded text with letters spelt one by one, or with words run together; each without
    blanks.
    """
    lengths = list(map(len, folded.split()))
    long = max(lengths, default=0) >= _LEAST_APART
    if long or lengths.count(1) >= _LEAST_SPELT or 2 * lengths.count(2) > len(lengths):
        for match in _SPELT.finditer(folded):
            yield HiddenPassage(*match.span(), re.sub(r"[\W_]", "", match[0]))
    if long:
        for match in _RUN_TOGETHER.finditer(folded):
            yield HiddenPassage(*match.span(), match[0])
