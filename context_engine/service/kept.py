"""Keeps the answers of the last minutes for their callers: to continue a long answer, or to explain one."""

from __future__ import annotations

import hmac
import logging
import pickle
import secrets
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cachetools import TTLCache

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.context import ContextPart
from context_engine.core.models import Principal, SearchResult
from context_engine.errors import CursorExpired
from context_engine.service.contract.rag import RAGPipelineResponse

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 64 * 2**20
_MOST_ENTRIES: Final = 4096
_KEPT_S: Final = 600.0
_LEVEL: Final = 1
_BESIDE: Final = 500
"""Overhead of an entry in bytes, added to its packed size."""

CURSOR_EXPIRED: Final = "this cursor is not valid any more: ask the question again"

_SECRET: Final = secrets.token_bytes(32)
"""Signs the cursors of this process: none can be forged, and none outlives the answers kept in this process."""

_SIGNATURE_BYTES: Final = 16


def make_cursor(search_id: str, *numbers: int) -> str:
    """Return a signed cursor for a place in a kept answer.

    Args:
        numbers: the place, such as the number of a part.
    """
    payload = ".".join([*map(str, numbers), search_id]).encode()
    return urlsafe_b64encode(_signature(payload) + payload).decode().rstrip("=")


def read_cursor(cursor: str, *, count: int = 1) -> tuple[str, tuple[int, ...]]:
    """Return the search id and the numbers of a cursor.

    Args:
        count: how many numbers the cursor holds.

    Raises:
        CursorExpired: this process did not make the cursor.
    """
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        *texts, search_id = raw[_SIGNATURE_BYTES:].decode().split(".", count)
        numbers = tuple(map(int, texts))
    except ValueError:
        raise CursorExpired(CURSOR_EXPIRED) from None
    # Compared as text: base64 has several spellings of the same bytes, and only one was handed out.
    if len(numbers) != count or not hmac.compare_digest(make_cursor(search_id, *numbers), cursor):
        raise CursorExpired(CURSOR_EXPIRED)
    return search_id, numbers


def _signature(payload: bytes) -> bytes:
    return hmac.digest(_SECRET, payload, "sha256")[:_SIGNATURE_BYTES]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """An answer as it was returned.

    Attributes:
        result: of the engine, with the candidates.
        response: the whole answer of the RAG API, before it was dealt out in parts; None where none was made.
        parts: what a model reads of it, where it is dealt out in parts.
    """

    result: SearchResult
    response: RAGPipelineResponse | None = None
    parts: tuple[ContextPart, ...] = ()


class KeptResults:
    """Keeps answers for some minutes under their search ids, each for its principal alone. Safe for many threads.

    A deployment owns one, so that nothing outlives the access rules it was found under. An answer is kept packed, in a
    tenth of the bytes that it takes at work, and no collection of garbage goes through it.

    Args:
        most_bytes: bound of the sizes' sum; what was used longest ago goes first.
        most_entries: bound of their number.
        seconds: how long an answer is kept.
        timer: seconds, never backwards.
    """

    def __init__(
        self,
        *,
        most_bytes: int = _MOST_BYTES,
        most_entries: int = _MOST_ENTRIES,
        seconds: float = _KEPT_S,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_bytes, self._least, self._seconds, self._timer = (
            most_bytes,
            most_bytes // most_entries,
            seconds,
            timer,
        )
        self._lock = Lock()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all kept answers."""
        self._kept: TTLCache[tuple[str, Principal], bytes] = TTLCache(
            self._most_bytes, self._seconds, timer=self._timer, getsizeof=self._size
        )

    def keep(self, principal: Principal, answer: KeptAnswer) -> None:
        """Keep an answer for who got it; one that is larger than all there is room for is not kept."""
        try:
            packed = zlib.compress(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL), _LEVEL)
        except (pickle.PicklingError, TypeError, AttributeError) as error:  # a source's own kind of value is in it
            logger.debug("search %s is not kept: %s", answer.result.search_id, type(error).__name__)
            return
        with self._lock, suppress(ValueError):
            self._kept[answer.result.search_id, principal] = packed

    def get(self, principal: Principal, search_id: str) -> KeptAnswer:
        """Return an answer that was given to this principal.

        Raises:
            CursorExpired: it is not kept, or belongs to another principal; the two are deliberately indistinguishable.
        """
        with self._lock:
            packed = self._kept.get((search_id, principal))
        if packed is None:
            raise CursorExpired(
                f"no answer of the search {search_id!r} is kept for you any more: ask the question again"
            )
        answer: KeptAnswer = pickle.loads(zlib.decompress(packed))
        return answer

    def holds(self, principal: Principal, search_id: str) -> bool:
        """Return whether an answer is kept for a principal."""
        with self._lock:
            return (search_id, principal) in self._kept

    @property
    def size(self) -> int:
        """Bytes of all kept answers."""
        with self._lock:
            self._kept.expire()
            return int(self._kept.currsize)

    def _size(self, packed: bytes) -> int:
        return max(self._least, len(packed) + _BESIDE)
