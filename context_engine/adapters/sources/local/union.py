"""Several indexes of one schema as one: its statistics are those of an index that holds all their documents.

An index is a list of segments, and a segment is a few files that never change. So a folder of links to the segments of
several indexes, with the list of all of them, opens as one index; nothing is copied. A single index is opened so too:
the engine writes a lock beside what it opens, and a reader may not be allowed to write to the base.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tantivy

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local.link_folder import link, link_folder


def union(paths: Sequence[Path], metas: Sequence[Mapping[str, Any]]) -> tantivy.Searcher:
    """Return a searcher over several indexes; equal scores stand in the order of the indexes.

    The folder of links is gone when this returns: the searcher has the files open.

    Args:
        paths: directories of the indexes, at least one.
        metas: the content of each `meta.json` (`index.read_meta`).

    Raises:
        OSError, ValueError: a file is not there, or not any more; look at the indexes again.
        StoreError: there is no place for temporary folders.
    """
    with link_folder() as folder:
        for path, meta in zip(paths, metas, strict=True):
            held = indexing.segments(meta)
            for file in os.scandir(path.absolute()):
                if file.name.partition(".")[0] in held:
                    link(Path(file.path), folder / file.name)
        joined = {
            **metas[0],
            "segments": [segment for meta in metas for segment in meta["segments"]],
            "opstamp": max(meta["opstamp"] for meta in metas),
        }
        (folder / indexing.META).write_text(json.dumps(joined), "utf-8")
        return indexing.opened(folder).searcher()
