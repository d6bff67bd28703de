"""Counters by name, from files made here; nothing asks the network."""

import base64
import builtins
import json
import pickle

import pytest

from context_engine.adapters.token_counters import ENCODINGS, TiktokenCounter, TokenizersCounter, open_counter
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.protocols import TokenCounter
from context_engine.errors import ConfigError, MissingExtra

CACHED = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"  # the name that tiktoken's cache gives cl100k_base


@pytest.fixture
def encoding(tmp_path):
    """An encoding of the 256 bytes and two merges: "li" and "lim"."""
    tokens = [bytes([one]) for one in range(256)] + [b"li", b"lim"]
    rows = (f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens))
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer of words that truncates at two and pads to eight."""
    path = tmp_path / "words" / "tokenizer.json"
    path.parent.mkdir()
    vocabulary = {"[UNK]": 0, "limit": 1, "[PAD]": 2}
    strategy = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    padding = {"direction": "Right", "pad_id": 2, "pad_to_multiple_of": None, "pad_token": "[PAD]", "pad_type_id": 0}
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": strategy,
                "padding": {"strategy": {"Fixed": 8}, **padding},
                "added_tokens": [],
                "pre_tokenizer": {"type": "Whitespace"},
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
            }
        )
    )
    return path


def test_tiktoken_counts_with_the_file(encoding):
    counter = TiktokenCounter(encoding)
    assert counter.name == "tiktoken/cl100k_base"
    assert counter.count("limit") == 3  # lim i t
    assert counter.count("限") == 3  # three bytes
    assert counter.count("") == 0
    assert counter.count("<|endoftext|>") > 1  # text, not a special token


@pytest.mark.parametrize("name", ["cl100k_base.tiktoken", CACHED])
def test_tiktoken_finds_the_file_in_a_folder(encoding, name):
    encoding.rename(encoding.with_name(name))
    env = {"TIKTOKEN_CACHE_DIR": str(encoding.parent)}
    assert open_counter("tiktoken:cl100k_base", env=env).count("lim") == 1


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_can_be_described_without_the_network(encoding, name, monkeypatch):
    def refused(*_):
        raise AssertionError("the network is asked")

    monkeypatch.setattr("tiktoken.load.read_file", refused)
    monkeypatch.setattr("tiktoken.load.read_file_cached", refused)
    if name.endswith("k_base") and name[0] in "pr":  # these check that their vocabulary is whole
        with pytest.raises(ConfigError, match="is incomplete"):
            TiktokenCounter(encoding, name)
    else:
        assert TiktokenCounter(encoding, name).count("lim") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [("no base64 here at all", "is not an encoding"), ("bGk= one", "is not an encoding"), ("bGk= 1", "is incomplete")],
)
def test_a_file_that_is_no_encoding(tmp_path, text, problem):
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        TiktokenCounter(path)


def test_a_file_that_is_not_there_says_where_to_put_it(tmp_path):
    with pytest.raises(ConfigError, match=r"bring the file here, and set TIKTOKEN_CACHE_DIR"):
        open_counter("tiktoken:o200k_base", env={"TIKTOKEN_CACHE_DIR": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"the folder with the file of o200k_base is not set"):
        open_counter("tiktoken:o200k_base", env={})
    with pytest.raises(ConfigError, match=r"bring the tokenizer.json of the model here"):
        open_counter(f"tokenizers:{tmp_path}")


def test_tokenizers_counts_the_whole_text_and_nothing_else(tokenizer):
    counter = TokenizersCounter(tokenizer)
    assert counter.count("limit of the limit") == 4
    assert counter.count("") == 0
    assert counter.count(" ") == 1
    assert counter.name.startswith("tokenizers/words#")
    assert open_counter(f"tokenizers:{tokenizer.parent}").name == counter.name


def test_a_file_that_is_no_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match="is not a tokenizer"):
        TokenizersCounter(path)


def test_the_approximate_counter_needs_nothing():
    assert isinstance(open_counter("approx"), ApproxTokenCounter)
    assert isinstance(open_counter("approx"), TokenCounter)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tiktokn:cl100k_base", "is not known.*tiktoken"),
        ("tiktoken", "of the form 'tiktoken:cl100k_base'"),
        ("tokenizers:", "of the form 'tokenizers:FOLDER'"),
        ("approx:2", "of the form 'approx'"),
        ("tiktoken:cl100k", "encoding 'cl100k' is not known.*cl100k_base"),
    ],
)
def test_names_that_are_not_known(name, problem):
    with pytest.raises(ConfigError, match=problem):
        open_counter(name, env={})


@pytest.mark.parametrize("library", ["tiktoken", "tokenizers"])
def test_without_the_extra_the_error_names_it(library, encoding, tokenizer, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.split(".")[0] == library and not args[0]["__name__"].startswith("pytest"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    path = encoding if library == "tiktoken" else tokenizer
    with pytest.raises(MissingExtra, match=r"context-engine\[tokens\]"):
        open_counter(f"{library}:{path}")


def test_counters_can_be_handed_to_other_processes(encoding, tokenizer):
    for counter in (TiktokenCounter(encoding), TokenizersCounter(tokenizer)):
        other = pickle.loads(pickle.dumps(counter))
        assert (other.name, other.count("limit lim")) == (counter.name, counter.count("limit lim"))
