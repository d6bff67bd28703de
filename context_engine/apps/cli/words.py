"""Words for the terminal: tiers, confidence, ages, flags, counts and times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.text import Text

from context_engine.core.models import Confidence, RankedChunk, TrustClass

_FILLED: Final = {Confidence.WEAK: 1, Confidence.FAIR: 2, Confidence.STRONG: 3}
_CONFIDENCE_STYLES: Final = {Confidence.STRONG: "green", Confidence.FAIR: "cyan", Confidence.WEAK: "yellow"}
_TIER_WORDS: Final = {1: "record", 2: "SOP", 3: "standard", 4: "official", 5: "web"}
_TIER_STYLES: Final = {1: "bold green", 2: "green", 3: "cyan", 4: "cyan", 5: "yellow"}
_FLAG_WORDS: Final = {
    "below_threshold": "below the relevance limit",
    "threshold_not_applicable": "threshold not applicable",
    "superseded": "superseded",
    "linked": "another passage leads to it",
    "injection_suspected": "reads like instructions",
}
_SHOWN_AS_AGE: Final = frozenset({"expired", "effective_unknown"})


def tier_text(tier: int) -> Text:
    """Return a tier as number and word, e.g. "2 SOP"."""
    return Text(f"{tier} {_TIER_WORDS.get(tier, '?')}", _TIER_STYLES.get(tier, ""))


def sign(ok: bool) -> Text:
    """Return a green tick, or a red cross if not `ok`."""
    return Text("✓", "green") if ok else Text("✗", "bold red")


def confidence_text(confidence: Confidence) -> Text:
    """Return a confidence as bar and word, e.g. "▪▪· fair"."""
    filled = _FILLED[confidence]
    bar = Text("▪" * filled, _CONFIDENCE_STYLES[confidence]).append("·" * (len(_FILLED) - filled), "dim")
    return bar.append(f" {confidence}", _CONFIDENCE_STYLES[confidence])


def ms(milliseconds: float) -> str:
    """Return a duration with a readable precision and unit.

    >>> ms(0.42), ms(12.34), ms(2500.0)
    ('0.4 ms', '12 ms', '2.5 s')
    """
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def marks(chunk: RankedChunk) -> list[Text]:
    """Return the age and the flags of a chunk, one or two words each."""
    extra = chunk.provenance.extra
    ages = {
        "fresh": Text("fresh", "dim"),
        "expired": Text(f"expired (fetched {chunk.provenance.fetched_at[:10]})", "yellow"),
    }
    texts = [ages.get(str(extra.get("freshness")), Text("age unknown", "dim"))]
    if chunk.trust_class is TrustClass.UNTRUSTED:
        texts.append(Text("untrusted", "yellow"))
    if str(chunk.classification) in ("confidential", "restricted"):
        texts.append(Text(str(chunk.classification), "magenta"))
    for flag in chunk.flags:
        if flag not in _SHOWN_AS_AGE:
            texts.append(Text(_FLAG_WORDS.get(flag, flag), "yellow"))
    return texts


def joined(parts: Iterable[Text]) -> Text:
    """Return the texts that are not empty, with a dot between them."""
    line = Text()
    for part in parts:
        if part.plain:
            line.append(" · " if line.plain else "", "dim").append_text(part)
    return line
