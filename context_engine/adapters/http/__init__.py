"""The one way out: every server is asked over HTTP from here, with the same care for time, size and keys.

A server is an `Api`: its address, the header of its key, its limits and a table of what its statuses mean. An
`ApiClient` asks it over a connection of the configuration: in time to the last byte, at most so many bytes, without
cookies or redirects, within the rate of the plan, with a key that is read again when it is refused and shows nowhere.
"""

from context_engine.adapters.http.api import Api, Meaning, below_host, refusal, versioned
from context_engine.adapters.http.client import ApiClient
from context_engine.adapters.http.download import InsideAddress, TooLarge, Untrusted, download
from context_engine.adapters.http.keys import Access, ApiKey, KeyHeader
from context_engine.adapters.http.retry import Backoff, RetryBudget, retried
from context_engine.adapters.http.transport import HttpAnswer, HttpCall

__all__ = [
    "Access",
    "Api",
    "ApiClient",
    "ApiKey",
    "Backoff",
    "HttpAnswer",
    "HttpCall",
    "InsideAddress",
    "KeyHeader",
    "Meaning",
    "RetryBudget",
    "TooLarge",
    "Untrusted",
    "below_host",
    "download",
    "refusal",
    "retried",
    "versioned",
]
