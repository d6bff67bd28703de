"""Keeps the answers of the last minutes for their callers: to continue a long answer, or to explain one."""

from __future__ import annotations

import hmac
import logging
import pickle
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import current_process
from typing import Any, Final

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
_GONE: Final = (OSError, EOFError)
"""What a worker meets if the process that holds the answers has been killed."""

_BESIDE: Final = 500
"""Overhead of an entry in bytes, added to its packed size."""

CURSOR_EXPIRED: Final = "this cursor is no longer valid: ask the question again"
_SECRET: Final = hmac.digest(current_process().authkey, b"cursors", "sha256")
"""Signs the cursors of this process and of its workers; they cannot be forged and expire with the kept answers."""

_SIGNATURE_BYTES: Final = 16


def make_cursor(search_id: str, *numbers: int) -> str:
    """Return a signed cursor for a place in a kept answer.

    Args:
        numbers: the place, for example the number of a part.
    """
    payload = ".".join([*map(str, numbers), search_id]).encode()
    return urlsafe_b64encode(_signature(payload) + payload).decode().rstrip("=")


def read_cursor(cursor: str, *, count: int = 1) -> tuple[str, tuple[int, ...]]:
    """Return the search id and the numbers of a cursor.

    Args:
        count: the number of numbers in the cursor.

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
        result: the engine's result, with the candidates.
        response: the whole answer of the RAG API, before it was split into parts; None if none was made.
        parts: the contexts of its parts, if it was split.
        gathering: the searches that gave it (`answer.gathering.Gathering`), if it took several.
    """

    result: SearchResult
    response: RAGPipelineResponse | None = None
    parts: tuple[ContextPart, ...] = ()
    gathering: Any = None


class PackedAnswers:
    """Holds packed answers for some minutes by search id and principal. Thread-safe.

    Args:
        most_bytes: most bytes in total; the least recently used answer is dropped first.
        most_entries: most answers.
        seconds: how long an answer is kept.
        timer: a monotonic clock in seconds.
    """

    def __init__(
        self,
        *,
        most_bytes: int = _MOST_BYTES,
        most_entries: int = _MOST_ENTRIES,
        seconds: float = _KEPT_S,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_bytes, self._least = most_bytes, most_bytes // most_entries
        self._seconds, self._timer = seconds, timer
        self._lock = Lock()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all answers."""
        self._packed: TTLCache[Hashable, bytes] = TTLCache(
            self._most_bytes, self._seconds, timer=self._timer, getsizeof=self._size
        )

    def put(self, key: Hashable, packed: bytes) -> None:
        """Hold an answer; one larger than `most_bytes` is not held."""
        with self._lock, suppress(ValueError):
            self._packed[key] = packed

    def get(self, key: Hashable) -> bytes | None:
        """Return an answer, or None."""
        with self._lock:
            return self._packed.get(key)

    def holds(self, key: Hashable) -> bool:
        """Return whether an answer is held."""
        with self._lock:
            return key in self._packed

    def bytes_held(self) -> int:
        """Return the bytes of all answers."""
        with self._lock:
            self._packed.expire()
            return int(self._packed.currsize)

    def _size(self, packed: bytes) -> int:
        return max(self._least, len(packed) + _BESIDE)


class KeptResults:
    """Keeps answers for some minutes by search id, each for its principal only. Thread-safe.

    Each deployment has its own, so that no answer outlives the access rules it was found under. Answers are kept
    packed: a tenth of the memory, and nothing for the garbage collector to traverse.

    Args:
        packed: holds them, and may be shared by several processes; None: this process alone holds them.
        generation: the number of this deployment, if other deployments share `packed`.
    """

    def __init__(self, packed: PackedAnswers | None = None, generation: int = 0) -> None:
        self._packed = PackedAnswers() if packed is None else packed
        self._generation = generation

    def keep(self, principal: Principal, answer: KeptAnswer) -> None:
        """Keep an answer for its recipient, unless it is too large."""
        try:
            packed = zlib.compress(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL), _LEVEL)
        except (pickle.PicklingError, TypeError, AttributeError) as error:  # a source used a type of its own
            logger.debug("search %s is not kept: %s", answer.result.search_id, type(error).__name__)
            return
        with suppress(*_GONE):  # this worker answers its last requests, whose answers nobody continues
            self._packed.put(self._key(principal, answer.result.search_id), packed)

    def get(self, principal: Principal, search_id: str) -> KeptAnswer:
        """Return a kept answer of this principal.

        Raises:
            CursorExpired: it is not kept, or belongs to another principal; the two are deliberately indistinguishable.
        """
        packed = None
        with suppress(*_GONE):
            packed = self._packed.get(self._key(principal, search_id))
        if packed is None:
            raise CursorExpired(f"no answer of the search {search_id!r} is kept for you now: ask the question again")
        answer: KeptAnswer = pickle.loads(zlib.decompress(packed))
        return answer

    def holds(self, principal: Principal, search_id: str) -> bool:
        """Return whether an answer is kept for a principal."""
        with suppress(*_GONE):
            return self._packed.holds(self._key(principal, search_id))
        return False

    def _key(self, principal: Principal, search_id: str) -> Hashable:
        return self._generation, search_id, principal
