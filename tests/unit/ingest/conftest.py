"""A sink that remembers, and folders to ingest."""

import os

import pytest

from context_engine.core.models import DocumentRule, SourceSpec


class MemorySink:
    """A document sink in memory; counts what is asked of it."""

    def __init__(self):
        self.held = {}
        self.puts = 0
        self.commits = []

    def put(self, source_id, document_id, version, content_hash, chunks):
        self.puts += 1
        key = (source_id, document_id, version)
        if self.held.get(key, ("", []))[0] == content_hash:
            return False
        self.held[key] = (content_hash, list(chunks))
        return True

    def delete(self, source_id, document_id, version):
        return self.held.pop((source_id, document_id, version), None) is not None

    def documents(self, source_id):
        return {key[1:]: value[0] for key, value in self.held.items() if key[0] == source_id}

    def file_of(self, source_id, document_id, version):
        chunks = self.held.get((source_id, document_id, version), ("", []))[1]
        return chunks[0].metadata.get("source_file") if chunks else None

    def commit(self):
        self.commits.append(len(self.held))

    def chunks(self, document_id, version=""):
        return next(value[1] for key, value in self.held.items() if key[1:] == (document_id, version))


@pytest.fixture
def sink():
    return MemorySink()


@pytest.fixture
def make_sink():
    return MemorySink


@pytest.fixture
def folder(tmp_path):
    """Write {relative path: text or bytes} below a new folder; call it to get the folder."""

    def write(files):
        root = tmp_path / "bank"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return write


@pytest.fixture
def source():
    """Make a source from {glob: doc_type}."""

    def make(rules, source_id="sops", source_type="bank_sop", **rule):
        documents = tuple(DocumentRule(include=glob, doc_type=doc_type, **rule) for glob, doc_type in rules.items())
        return SourceSpec(id=source_id, type=source_type, documents=documents)

    return make


@pytest.fixture
def bank():
    """A source that takes every file given to it by name."""
    return SourceSpec(id="sops", type="bank_sop")


@pytest.fixture
def aged():
    """Date the files of a folder back, so that their times are not too young to be trusted."""

    def age(root):
        for file in root.rglob("*"):
            os.utime(file, (1_700_000_000, 1_700_000_000))
        return root

    return age
