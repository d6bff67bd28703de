"""All outbound HTTP: every server is called from here, with the same bounds on time and size and the same key handling.

An `Api` describes a kind of server: its address, key header, limits and the meaning of its statuses. An `ApiClient`
calls it over a connection of the configuration: with a deadline to the last byte and a bound on the answer's size,
without cookies or redirects, within the rate of the plan. A refused key is read again, and no key is ever shown.
"""

from context_engine.adapters.http.api import Api, Meaning, below_host, refusal, versioned
from context_engine.adapters.http.client import ApiClient
from context_engine.adapters.http.download import InsideAddress, TooLarge, Untrusted, download
from context_engine.adapters.http.events import ServerEvent, server_events
from context_engine.adapters.http.keys import Access, ApiKey, KeyHeader
from context_engine.adapters.http.retry import Backoff, RetryBudget, retried
from context_engine.adapters.http.transport import HttpAnswer, HttpCall, HttpStream, tls_context

__all__ = [
    "Access",
    "Api",
    "ApiClient",
    "ApiKey",
    "Backoff",
    "HttpAnswer",
    "HttpCall",
    "HttpStream",
    "InsideAddress",
    "KeyHeader",
    "Meaning",
    "RetryBudget",
    "ServerEvent",
    "TooLarge",
    "Untrusted",
    "below_host",
    "download",
    "refusal",
    "retried",
    "server_events",
    "tls_context",
    "versioned",
]
