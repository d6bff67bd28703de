"""Keys in the form of C2SP signed notes, and what is derived from them."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from context_engine.audit.formats.keys import COSIGNATURE, Keyring, SigningKey, VerifierKey
from context_engine.audit.formats.strict import FormatError, to_base64
from context_engine.audit.ledger.signing import pending_mac, row_mac
from context_engine.secrecy import MASK, hide

PUBLISHED = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
"""The verifier key in the specification."""

KEY = SigningKey("audit.bank.example/log", bytes(range(32)))


def test_the_published_verifier_key_is_read_and_written_alike() -> None:
    key = VerifierKey.parse(PUBLISHED)
    assert (key.name, key.key_id, key.text) == ("example.com/foo", "530d903a", PUBLISHED)


def test_the_id_is_the_head_of_a_hash_of_name_type_and_key() -> None:
    public = KEY.verifier.public
    assert KEY.key_id == hashlib.sha256(b"audit.bank.example/log\n\x01" + public).hexdigest()[:8]
    witness = VerifierKey(KEY.name, public, COSIGNATURE)
    assert witness.key_id == hashlib.sha256(b"audit.bank.example/log\n\x04" + public).hexdigest()[:8]
    assert VerifierKey.parse(witness.text) == witness


def test_a_signing_key_is_read_and_written_alike() -> None:
    assert KEY.text.startswith(f"PRIVATE+KEY+audit.bank.example/log+{KEY.key_id}+")
    assert SigningKey.parse(f" {KEY.text}\n") == KEY


def test_a_key_signs_what_its_public_half_accepts() -> None:
    signature = KEY.sign(b"text")
    assert KEY.verifier.accepts(signature, b"text")
    assert not KEY.verifier.accepts(signature, b"Text")
    assert not KEY.verifier.accepts(signature[:-1], b"text")


def test_each_new_key_is_another() -> None:
    assert SigningKey.generate("log").seed != SigningKey.generate("log").seed


def test_no_seed_shows() -> None:
    key = SigningKey.generate("log")
    SigningKey.parse(key.text)
    public, _ = key.text.rsplit("+" + key.key_id + "+", 1)
    assert key.seed.hex() not in repr(key) and repr(key.seed) not in repr(key)
    assert hide(f"the key is {key.text}!") == f"the key is {public}+{key.key_id}+{MASK}!"
    assert repr(key.seed) not in repr(Keyring(key))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PRIVATE+KEY+",
        KEY.verifier.text,
        KEY.text[:-4],
        KEY.text.replace(KEY.key_id, "00000000"),
        KEY.text.replace("bank", "Bank"),
        f"PRIVATE+KEY+log+00000000+{to_base64(bytes([2]) + bytes(32))}",
    ],
)
def test_what_is_no_signing_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        SigningKey.parse(text)
    assert not text.removeprefix("PRIVATE+KEY+") or text not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one+two",
        PUBLISHED[:-1],
        PUBLISHED.replace("530d903a", "530D903A"),
        PUBLISHED.replace("foo", "bar"),
        f"log+00000000+{to_base64(bytes([6]) + bytes(32))}",
        f"l g+00000000+{to_base64(bytes([1]) + bytes(32))}",
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        VerifierKey.parse(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\nb", "a\x00"])
def test_a_name_has_no_spaces_and_no_plus_sign(name: str) -> None:
    with pytest.raises(FormatError):
        SigningKey.generate(name)


def test_what_is_derived_is_another_for_each_purpose_and_key() -> None:
    other = SigningKey(KEY.name, bytes(32))
    derived = {KEY.derived("mac"), KEY.derived("pseudonym"), other.derived("mac"), KEY.seed}
    assert len(derived) == 4 and {len(one) for one in derived} == {32}
    # RFC 5869 with an empty salt and one block: HMAC(HMAC(0, seed), info || 1)
    extracted = hmac.digest(bytes(32), KEY.seed, "sha256")
    assert KEY.derived("mac") == hmac.digest(extracted, b"context-engine audit mac v1\x01", "sha256")


def test_a_keyring_has_the_mac_keys_of_former_keys() -> None:
    new, old = SigningKey.generate("log"), SigningKey.generate("log")
    ring = Keyring.parse([new.text, old.text])
    assert ring is not None
    assert ring.key_id == new.key_id
    assert ring.mac_key(old.key_id) == old.derived("mac")
    assert ring.mac_key(new.key_id) == new.derived("mac")
    assert ring.mac_key("00000000") is None
    assert ring.verifiers == (new.verifier, old.verifier)
    assert ring.pseudonym_keys == (ring.pseudonym_key, old.derived("pseudonym"))


def test_no_keys_are_no_keyring() -> None:
    assert Keyring.parse([]) is None


def test_a_row_mac_covers_index_and_leaf() -> None:
    key, leaf = bytes(32), b"l" * 32
    assert row_mac(key, 258, leaf) == hmac.digest(key, b"\0\0\0\0\0\0\x01\x02" + leaf, "sha256")
    assert pending_mac(key, leaf) == hmac.digest(key, b"pending" + leaf, "sha256")
