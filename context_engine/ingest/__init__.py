"""Load, chunk, write."""

from context_engine.ingest.documents import PreparedDocument, chunks_of, prepare
from context_engine.ingest.files import original_name, shown_name
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import LOADERS, MOST_BYTES, load
from context_engine.ingest.reading import CutDocument, IngestOptions
from context_engine.ingest.report import IngestReport, RefusedDocument
from context_engine.ingest.run import Progress, RefusingSink, ingest
from context_engine.ingest.scan_cache import ScanCache
from context_engine.ingest.workers import cut_loaded, read_one

__all__ = [
    "LOADERS",
    "MOST_BYTES",
    "CutDocument",
    "IngestOptions",
    "IngestReport",
    "LoadedDocument",
    "PreparedDocument",
    "Progress",
    "RefusedDocument",
    "RefusingSink",
    "ScanCache",
    "Skipped",
    "chunks_of",
    "cut_loaded",
    "ingest",
    "load",
    "original_name",
    "prepare",
    "read_one",
    "shown_name",
]
