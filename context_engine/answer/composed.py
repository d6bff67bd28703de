"""An answer with its evidence, its sentences and how it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from context_engine.answer.conflicts import Conflict
from context_engine.answer.gathering import Gathering
from context_engine.answer.values import AnswerRefusal, Evidence, Sentence, Verdict
from context_engine.answer.writing import ModelCall
from context_engine.core.models import AnswerPolicy, Context, SearchResult

Mode = Literal["extractive", "model"]


@dataclass(slots=True, kw_only=True)
class Answer:
    """An answer with its evidence; complete when it has an id.

    Attributes:
        answer_id: id of its record; "" before it is recorded.
        asked: the question as asked; `result.query` is the question as searched.
        mode: extractive, or by a model.
        policy: what happens to unsupported sentences.
        wants: what the question asks for; "" if a model answered.
        sentences: all of them, in order, including those that may not be shown.
        refusal: why there is no answer; None if there is one.
        conflicts: passages that disagree about what is answered.
        notes: what a model read of the job of the question; "" without a job or a model.
        written: what a model was asked and wrote; None without one.
        rewriting: what a model was asked to rewrite the question; None without one.
        warnings: sentences for people.
        gathering: the searches of a workflow; None: of one search.
    """

    answer_id: str = ""
    result: SearchResult
    context: Context
    evidence: tuple[Evidence, ...]
    asked: str
    mode: Mode
    policy: AnswerPolicy
    wants: str = ""
    sentences: list[Sentence] = field(default_factory=list)
    refusal: AnswerRefusal | None = None
    conflicts: tuple[Conflict, ...] = ()
    notes: str = ""
    written: ModelCall | None = None
    rewriting: ModelCall | None = None
    warnings: list[str] = field(default_factory=list)
    gathering: Gathering | None = None

    @property
    def shown(self) -> tuple[Sentence, ...]:
        """The sentences that may be shown."""
        return () if self.refusal is not None else self.allowed

    @property
    def allowed(self) -> tuple[Sentence, ...]:
        """The sentences that the policy lets through, each by itself."""
        return tuple(sentence for sentence in self.sentences if self.allows(sentence))

    def allows(self, sentence: Sentence) -> bool:
        """Return whether the policy lets a sentence through."""
        return sentence.verdict is Verdict.SUPPORTED or self.policy in ("show", "mark")
