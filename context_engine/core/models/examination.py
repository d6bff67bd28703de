"""The examination of a live source by its adapter: whether it can be searched, and its contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from context_engine.core.models.access import AccessScope
from context_engine.core.models.notice import Notice, NoticeCode
from context_engine.core.models.request import SourceQuery

_NO_DETAILS: Final[Mapping[str, Any]] = MappingProxyType({})
_SAMPLE_TOP_K: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationRequest:
    """How a source is to be examined.

    Attributes:
        domain: the domain it is examined for.
        query: a sample query; None: no query is sent.
        quick: use as few calls as possible: send the query only if no cheaper call tells whether the source can be
            searched, and report only counts that are already known.
        timeout_s: time limit of the whole examination, seconds.
        search_timeout_s: time limit of a search of this domain, seconds.
        access: the classes of chunks that the reader of the report may read; None: all.
    """

    domain: str
    query: str | None = None
    quick: bool = False
    timeout_s: float = 20.0
    search_timeout_s: float = 10.0
    access: AccessScope | None = None

    @property
    def sample(self) -> SourceQuery | None:
        """The sample query as a search for a few chunks, or None."""
        if self.query is None:
            return None
        return SourceQuery(
            text=self.query,
            domain=self.domain,
            top_k=_SAMPLE_TOP_K,
            timeout_s=self.search_timeout_s,
            access=self.access,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The findings about a source, or about one part of it. None means unknown.

    Attributes:
        id: a part's id, such as a dataset id or the name of an index; "" for the source itself.
        name: a part's display name.
        kind: the kind of store, such as "folder of notes"; for a part, how it is indexed.
        version: the version that the source's server reports.
        documents: the number of searchable documents.
        records: the number of chunks that the sample query returned.
        search_method: how it is searched.
        problems: why the source cannot be searched, and how to fix it.
        warnings: problems and unwise settings that do not prevent searches.
        parts: parts that are searched separately, such as datasets.
        details: further facts for an operator; JSON values only.
    """

    id: str = ""
    name: str = ""
    kind: str = ""
    version: str | None = None
    documents: int | None = None
    records: int | None = None
    search_method: str | None = None
    problems: tuple[Notice, ...] = ()
    warnings: tuple[Notice, ...] = ()
    parts: tuple[Examination, ...] = ()
    details: Mapping[str, Any] = field(default_factory=lambda: _NO_DETAILS)

    @property
    def ok(self) -> bool:
        """Whether the source and all its parts can be searched."""
        return not self.problems and all(part.ok for part in self.parts)

    @property
    def problem(self) -> str | None:
        """The problems in one sentence, without those of the parts; None if there are none."""
        return "; ".join(problem.message for problem in self.problems) or None

    @property
    def state(self) -> str:
        """failed, empty (no documents) or ok, regardless of the parts."""
        if self.problems:
            return "failed"
        return "empty" if self.documents == 0 else "ok"


def notices_about(subject: str, *remarks: str | Notice) -> tuple[Notice, ...]:
    """Return remarks as notices about a source or a part of it."""
    return tuple(
        remark if isinstance(remark, Notice) else Notice(NoticeCode.SOURCE_NOTE, subject, remark) for remark in remarks
    )
