"""What a chunk of an economy dataset is found by."""

from __future__ import annotations

from context_engine.adapters.sources.dify.upload import keywords_of
from context_engine.core.models import Chunk
from context_engine.testing.fake_dify.stored import keywords_of as dify_s


def of(content: str, **fields: object) -> list[str]:
    (found,) = keywords_of([Chunk(content=content, **fields)])  # type: ignore[arg-type]
    return found


def test_codes_stand_in_the_pieces_that_a_query_is_cut_into() -> None:
    found = of("See NPA-001, FCAA_637 and clause 4.2.1(b), up to 10% of Tier 1.")
    assert {"NPA", "001", "FCAA", "637", "4.2", "10%"} <= set(found)
    assert set(dify_s("NPA-001")) <= set(found)


def test_names_stand_before_words_and_words_before_what_every_chunk_says() -> None:
    """The title, the headings, the reference and what is defined are what a question names."""
    texts = [" ".join(f"common{n}" for n in range(60)) + f" own{place}" for place in range(3)]
    given = [
        Chunk(
            content=text,
            document_id="SOP-7",
            title="Desk limits",
            heading_path=("4 Escalation",),
            metadata={"reference": "637(4)", "defines": ["Sponsor"]},
        )
        for text in texts
    ]
    for place, found in enumerate(keywords_of(given)):
        assert {"SOP", "Desk", "limits", "Escalation", "637", "Sponsor", f"own{place}"} <= set(found)
        assert sum(one.startswith("common") for one in found) < 40


def test_words_are_found_as_people_write_them() -> None:
    """Dify tells capitals from small letters; words without meaning and single letters find nothing."""
    found = of("The Approval of a limit")
    assert found == ["Approval", "approval", "limit"]


def test_chinese_is_written_in_runs_that_hold_its_words() -> None:
    assert {"冷静期", "产品", "结构性"} <= set(of("结构性产品的冷静期为十四天。"))


def test_a_chunk_that_is_one_long_word_takes_no_time() -> None:
    assert of("x" * 60_000 + " " + "1" * 60_000)[0].startswith("1")


def test_a_chunk_has_at_most_forty_words() -> None:
    found = of(" ".join(f"Word{n}" for n in range(500)))
    assert len(found) == 2 * 40
