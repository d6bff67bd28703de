"""Notices about an answer: a code for programs and a sentence for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from context_engine.core.models.chunk import NOTHING, json_value


class NoticeCode(StrEnum):
    """The kinds of notice. A code never changes its meaning; its sentence may be reworded at any time.

    Attributes:
        fields: the names that `detail` may hold.
    """

    fields: tuple[str, ...]

    def __new__(cls, code: str, meaning: str, fields: str = "") -> Self:
        """Return a code with its meaning as docstring; `fields` are separated by spaces."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.__doc__, member.fields = meaning, tuple(fields.split())
        return member

    @property
    def sentence(self) -> str:
        """The meaning, as the message of a notice without values of its own."""
        return self.__doc__ or str(self)

    # The query
    QUERY_SHORTENED = "query_shortened", "The query was too long and was cut.", "characters given limit"
    QUERY_NOT_REFINED = "query_not_refined", "The query refiner failed: the query is searched as is.", "refiner problem"
    REFINEMENT_UNUSED = ("refinement_unused", "A refiner's wording lost codes or phrases: not used.", "refiner lost")

    QUERY_CORRECTED = (
        "query_corrected",
        "Nothing was found for the query as written: the suggested spelling was searched for.",
        "searched words",
    )
    SPELLING_SUGGESTED = (
        "spelling_suggested",
        "Words of the query occur in no text, or misspell a name of the glossary: another spelling is suggested.",
        "suggested words",
    )
    PHRASE_NOT_FOUND = "phrase_not_found", "No text found contains a quoted phrase of the query.", "phrase"

    # A source's answer; the subject is the source
    SOURCE_NOTE = "source_note", "A remark of a source, in the source's words."
    NOTICES_LEFT_OUT = "notices_left_out", "A source sent more notices than are kept.", "count"
    CHUNKS_REFUSED = "chunks_refused", "Chunks without text were refused.", "count"
    CHUNK_UNREADABLE = "chunk_unreadable", "A chunk could not be read and was left out.", "problem"
    FIELD_UNUSABLE = (
        "field_unusable",
        "A field's value is unusable and counts as unknown.",
        "chunk_id field metadata value problem",
    )
    SCORE_UNUSABLE = (
        "score_unusable",
        "A score is outside the range of its kind and counts as absent.",
        "chunk_id kind value",
    )
    SCORE_KIND_MISSING = (
        "score_kind_missing",
        "Scores came without their kind and are not used: the engine's own lexical score ranks.",
        "count",
    )
    KEY_MISSPELT = "key_misspelt", "An unknown key of chunk dicts is close to a known one.", "key meant count"
    TEXT_REPAIRED = "text_repaired", "Text of a chunk was not valid Unicode, or too long: repaired.", "chunk_id fields"
    METADATA_REPAIRED = (
        "metadata_repaired",
        "Metadata of a chunk was too large, too deep or not valid: repaired.",
        "chunk_id field change",
    )
    SUB_QUERIES_UNANSWERED = (
        "sub_queries_unanswered",
        "A source did not answer every part of the question.",
        "unanswered parts",
    )
    LINKS_NOT_FOLLOWED = (
        "links_not_followed",
        "A source failed to give the chunks that the best ones cite or stand beside.",
        "problem",
    )
    REFILL_FAILED = ("refill_failed", "A source failed to give more candidates: its first answer is used.", "problem")
    SOURCE_UNKNOWN = "source_unknown", "Nothing was ever ingested for the source into its embedded base."
    NO_SEARCH_TERMS = "no_search_terms", "The query contains no word that the embedded base can search for."
    NO_VECTORS = "no_vectors", "The embedded base has no vectors of its embedder: it was searched by text only."
    ANN_RECALL_LOW = (
        "ann_recall_low",
        "The index for vectors missed too many neighbours: all vectors are compared instead.",
        "recall",
    )
    ADAPTER_UNUSABLE = (
        "adapter_unusable",
        "The search's adapter is damaged, missing or for another model: vectors were compared without it.",
        "adapter",
    )
    BASE_OUTDATED = (
        "base_outdated",
        "An older version wrote the embedded base: it is only read, without near misses, until 'kb rebuild'.",
    )
    INDEX_LAG = (
        "index_lag",
        "The index of the embedded base is behind the last write: the next 'ingest' or 'kb rebuild' completes it.",
    )
    CHUNK_WITHOUT_TEXT = (
        "chunk_without_text",
        "A chunk without text, or with pictures only, was left out.",
        "dataset_id chunk_id pictures",
    )
    DOCUMENT_UNFINISHED = (
        "document_unfinished",
        "A document is being written, or writing it was interrupted: parts of it may be missing.",
        "dataset_id document_id",
    )
    LEG_NOT_ASKED = "leg_not_asked", "Only one of two searches was made: the call budget does not cover both."
    HYBRID_SEARCH_EMPTY = (
        "hybrid_search_empty",
        "A dataset's hybrid search returned nothing, but its semantic search did: its reranker may be broken.",
        "dataset_id reranker",
    )
    DATASET_NOT_DESCRIBED = (
        "dataset_not_described",
        "Dify could not be asked how a dataset is indexed: the last known answer or the manifest was used.",
        "dataset_id problem used",
    )
    STALE_ANSWER = "stale_answer", "An older answer was used because Dify gave none.", "dataset_id age_s problem"
    FILTER_IGNORED = "filter_ignored", "Dify did not apply the filter: the engine did.", "dataset_id"
    PASSAGES_UNREGISTERED = (
        "passages_unregistered",
        "Passages to rank belong to no source in a manifest and count as general web, tier 5.",
        "origins",
    )

    # An examination of a Dify dataset; the subject is the dataset
    DATASET_EXTERNAL = "dataset_external", "A dataset's knowledge is outside Dify, where Dify's API cannot search."
    DATASET_SWITCHED_OFF = "dataset_switched_off", "A dataset's access over the API is switched off."
    DATASET_EMPTY = "dataset_empty", "A dataset has no searchable document."
    DOCUMENTS_DAMAGED = "documents_damaged", "An ingest left damaged documents.", "count names"
    DATASET_NOT_LISTED = "dataset_not_listed", "A dataset's documents could not be listed.", "problem"
    INDEX_UNRANKED = "index_unranked", "A dataset has an economy index: its answers are unranked."
    INDEX_WITHOUT_RERANKER = "index_without_reranker", "A dataset has neither a reranker nor weights."
    INDEX_NOT_AS_DECLARED = "index_not_as_declared", "The manifest declares another index.", "declared found"
    CHUNK_LINE_MISSING = "chunk_line_missing", "Documents lack the first line that the manifest expects.", "names"
    METADATA_MISSING = "metadata_missing", "The manifest names metadata that a dataset does not have.", "names"

    # Writing to a Dify dataset; the subject is the source
    DOCUMENT_DISABLED = "document_disabled", "A document is disabled or archived in Dify.", "document"
    DOCUMENT_NOT_DELETED = "document_not_deleted", "Dify did not delete a document.", "document_id problem"
    DOCUMENTS_UNFINISHED = (
        "documents_unfinished",
        "Documents are being written by another run, or writing them was interrupted.",
        "count",
    )
    DOCUMENTS_EMPTY = (
        "documents_empty",
        "A dataset has empty documents without metadata that do not belong to this run.",
        "count",
    )
    DOCUMENTS_OF_EARLIER_RELEASE = (
        "documents_of_earlier_release",
        "Documents were written by an earlier release or with another line: they are written again.",
        "count dataset_id",
    )
    METADATA_VALUE_LEFT_OUT = (
        "metadata_value_left_out",
        "A value of metadata does not fit its field in Dify and was left out.",
        "metadata kind",
    )
    METADATA_FIELD_LEFT_OUT = (
        "metadata_field_left_out",
        "A metadata field was left out: Dify accepts no further fields, or rejects this name.",
        "metadata fields",
    )

    # Ranking
    CHUNK_ID_REUSED = "chunk_id_reused", "A source gave one chunk id to several texts: all are kept.", "chunk_id texts"
    CLAIM_REFUSED = "claim_refused", "A document claims more authority than its manifest grants.", "chunk_id claimed"
    THRESHOLD_NOT_APPLICABLE = (
        "threshold_not_applicable",
        "Candidates without a score of the threshold's kind passed untested.",
        "count tested kind origin",
    )
    RERANK_FAILED = "rerank_failed", "The model reranker failed: the order is the one without it.", "problem"
    NEAR_MISS = (
        "near_miss",
        "No candidate tells as much of what is asked as for questions that the knowledge base answers.",
        "evidence threshold",
    )
    LEARNT_BLEND_NOT_USED = (
        "learnt_blend_not_used",
        "The domain's learnt blend was learnt with other scorers: the order is the one without it.",
        "problem",
    )
    REQUIRED_TIER_MISSING = "required_tier_missing", "No returned chunk has a required tier.", "tier"
    REQUIRED_SOURCE_MISSING = "required_source_missing", "No returned chunk comes from a required source."
    FILTER_LEFT_NOTHING = "filter_left_nothing", "No candidate passed the filter of the request."
    FILTER_FIELD_UNKNOWN = (
        "filter_field_unknown",
        "The filter names a field that no known source has.",
        "field fields",
    )
    DATES_UNKNOWN = (
        "dates_unknown",
        "Returned chunks carry no dates: it is unknown whether they were in force on the requested day.",
        "count as_of",
    )
    SOURCES_NOT_SEARCHED = "sources_not_searched", "Some sources of the domain were not searched for the caller."
    INJECTION_SUSPECTED = (
        "injection_suspected",
        "A returned chunk reads like instructions to a model, or imitates marks of a prompt or of this engine.",
        "chunk_id kinds",
    )
    FROM_CACHE = "from_cache", "The answer to an equal search was kept and is given again.", "age_s"
    KEYWORDS_ONLY = "keywords_only", "Only sources that search by a few keywords of each chunk were searched."

    # A configuration; the subject is the variable, the connection, the file or the source
    VARIABLE_UNKNOWN = "variable_unknown", "A variable looks like one of this engine's, but is unknown."
    API_KEY_UNENCRYPTED = "api_key_unencrypted", "A connection sends its key over plain http."
    API_KEY_IN_FILE = "api_key_in_file", "A file holds the key itself instead of a variable."
    CONNECTION_UNUSED = (
        "connection_unused",
        "A connection is not used by any source, model, witness or identity provider.",
    )
    VECTORS_CUT = (
        "vectors_cut",
        "Vectors are cut shorter than the shortest length the model is known to be trained for.",
        "dimensions shortest",
    )
    NO_DOMAIN = "no_domain", "No domain is registered."
    SOURCE_SHARED = ("source_shared", "Domains have a source with the same id and share its documents.", "domains")
    SOURCE_WITHOUT_RULE = (
        "source_without_rule",
        "A source above internal has no access rule: every caller of the engine may search it.",
        "domain classification",
    )
    DATASET_RULES_DIFFER = (
        "dataset_rules_differ",
        "A dataset is in sources with different access rules: a caller of one of them can read all of it.",
        "sources",
    )
    HOLDER_UNKNOWN = "holder_unknown", "A rule names a role or group that no principal of access.yaml has.", "kind name"
    ACCESS_FILE_WRITABLE = "access_file_writable", "Every user of this machine can change access.yaml, or its folder."
    DATASET_KEY_UNBOUND = (
        "dataset_key_unbound",
        "Dify's dataset key acts as the owner of its workspace: only the access rules restrict callers.",
        "connections",
    )
    MANIFEST_UNUSABLE = (
        "manifest_unusable",
        "A manifest is invalid: its domain cannot be searched, all others can.",
        "domain",
    )
    DATA_LEFT_BEHIND = (
        "data_left_behind",
        "Nothing was ingested yet, but data of the same domains exists whose configuration was moved elsewhere.",
        "path manifest_dir domains",
    )
    PRIVACY_KEY_MISSING = (
        "privacy_key_missing",
        "Personal data is masked with a random key: pseudonyms differ between processes.",
    )
    AUDIT_KEY_MISSING = "audit_key_missing", "Answers require a record, but the records are not signed."
    AUDIT_LEDGER_WRITABLE = "audit_ledger_writable", "Every user of this machine can change the ledger, or its folder."
    AUDIT_CHECKPOINT_STUCK = ("audit_checkpoint_stuck", "A checkpoint could not be delivered everywhere.", "ways")
    AUDIT_RECORDS_LOST = "audit_records_lost", "Searches are not recorded: the ledger was down or slow.", "count"
    FILE_MISNAMED = ("file_misnamed", "A file looks like one of the engine's, but its name is wrong.", "name")
    FILE_PASSED_OVER = "file_passed_over", "A file is unusable and may belong to another program.", "problem"

    # A plugin package; the subject is the key that names a file, or the platform
    FILE_NEEDED = "file_needed", "A file must exist where the plugin runs.", "path"
    PLATFORM_BOUND = "platform_bound", "The package contains wheels of one platform and installs on no other."

    # An evaluation
    SOURCE_FAILED = "source_failed", "A source did not answer, or not in full.", "code problem"
    ALL_SOURCES_FAILED = "all_sources_failed", "No source answered."
    QUESTIONS_NOT_ASKED = "questions_not_asked", "Judged questions are missing from the file of questions.", "count"
    QUESTIONS_WITHOUT_ANSWER = "questions_without_answer", "Questions without a relevant answer are left out.", "count"
    QUESTIONS_NOT_JUDGED = "questions_not_judged", "Questions that were never judged are left out.", "count"
    GOLD_NOT_CHECKED = (
        "gold_not_checked",
        "Gold ids could not be checked, because a source cannot be listed.",
        "ids sources",
    )
    THRESHOLDS_DIFFER = (
        "thresholds_differ",
        "Domains have different thresholds in force: one is shown.",
        "thresholds shown",
    )

    # A file that is ingested; the subject is the file, a record in it, or a source
    ENCODING_GUESSED = "encoding_guessed", "A file is not UTF-8: its encoding was guessed.", "encoding line"
    PART_DAMAGED = "part_damaged", "A part of a file is damaged or missing: the rest was read."
    HIDDEN_LEFT_OUT = "hidden_left_out", "Hidden text, cells, slides or fields of a file were left out.", "count"
    EMBEDDED_NOT_READ = "embedded_not_read", "Embedded or attached files were not read.", "names"
    PAGES_RECOGNISED = "pages_recognised", "Text of pictured pages was recognised (OCR): it may be wrong.", "pages"
    PAGES_NOT_READ = "pages_not_read", "Pages are pictures without text, or damaged: they were not read.", "pages"
    LETTERS_UNMAPPED = "letters_unmapped", "A font does not define its letters: the text may be wrong.", "count"
    SYMBOLS_LEFT_OUT = "symbols_left_out", "Symbols of a font without letters were left out.", "count"
    CONTENTS_LEFT_OUT = "contents_left_out", "A table of contents was left out.", "lines pages"
    TABLES_READ = "tables_read", "Tables of a PDF were read as rows below the names of their columns.", "count pages"
    TABLES_AS_TEXT = "tables_as_text", "Any tables of a PDF were read as text.", "pages"
    RUNNING_HEADS_LEFT_OUT = "running_heads_left_out", "Running headers and footers were kept once.", "count pages"
    PAGE_NUMBERS_LEFT_OUT = "page_numbers_left_out", "Page numbers were left out of the text."
    BOILERPLATE_LEFT_OUT = "boilerplate_left_out", "Parts of a page that are not its content were left out.", "kind"
    CELLS_NOT_READ = "cells_not_read", "Cells beyond the last column were not read.", "count"
    FORMULA_WITHOUT_VALUE = "formula_without_value", "Formulas without a saved value were kept as formulas.", "count"
    HEADER_ROW_ASSUMED = "header_row_assumed", "A row was taken as the column names."
    ID_REPEATED = "id_repeated", "A record repeats the id of another: it is identified by its place."
    RECORD_REPAIRED = "record_repaired", "A malformed line or record was read as it stands."
    DOCUMENT_REPAIRED = "document_repaired", "Text or metadata of a document was not valid: repaired."
    OUTSIDE_QUESTIONS = "outside_questions", "Text outside of questions and answers was left out.", "count"
    PARENT_LONG = "parent_long", "A whole document is long for a single parent, which every hit returns.", "count"
    PARENT_SPLIT = "parent_split", "A section was too long for one parent and was split over several.", "section count"
    FURTHER_NOTICES = "further_notices", "A file caused more notices than are kept.", "count"
    DECLARED_FIELD_UNUSABLE = (
        "declared_field_unusable",
        "A field that a document declares is unusable as written.",
        "field value",
    )
    NEVER_IN_FORCE = "never_in_force", "A document's effective dates leave no day on which it is in force."
    FIELDS_NOT_CARRIED = "fields_not_carried", "Fields are too long for the metadata of every chunk.", "fields"
    DOC_TYPE_UNKNOWN = "doc_type_unknown", "A document's type has no row in the chunking table.", "doc_type"
    DOC_TYPE_ASSUMED = "doc_type_assumed", "No rule gives documents a type: they were cut as 'default'.", "count"
    RULE_OTHERWISE = ("rule_otherwise", "Documents were taken by the rule for all other files.", "count")
    NOT_PRUNED = "not_pruned", "Documents were kept because their file or its folder could not be read.", "count"
    DOCUMENTS_GONE = ("documents_gone", "Documents are no longer in the folder: --prune removes them.", "count")
    SOURCE_EMPTIED = (
        "source_emptied",
        "The folder has no file of a source: its documents are kept until --allow-empty confirms this.",
        "count",
    )


BESIDE_THE_ANSWER: Final = frozenset(
    {
        NoticeCode.QUERY_CORRECTED,
        NoticeCode.SPELLING_SUGGESTED,
        NoticeCode.PHRASE_NOT_FOUND,
        NoticeCode.FILTER_FIELD_UNKNOWN,
        NoticeCode.FILTER_LEFT_NOTHING,
        NoticeCode.DATES_UNKNOWN,
        NoticeCode.NEAR_MISS,
        NoticeCode.REQUIRED_TIER_MISSING,
        NoticeCode.REQUIRED_SOURCE_MISSING,
        NoticeCode.THRESHOLD_NOT_APPLICABLE,
        NoticeCode.MANIFEST_UNUSABLE,
        NoticeCode.SOURCES_NOT_SEARCHED,
        NoticeCode.INDEX_LAG,
    }
)
"""Notices that change how to read an answer: every output shows them. The others are listed as warnings."""


class Notice(NamedTuple):
    """One thing a reader should know.

    Attributes:
        code: the kind of notice; programs act on it, never on the message.
        subject: a source id, setting, file or domain; "" for the whole answer or run.
        message: a sentence for people.
        detail: the values in the message, by name; JSON values only.
    """

    code: NoticeCode
    subject: str
    message: str
    detail: Mapping[str, Any] = NOTHING

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "code": str(self.code),
            "subject": self.subject,
            "message": self.message,
            "detail": json_value(self.detail),
        }


def messages(notices: Iterable[Notice]) -> tuple[str, ...]:
    """Return the sentences of notices, in their order."""
    return tuple(notice.message for notice in notices)


def about(subject: str, notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices, those without a subject with this one."""
    return tuple(notice if notice.subject else notice._replace(subject=subject) for notice in notices)


def distinct(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices in their order, each once."""
    return tuple({json.dumps(notice.to_dict(), sort_keys=True, default=str): notice for notice in notices}.values())
