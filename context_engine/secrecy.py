"""The filter that all outputs, errors and log records pass, so that they never show a key in use.

A connection registers its key here when it is read. A server may echo the key in a header, a status line or an error,
and the transport logs what it receives. So all output is searched for the key verbatim, in its URL, JSON, HTML and
base64 (HTTP Basic) forms, and truncated at either end. In errors and logs, unknown text in the form of a key is hidden
too; in documents it is not, because "the bearer of the bond" is not a token.

Keys are registered per process, because the transport's loggers are: a key of one engine is hidden in the output of
another too, which is harmless. A key of fewer than eight characters is hidden only after `Bearer` or the like, because
it may be part of a word.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote, quote_plus

MASK: Final = "********"
_SHORTEST: Final = 8
_LONG_ENOUGH_TO_CUT: Final = 16
_MOST_KEYS: Final = 256
_PREFIX: Final = r"(?:(?:dataset|app|sk|pk|rk|glpat|xox[abp])-|(?:sk|pk|rk|hf|gh[pousr]|github_pat|ce)_)"
_PREFIXED: Final = re.compile(rf"\b{_PREFIX}(?P<body>[A-Za-z0-9_-]{{6,}})")
_KNOWN_FORM: Final = re.compile(
    r"(?:bearer|basic)\s.*|(?:akia|asia)[a-z0-9]{16}|[0-9a-f]{32,}|.*eyJ[\w-]{8,}\.[\w-]*.*", re.IGNORECASE | re.DOTALL
)
_RANDOM: Final = 0.5
"""Share of neighbours of another kind (small, capital, digit) from which a text counts as random; random text: .62."""

_NO_WORD: Final = 20
"""Length from which a run of small and capital letters after a key's prefix counts as random."""

_KEY_LIKE: Final = re.compile(
    r"\b(?:dataset|app)-[A-Za-z0-9_-]{8,}"
    r"|(?<=[Bb]earer )\S+|(?<=[Bb]asic )[A-Za-z0-9+/=_-]{8,}"
    r"|(?<=://)[^/\s@]+(?=@)"
)
_COOKIE: Final = re.compile(r"(cookie', b')[^']*|(cookie', b\")[^\"]*", re.IGNORECASE)
_TRANSPORT: Final = ("httpx", "httpcore", "h11", "h2", "hpack")
_OURS: Final = "context_engine"
_LOCK: Final = threading.Lock()
if hasattr(os, "register_at_fork"):  # no fork while a thread holds it, so that it is free in the child
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class _Keys:
    """The most recently registered keys. Thread-safe."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[str, ...]] = {}
        self._all: tuple[tuple[str, ...], ...] = ()

    def add(self, secret: str) -> None:
        if secret in self._forms:
            return
        forms = tuple(dict.fromkeys(_forms(secret)))
        with _LOCK:
            self._forms[secret] = forms
            while len(self._forms) > _MOST_KEYS:
                del self._forms[next(iter(self._forms))]
            self._all = tuple(self._forms.values())

    def hide(self, text: str) -> str:
        for forms in self._all:
            for form in forms:
                if form in text:
                    text = text.replace(form, MASK)
            text = _without_parts(text, forms[0])
        return text


_KEYS: Final = _Keys()
_MOST_MASKS: Final = 8
_masks: dict[str, Callable[[str], str]] = {}
_NOT_SHOWN: Final = "(not shown: personal data in it could not be masked)"


def keep_secret(secret: str) -> None:
    """Register a key, which is hidden from now on; repeated calls are cheap."""
    if len(secret) >= _SHORTEST:
        _KEYS.add(secret)
    _filter_logs()


def mask_logs(name: str, mask: Callable[[str], str]) -> None:
    """Mask the log records of this package and of the transport from now on.

    A record that cannot be masked is kept without its text.

    Args:
        name: identifies the mask; a later mask of the same name replaces it.
        mask: returns a text without personal data.
    """
    with _LOCK:
        _masks[name] = mask
        while len(_masks) > _MOST_MASKS:
            del _masks[next(iter(_masks))]
    _filter_logs()


def hide(text: str) -> str:
    """Return a text in which every key in use is masked; applied to all output."""
    return _KEYS.hide(text)


def hide_in_error(text: str) -> str:
    """Return a message in which every key in use is masked, and pasted text that looks like a key."""
    return _PREFIXED.sub(lambda match: MASK if looks_like_key(match[0]) else match[0], _KEYS.hide(text))


def shown_in_logs(text: str) -> str:
    """Return a text as shown in this package's log records: without keys, and masked by `mask_logs`.

    Messages are masked when a record is created; its extra fields are masked when they are written.
    """
    return _masked(hide_in_error(text))


def redacted(text: str) -> str:
    """Return a server's text in which keys in use, tokens, cookies, users in URLs and Dify keys are masked."""
    text = _COOKIE.sub(lambda match: (match[1] or match[2]) + MASK, _KEYS.hide(text))
    return _KEY_LIKE.sub(MASK, text)


def looks_like_key(text: str) -> bool:
    """Return whether a text given as the name of a variable or the path of a file looks like a key.

    That is a bearer or JSON Web Token, a known prefix followed by letters and digits, or a long random run of both. In
    a path every part is checked, and a prefix must be followed by more characters.

    >>> looks_like_key("dataset-4Kq9wLk3"), looks_like_key("DIFY_API_KEY_2"), looks_like_key("/run/secrets/dataset-key")
    (True, False, False)
    """
    text = text.strip()
    parts = [part for part in re.split(r"[/\\]+", text) if part]
    return any(_KNOWN_FORM.fullmatch(part) or _key_part(part, whole=len(parts) == 1) for part in (text, *parts))


def _key_part(text: str, *, whole: bool) -> bool:
    match = _PREFIXED.fullmatch(text)
    pieces = re.split(r"[_.=-]+", match["body"] if match else text)
    least = 16 if not match else 6 if whole else 12
    return any(len(piece) >= least and _is_random(piece, prefixed=match is not None) for piece in pieces)


def _is_random(piece: str, *, prefixed: bool) -> bool:
    """Whether a piece looks random: its letters and digits are mixed as in no word."""
    if piece.isalpha():  # one in seventy Dify keys has no digit
        return prefixed and len(piece) >= _NO_WORD and not (piece.islower() or piece.isupper() or piece.istitle())
    if piece.isdigit():
        return False
    kinds = ["d" if char.isdigit() else "u" if char.isupper() else "l" for char in piece]
    changes = sum(kind != other for kind, other in pairwise(kinds))
    return prefixed or changes >= _RANDOM * (len(piece) - 1)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a key may appear, itself first."""
    yield secret
    yield from (quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], html.escape(secret))
    for ahead in range(3):  # base64 of the key and of anything before it: three bytes make four characters
        raw = base64.b64encode(b"\0" * ahead + secret.encode("utf-8", "replace")).decode().rstrip("=")
        inner = raw[(0, 2, 3)[ahead] : -1]
        yield from (inner, inner.replace("+", "-").replace("/", "_")) if len(inner) >= _SHORTEST else ()


def _without_parts(text: str, secret: str) -> str:
    """Mask keys in the text that are truncated at either end."""
    prefix = re.match(_PREFIX, secret)
    body = secret[prefix.end() :] if prefix else secret
    if len(body) < _LONG_ENOUGH_TO_CUT:
        return text
    return _without_start(_without_start(text, body)[::-1], body[::-1])[::-1]


def _without_start(text: str, body: str) -> str:
    """Mask beginnings of a key; only longer ones if the key begins like a word or a host name."""
    seed = body[:_SHORTEST]
    telling = any(map(str.isdigit, seed)) or (seed != seed.lower() and seed != seed.upper())
    least = _SHORTEST if telling else _LONG_ENOUGH_TO_CUT
    out, start = [], 0
    while (place := text.find(body[:least], start)) >= 0:
        end = place + least
        while end < len(text) and end - place < len(body) and text[end] == body[end - place]:
            end += 1
        out += [text[start:place], MASK]
        start = end
    return "".join([*out, text[start:]])


def _filter_logs() -> None:
    """Filter the log records of this package and of the transport; installed once.

    A filter on a logger does not see records of its child loggers, and handlers belong to the application; so the
    record factory is wrapped, for these names only.
    """
    with _LOCK:
        make = logging.getLogRecordFactory()
        if not isinstance(make, _MaskingRecordFactory):
            logging.setLogRecordFactory(_MaskingRecordFactory(make))


class _MaskingRecordFactory:
    """Wraps a log record factory to hide keys in the records of this package and of the transport."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: Any, **fields: Any) -> logging.LogRecord:
        record = self._make(*args, **fields)
        name = record.name.partition(".")[0]
        if name in _TRANSPORT or name == _OURS:
            hidden = hide_in_error if name == _OURS else redacted
            _clean(record, lambda text: _masked(hidden(text)))
        return record


def _masked(text: str) -> str:
    for mask in tuple(_masks.values()):
        try:
            text = mask(text)
        except Exception:  # noqa: BLE001  unmasked text must not be shown, whatever the error
            return _NOT_SHOWN
    return text


def _clean(record: logging.LogRecord, hidden: Callable[[str], str]) -> None:
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001  the handler reports arguments that do not fit
        return
    shown = hidden(text)
    if shown != text:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[1] is not None:
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        shown = hidden(trace)
        if shown != trace:  # drop the exception, which a handler could format again
            record.exc_text, record.exc_info = shown, None


def has_unencoded_password(url: str) -> bool:
    """Return whether a password has an "@" or "?" that is not encoded; the rest would be read as host, path or options.

    >>> [has_unencoded_password(f"postgresql://user:{word}@host/base") for word in ("pass@word", "pass%40word")]
    [True, False]
    """
    address, _, options = url.partition("?")
    return address.count("@") > 1 or ("@" in options and "@" not in address)
