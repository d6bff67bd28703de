"""Files in a folder, read by their loaders; the bank's own files."""

import io
import zipfile
from pathlib import Path

import pytest

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import load

DOCUMENTS = Path(__file__).parents[3] / "data" / "documents"


@pytest.fixture
def read(folder):
    """Read one file, given by its content: everything its loader yields."""

    def run(content, name, **options):
        root = folder({name: content})
        return list(load(root / name, root, **options))

    return run


@pytest.fixture
def one(read):
    """Read a file that holds one document."""

    def run(content, name):
        (loaded,) = read(content, name)
        assert isinstance(loaded, LoadedDocument), loaded
        return loaded

    return run


@pytest.fixture
def empty(read):
    """Read a file that is read and gives nothing: what is said of it."""

    def run(content, name):
        (skipped,) = read(content, name)
        assert isinstance(skipped, Skipped), skipped.text
        assert not skipped.error, "it was read: it is no file that could not be"
        return skipped.reason

    return run


@pytest.fixture
def refused(read):
    """Read a file that gives one error and nothing else: its reason."""

    def run(content, name, **options):
        (skipped,) = read(content, name, **options)
        assert isinstance(skipped, Skipped), skipped.text
        assert skipped.error
        assert skipped.path == name
        return skipped.reason

    return run


@pytest.fixture
def shipped():
    """The content of one of the bank's files."""
    return lambda name: (DOCUMENTS / name).read_bytes()


@pytest.fixture
def zipped():
    """A zip archive changed: {part: function on its bytes}, and parts added."""

    def change(data, changes=None, added=()):
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in source.infolist():
                part = (changes or {}).get(entry.filename, bytes)(source.read(entry))
                target.writestr(entry.filename, part)
            for name, part in dict(added).items():
                target.writestr(name, part)
        return out.getvalue()

    return change


@pytest.fixture
def saved():
    """The bytes of what an object's `save` writes."""

    def run(document):
        out = io.BytesIO()
        document.save(out)
        return out.getvalue()

    return run


@pytest.fixture
def counter():
    return ApproxTokenCounter()
