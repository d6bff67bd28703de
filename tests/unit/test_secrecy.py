"""The one filter: a key in use shows in no text, however it is written; and nothing else is lost."""

from __future__ import annotations

import base64
import html
import json
import logging
import threading
from urllib.parse import quote

import pytest

from context_engine.errors import ConfigError, SourceProtocolError
from context_engine.secrecy import MASK, hide, hide_in_error, keep_secret, looks_like_key, redacted
from context_engine.settings.connections import Connection

KEY = "dataset-Vb7Rt2Lq9Zx4Mn6Wc8Hd"
ODD = 'pä"ss&w+rd/ü=12345'


@pytest.fixture(autouse=True)
def in_use() -> None:
    keep_secret(KEY)
    keep_secret(ODD)


@pytest.mark.parametrize("secret", [KEY, ODD])
@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda key: quote(key, safe=""),
        lambda key: json.dumps(key)[1:-1],
        html.escape,
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f"u:{key}".encode()).decode(),
        lambda key: base64.b64encode(f"ab:{key}".encode()).decode(),
        lambda key: base64.b64encode(f"abc:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"x:{key}".encode()).decode(),
    ],
)
def test_a_key_is_hidden_however_it_is_written(secret: str, write: object) -> None:
    written = write(secret)  # type: ignore[operator]
    shown = hide(f"before {written} after")
    assert shown.startswith("before ") and shown.endswith(" after")
    assert MASK in shown
    assert written not in shown
    assert written[4:-4] not in shown


@pytest.mark.parametrize("length", [8, 9, 15, 19])
def test_a_key_that_was_cut_off_is_hidden(length: int) -> None:
    body = KEY.removeprefix("dataset-")
    assert hide(f"bad token dataset-{body[:length]}...") == f"bad token dataset-{MASK}..."
    assert hide(f"token ...{body[-length:]} is bad") == f"token ...{MASK} is bad"


def test_what_only_begins_alike_stays() -> None:
    text = "give it a dataset key ('dataset-…'); dataset-Vb7Rt2L is seven characters of it"
    assert hide(text) == text


def test_a_short_key_does_not_make_asterisks_of_words() -> None:
    Connection(base_url="https://kb.example", api_key="npa")
    keep_secret("")
    text = "the npa process of the npa domain"
    assert hide(text) == hide_in_error(text) == text
    assert redacted("Authorization: Bearer npa") == f"Authorization: Bearer {MASK}"


def test_what_documents_say_of_bearers_stays() -> None:
    text = "The bearer of the bond is paid; Bearer shares are refused; app-development-process, sk-1"
    assert hide(text) == text


def test_errors_hold_no_key_in_use_and_none_that_was_pasted() -> None:
    error = SourceProtocolError(f"the answer is not JSON ({KEY}, 3 bytes)", source_id="sops")
    assert str(error) == f"source 'sops': the answer is not JSON ({MASK}, 3 bytes)"
    assert KEY not in repr(error) + repr(error.args) + repr(error.to_dict())
    pasted = ConfigError("unknown connection 'dataset-9Qz8Wx7Ec6Rv5Tb4'.", file="f.yaml", key="sk-9Qz8Wx7Ec6Rv5Tb4Yn")
    assert "9Qz8" not in str(pasted) + repr(vars(pasted)) + repr(pasted.to_dict())
    assert "unknown connection" in str(pasted)


def test_the_address_of_a_proxy_without_a_user_is_no_secret() -> None:
    Connection(base_url="https://kb.example", proxy="http://10.20.30.40:3128")
    for text in ("http://10.20.30.41:8080 could not be reached", "http://10.20.30.40:3128 refused it"):
        assert hide_in_error(text) == text


def test_a_connection_names_its_key_and_the_password_of_its_proxy() -> None:
    Connection(base_url="https://kb.example", api_key="Kf6Ty8Ui0Op2As4D", proxy="http://user:pr0xy%2Fw0rd@p.example")
    assert hide("Kf6Ty8Ui0Op2As4D and pr0xy/w0rd and pr0xy%2Fw0rd") == f"{MASK} and {MASK} and {MASK}"


@pytest.mark.parametrize("name", ["httpcore.http11", "httpx", "context_engine.adapters.sources.dify.refusals"])
def test_log_records_pass_the_filter(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger(name)
    log.info("HTTP Request: POST %s %s", "http://h/v1", f'"HTTP/1.1 400 {KEY}"')
    log.debug("headers %r", [(b"X-Echo", KEY.encode())])
    try:
        raise ValueError(f"illegal header line {KEY}")
    except ValueError:
        log.warning("a call failed", exc_info=True)
    assert len(caplog.records) == 3
    assert caplog.text.count(MASK) >= 3
    assert "ValueError: illegal header line" in caplog.text
    for record in caplog.records:
        assert KEY not in repr(vars(record)) + record.getMessage()


def test_records_of_others_and_without_a_key_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("somebody.else").info("said %s", KEY)
    logging.getLogger("context_engine.ingest").info("read %d files", 3)
    logging.getLogger("context_engine.ingest").info("arguments that do not fit %d", 1)
    assert caplog.records[0].getMessage() == f"said {KEY}"
    assert caplog.records[1].args == (3,)


def test_the_maker_of_records_is_wrapped_once() -> None:
    made = logging.getLogRecordFactory()
    keep_secret("Another0ne4Good")
    assert logging.getLogRecordFactory() is made


def test_many_threads_may_name_and_hide_at_once() -> None:
    wrong: list[str] = []

    def use(number: int) -> None:
        for turn in range(50):
            key = f"Thr34d{number:02}Turn{turn:02}Xy9"
            keep_secret(key)
            if key in hide(f"<{key}>"):
                wrong.append(key)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    ["DIFY_API_KEY", "dataset-key", "/run/secrets/dify_api_key_prod_2024", "certs/bank-root-ca-2026.pem",
     "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "myDifyApiKeyForUatEnvironment2", "https://dify.bank.example/v1"],
)  # fmt: skip
def test_names_paths_and_ids_do_not_look_like_keys(name: str) -> None:
    assert not looks_like_key(name)


def test_a_key_of_letters_alone_looks_like_one_and_a_long_name_does_not() -> None:
    assert looks_like_key("dataset-vfRhHTgFVluUkKHxWmQeRtZb")
    assert not looks_like_key("dataset-counterpartyriskpolicies")
    assert not looks_like_key("vfRhHTgFVluUkKHxWmQeRtZb")


def test_a_key_that_ends_as_a_hosts_name_does_hides_no_other_host():
    keep_secret("q7Lk2mZt9Rw4xB6n.example")
    assert hide("models.example failed") == "models.example failed"
    assert "Lk2mZt9R" not in hide("cut off: q7Lk2mZt9R"), "its beginning tells what it is"
