"""Which version of Dify answers, by its X-Version header, and what does not work there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})[0-9A-Za-z.+-]{0,32}")
_TRIED: Final = (1, 12)
_KNOWN: Final = (1, 17)
_FILTERS_DROPPED: Final = (1, 13)
_IN_BROKEN: Final = (1, 11)


def stated_version(headers: Mapping[str, str]) -> str | None:
    """Return the version that an answer states; None where it states none.

    Args:
        headers: names in lower case.
    """
    stated = headers.get("x-version", "").strip()
    return stated if _VERSION.fullmatch(stated) else None


def drops_filters(version: str | None) -> bool:
    """Return whether Dify ignores a search's metadata filter without a word, as 1.13 does."""
    return _release(version) == _FILTERS_DROPPED


def shortcomings(version: str | None) -> tuple[str, ...]:
    """Return what does not work with a version, or is not known of it, a sentence each."""
    release = _release(version)
    if release is None:
        return ("Dify does not state its version (no X-Version header): a proxy in between may take it away",)
    found: list[str] = []
    if release < _TRIED:
        found.append("it is older than 1.12, with which this adapter was not tried")
    if release == _IN_BROKEN:
        found.append("its metadata filters with 'in' were seen to find nothing: give one value, or update Dify")
    if release == _FILTERS_DROPPED:
        found.append(
            "it ignores metadata filters: they are kept here, on the best 100 chunks of each dataset, so that chunks "
            "below those are not found; later versions keep to them again"
        )
    if release > _KNOWN:
        found.append("it is newer than 1.17, the last whose changes are known here")
    return tuple(found)


def _release(version: str | None) -> tuple[int, int] | None:
    found = _VERSION.fullmatch(version) if version is not None else None
    return None if found is None else (int(found[1]), int(found[2]))
