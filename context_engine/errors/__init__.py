"""Every error the engine raises.

ContextEngineError
├── InvalidRequest            a query, an option or a chunk that cannot be used
│   ├── UnknownDomain         the domain is not registered; lists the known ones
│   ├── CursorExpired         the rest of an answer is no longer kept; ask again
│   ├── JobNotFound           there is no such job, or it is somebody else's
│   └── InvalidFilter         a filter that cannot be read
├── ConfigError               an unusable file, key or variable; names it and the remedy
│   ├── MissingVariable       ${NAME} is not set
│   └── MissingExtra          an optional dependency is not installed; names the extra
├── SourceError               one source could not answer (retryable, retry_after_s)
│   ├── SourceAuthError       the credentials were refused
│   ├── SourceForbidden       the credentials are valid but lack access
│   ├── SourceNotFound        the dataset, index or file does not exist
│   ├── SourceRateLimited     the quota is used up
│   ├── SourceBusy            its limit of parallel calls is reached, or a call is overdue
│   ├── SourceTimeout         no answer in time
│   ├── SourceUnavailable     down, unreachable or failing inside
│   │   └── RepartitionRequired   its access rules changed after its documents were written
│   ├── FetchUnsupported      its adapter cannot give chunks by their ids
│   └── SourceProtocolError   an answer that breaks the contract
├── RetrievalFailed           a search without an answer to give
│   ├── AllSourcesFailed      no source answered; carries every status
│   └── EvidenceIncomplete    strict search, and required evidence is missing
├── NotAuthenticated          no token, or an invalid one
├── TokensUnchecked           tokens cannot be checked at the moment; ask again
├── NotPermitted              the token is valid but does not allow this
├── Overloaded                the service is at its limit; ask again (retry_after_s)
├── PolicyError               the access policy failed; nothing is searched
├── RerankerError             a reranker failed; the engine degrades instead of raising it
├── EmbedderError             an embedder failed (retryable)
├── RefinerError              a query refiner failed; the query is searched unchanged
├── ChatModelError            a chat model failed (retryable); holds the text that came before
├── CostLimitReached          a model call could exceed a cost limit, so it was not made
├── BackupError               a backup cannot be made, read or restored; names what and where
├── MaskingError              personal data could not be masked, so the text is withheld
├── AuditError                the audit ledger cannot serve the request
│   ├── AuditUnavailable      an answer could not be recorded, so it is withheld
│   ├── AuditOff              searches are not recorded here
│   ├── LedgerNotFound        no ledger yet; the first record creates it
│   ├── RecordNotFound        the ledger has no record of that id
│   │   └── RecordNotWritten  not yet written; ask again in a moment
│   ├── QueryNotRecorded      the question is needed but was not recorded, or was erased
│   ├── LedgerCorrupt         the stored data is inconsistent; names the next check
│   └── LedgerVersionMismatch  written by a newer version
└── StoreError                the embedded base cannot be used
    ├── StoreLocked           another process is writing
    ├── JobsUnavailable       the database that keeps the jobs cannot be used
    ├── StoreCorrupt          the files are inconsistent; says how to rebuild
    └── StoreVersionMismatch  written by another schema or analyser; says how to rebuild

DegradedRetrieval (a warning): an answer without one of its sources or stages.
"""

from context_engine.errors.base import (
    AuditError,
    AuditOff,
    AuditUnavailable,
    BackupError,
    ConfigError,
    ContextEngineError,
    CursorExpired,
    InvalidFilter,
    InvalidRequest,
    JobNotFound,
    LedgerCorrupt,
    LedgerNotFound,
    LedgerVersionMismatch,
    MaskingError,
    MissingExtra,
    MissingVariable,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    PolicyError,
    QueryNotRecorded,
    RecordNotFound,
    RecordNotWritten,
    TokensUnchecked,
    UnknownDomain,
    closest,
    did_you_mean,
    nearest,
)
from context_engine.errors.sources import (
    AllSourcesFailed,
    ChatModelError,
    CostLimitReached,
    DegradedRetrieval,
    EmbedderError,
    EvidenceIncomplete,
    FetchUnsupported,
    JobsUnavailable,
    RefinerError,
    RepartitionRequired,
    RerankerError,
    RetrievalFailed,
    SourceAuthError,
    SourceBusy,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceTimeout,
    SourceUnavailable,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreVersionMismatch,
    source_error_from,
)

__all__ = [
    "AllSourcesFailed",
    "AuditError",
    "AuditOff",
    "AuditUnavailable",
    "BackupError",
    "ChatModelError",
    "ConfigError",
    "ContextEngineError",
    "CostLimitReached",
    "CursorExpired",
    "DegradedRetrieval",
    "EmbedderError",
    "EvidenceIncomplete",
    "FetchUnsupported",
    "InvalidFilter",
    "InvalidRequest",
    "JobNotFound",
    "JobsUnavailable",
    "LedgerCorrupt",
    "LedgerNotFound",
    "LedgerVersionMismatch",
    "MaskingError",
    "MissingExtra",
    "MissingVariable",
    "NotAuthenticated",
    "NotPermitted",
    "Overloaded",
    "PolicyError",
    "QueryNotRecorded",
    "RecordNotFound",
    "RecordNotWritten",
    "RefinerError",
    "RepartitionRequired",
    "RerankerError",
    "RetrievalFailed",
    "SourceAuthError",
    "SourceBusy",
    "SourceError",
    "SourceForbidden",
    "SourceNotFound",
    "SourceProtocolError",
    "SourceRateLimited",
    "SourceTimeout",
    "SourceUnavailable",
    "StoreCorrupt",
    "StoreError",
    "StoreLocked",
    "StoreVersionMismatch",
    "TokensUnchecked",
    "UnknownDomain",
    "closest",
    "did_you_mean",
    "nearest",
    "source_error_from",
]
