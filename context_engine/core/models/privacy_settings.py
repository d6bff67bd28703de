"""Where personal data is masked, and what counts as personal data. Off unless set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from context_engine.core.models.settings_group import Flag, SettingsGroup

PersonalDataKind = Literal["card", "iban", "national_id", "phone", "email"]
PERSONAL_DATA_KINDS: Final[tuple[PersonalDataKind, ...]] = get_args(PersonalDataKind)

MASK_CONTEXTS: Final = "mask_contexts"
"""The setting, and what a chunk's tag says where it held: its text goes to no model unmasked."""

Texts = Annotated[tuple[str, ...], Field(strict=False)]


class MaskedOutputs(SettingsGroup):
    """What of one domain is masked, whoever searches."""

    mask_contexts: Flag = Field(
        False,
        description="Mask personal data in all that goes to a model: contexts, the Dify plugin's outputs, what a "
        "reranker reads.",
    )
    mask_stored_queries: Flag = Field(
        False, description="Mask personal data in questions that are kept: in the record and in files of judgements."
    )


class PrivacySettings(MaskedOutputs):
    """Where personal data is masked, and what is; no call and no persona can set it."""

    mask_logs: Flag = Field(False, description="Mask personal data in the log records of this process.")
    mask_kinds: Annotated[tuple[PersonalDataKind, ...], Field(strict=False)] = Field(
        PERSONAL_DATA_KINDS, description="Which kinds are masked."
    )
    mask_countries: Texts = Field(
        (), description="Countries whose national ids are masked, as ISO 3166 codes, e.g. SG."
    )
    mask_phone_regions: Texts = Field(
        (), description="Countries as which telephone numbers without + are read; none: those with + alone are masked."
    )
    mask_patterns: Mapping[str, str] = Field(
        default_factory=dict, description="Own patterns: name, which stands in the pseudonym, to regular expression."
    )
    mask_allow: Texts = Field(
        (), description="What is never masked, such as the bank's own hotline; @bank.example: all of its addresses."
    )
    maskers: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict, description="Further maskers, e.g. of names: name of the installed one to its options."
    )
