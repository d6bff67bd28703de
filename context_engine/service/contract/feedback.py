"""The contract of a judgement: thumbs up or down for a passage, or for a whole answer."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Thumb = Literal["up", "down"]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Id = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Feedback(BaseModel):
    """A judgement of an answer that the caller received; the last one of a person on a thing counts."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"search_id": "019cad5024a07afe82620d28", "thumb": "up", "person": "jo"}]},
    )

    search_id: Id = Field(description="`search_id` of the answer.")
    thumb: Thumb = Field(description="up: it answers the question; down: it does not.")
    source_id: Text | None = Field(None, description="With chunk_id: the passage that is judged.")
    chunk_id: Text | None = Field(None, description="The passage that is judged; null: the whole answer.")
    answer_id: Id | None = Field(None, description="The composed answer that is judged, if there is one.")
    person: Id | None = Field(
        None,
        description="Whose judgement it is, if a program hands on that of a person; kept as a pseudonym. Null: the "
        "caller's, or that of the person for whom it asked.",
    )

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if (self.source_id is None) != (self.chunk_id is None):
            raise ValueError("a passage is named by source_id and chunk_id: send both, or neither for the whole answer")
        if self.chunk_id is not None and self.answer_id is not None:
            raise ValueError("both a passage and an answer are named: send one judgement for each")
        return self


class FeedbackKept(BaseModel):
    """What was kept."""

    model_config = ConfigDict(frozen=True)

    search_id: str
    thumb: Thumb
    judged: Literal["passage", "answer"]
