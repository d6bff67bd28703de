"""How knowledge bases are reached: `connections.yaml`, read anew at every request so that keys can rotate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import ConfigError, MissingVariable, nearest
from context_engine.secrecy import MASK, hide_in_error, keep_secret
from context_engine.settings.files import FromVariable, Interpolator, read_yaml
from context_engine.settings.messages import config_error, unknown_key

_SECRETS: Final = ("api_key", "client_secret", "proxy")
_TOKEN_KEYS: Final = ("token_url", "client_id", "client_secret")
_SENT_TO: Final = {"api_key": ("base_url",), "client_secret": ("base_url", "token_url")}
"""Each key, and the addresses that receive it or what it is exchanged for."""
DATABASE_SCHEME: Final = "postgresql"
_HOST: Final = re.compile(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d+))?")
GRAPH_SCHEMES: Final = ("neo4j", "neo4j+s", "bolt", "bolt+s")
Fields = Mapping[str, Mapping[str, tuple[Interpolator, Any]]]
"""For each connection and key: the value as written, and the interpolator for its variables."""


def _split(text: str, example: str) -> SplitResult:
    with suppress(ValueError):
        if (parts := urlsplit(text)).port != 0:
            return parts
    raise ValueError(f"is not a URL: write {example}")


def _url(text: str) -> str:
    parts = _split(text, "https://host or https://host:port/path")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL with a host, e.g. https://dify.bank.example/v1")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment: only scheme, host, port and path")
    return text.rstrip("/")


def _database_url(text: str) -> str:
    """Check the URL of a database, which may name several hosts, separated by commas."""
    hosts, path = _hosts_and_path(text)
    if not all(map(_HOST.fullmatch, hosts.split(","))) or not path.strip("/"):
        raise ValueError("must name host and database, and a port in digits: postgresql://HOST:PORT/DATABASE")
    if "?" in path or "#" in path:
        raise ValueError("must not have a query or a fragment: only scheme, hosts, ports and database")
    return text.rstrip("/")


def _graph_url(text: str) -> str:
    parts = _split(text, "neo4j://HOST:PORT or bolt://HOST:PORT")
    if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must have scheme, host and port only: neo4j://HOST:PORT or bolt://HOST:PORT")
    return text.rstrip("/")


def _hosts_and_path(url: str) -> tuple[str, str]:
    """Return the hosts of an address and the rest; since Python 3.14 `urlsplit` refuses [::1] behind another host."""
    address = url.partition("://")[2]
    return (hosts := re.split("[/?#]", address, maxsplit=1)[0]), address[len(hosts) :]


def database_name(url: str) -> str:
    """Return the name of the database in its URL; "" if it names none.

    >>> database_name("postgresql://db1.bank.example,[::1]:5433/knowledge")
    'knowledge'
    """
    return unquote(_hosts_and_path(url)[1].strip("/"))


def hosts_of(url: str) -> list[tuple[str, str]]:
    """Return host and port of each server in the URL of a database; the port is 5432 if none is given.

    >>> hosts_of("postgresql://db1.bank.example,[::1]:5433/knowledge")
    [('db1.bank.example', '5432'), ('::1', '5433')]
    """
    matches = map(_HOST.fullmatch, _hosts_and_path(url)[0].split(","))
    return [(match[1].strip("[]"), match[2] or "5432") for match in matches if match]


def _url_without_user(text: str) -> str:
    if "@" in _hosts_and_path(text)[0]:
        raise ValueError("must not hold a user name or password: give them as user and api_key")
    if text.startswith(f"{DATABASE_SCHEME}://"):
        return _database_url(text)
    return _graph_url(text) if text.startswith(tuple(f"{scheme}://" for scheme in GRAPH_SCHEMES)) else _url(text)


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _secret_url(value: SecretStr) -> SecretStr:
    _url(value.get_secret_value())
    return value


Count = Annotated[int, BeforeValidator(_no_flag), Field(ge=1, le=1000)]
Secret = Annotated[SecretStr, Field(min_length=1)]


class Connection(BaseModel):
    """How to reach one server. Secrets appear in no repr, dump or message."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    base_url: Annotated[str, AfterValidator(_url_without_user)] = Field(
        description="http or https, without user name, query or fragment; for adapter postgres "
        "postgresql://HOST:PORT/DATABASE, several hosts separated by commas; for adapter neo4j neo4j://HOST:PORT or "
        "bolt://HOST:PORT, with +s after the scheme for TLS."
    )
    user: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="The user of a database, or of a server with HTTP Basic; its password is api_key."
    )
    api_key: Secret | None = None
    api_key_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = Field(
        None,
        description="Header for the key alone, such as api-key for Azure; null: what the kind of server expects.",
    )
    token_url: Annotated[str, AfterValidator(_url_without_user)] | None = Field(
        None, description="Instead of api_key: where access tokens are fetched (OAuth 2.0, client credentials)."
    )
    client_id: Annotated[str, Field(min_length=1)] | None = Field(None, description="Name at the token server.")
    client_secret: Secret | None = None
    token_scope: str | None = Field(None, description="Scope of the tokens, if the token server wants one.")
    aws_region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")] | None = Field(
        None,
        description="Region of an Amazon OpenSearch Service that lets IAM in: requests are signed (Signature Version "
        "4) with user and api_key as access key, without them with the machine's credentials; needs the extra aws.",
    )
    ca_bundle: Path | None = Field(None, description="PEM file with the authorities to trust.")
    client_certificate: Path | None = Field(None, description="PEM file; needs client_key unless it holds the key too.")
    client_key: Path | None = None
    proxy: Annotated[Secret, AfterValidator(_secret_url)] | None = Field(
        None, description="http or https URL of a proxy; HTTPS_PROXY and NO_PROXY are honoured without it."
    )
    max_connections: Count = Field(
        4,
        description="Parallel calls to the base URL in this process, one open file each; a default Dify starves "
        "above about ten ('context-engine doctor' suggests a number). Searches take turns; one that is not served "
        "in time is refused as busy at once.",
    )
    timeout_s: Annotated[float, BeforeValidator(_no_flag), Field(gt=0, le=600, allow_inf_nan=False)] = Field(
        10.0,
        description="Seconds without an answer until a call fails; a call to a model may take three times that in all.",
    )
    rate_per_minute: Annotated[int, BeforeValidator(_no_flag), Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Requests the server's plan allows in a minute; null: no limit."
    )
    rate_share: Annotated[float, BeforeValidator(_no_flag), Field(gt=0, le=1)] = Field(
        1.0, description="Share of rate_per_minute that this process may use."
    )

    @model_validator(mode="after")
    def _key_has_certificate(self) -> Connection:
        if self.client_key is not None and self.client_certificate is None:
            raise ValueError("client_key needs client_certificate: set both or neither")
        return self

    @model_validator(mode="after")
    def _tokens_are_complete(self) -> Connection:
        given = [key for key in _TOKEN_KEYS if getattr(self, key) is not None]
        if given and len(given) < len(_TOKEN_KEYS):
            raise ValueError(f"{' and '.join(_TOKEN_KEYS)} belong together: set all of them or none")
        if given and self.api_key is not None:
            raise ValueError("api_key and token_url are two ways to be let in: set one of them")
        if self.token_scope is not None and not given:
            raise ValueError("token_scope needs token_url")
        return self

    @model_validator(mode="after")
    def _signing_key_is_whole(self) -> Connection:
        if self.aws_region is None:
            return self
        if (self.user is None) != (self.api_key is None):
            raise ValueError(
                "aws_region signs with user and api_key, an access key and its secret: set both or neither"
            )
        if self.token_url is not None or self.api_key_header is not None:
            raise ValueError("aws_region signs requests: take token_url or api_key_header away")
        return self

    _url_as_written: str | None = PrivateAttr(None)

    @property
    def shown_url(self) -> str:
        """The base URL for messages: itself, or the expression that gave it."""
        return self._url_as_written or self.base_url

    @model_validator(mode="after")
    def _keys_are_kept_secret(self) -> Connection:
        for secret in (self.api_key, self.client_secret):
            if secret is not None:
                keep_secret(secret.get_secret_value())
        proxy = "" if self.proxy is None else self.proxy.get_secret_value()
        if "@" in urlsplit(proxy).netloc:  # without a user name it is a plain address
            keep_secret(proxy)
            keep_secret(unquote(urlsplit(proxy).password or ""))
        return self


class Connections:
    """The connections by name; values of variables and files are never cached."""

    def __init__(self, fields: Fields = MappingProxyType({}), file: str = "connections.yaml") -> None:
        self._fields, self._file = fields, file

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(sorted(self._fields))

    def get(self, name: str) -> Connection:
        """Return a connection with its variables and files read now. Call again after a 401: the key may have rotated.

        Raises:
            ConfigError: no such connection, or one that cannot be used.
            MissingVariable: a variable or file it needs is not there.
        """
        if name not in self._fields:
            raise ConfigError(f"unknown connection {name!r}.{nearest(name, self.names) or ' None is configured.'}")
        fields = self._fields[name]
        values = {key: filler.fill(value, below=(name, key)) for key, (filler, value) in fields.items()}
        for key, value in values.items():
            if isinstance(value, FromVariable) and not value:
                raise MissingVariable(_emptiness(fields[key][1]), file=fields[key][0].file, key=_below(name, key))
        try:
            connection = Connection.model_validate(values)
        except ValidationError as error:
            problems = config_error(error, values, Connection, file="", show_values=False)
            raise ConfigError.together([self._placed(name, problem) for problem in problems.each]) from None
        if isinstance(url := values.get("base_url"), FromVariable):
            connection._url_as_written = url.written
        return self._with_files(name, connection)

    def over(self, upper: Fields) -> Connections:
        """Return these connections, overridden key by key by others."""
        names = (*self._fields, *(name for name in upper if name not in self._fields))
        return Connections({name: {**self._fields.get(name, {}), **upper.get(name, {})} for name in names}, self._file)

    def problems(self) -> list[ConfigError]:
        """Return the problems of each connection, missing variables included."""
        problems: list[ConfigError] = []
        for name in self.names:
            try:
                self.get(name)
            except ConfigError as error:
                problems.extend(error.each)
        return problems

    def notices(self) -> tuple[Notice, ...]:
        """Return a notice for each connection that would send its key unencrypted to another machine."""
        return tuple(
            Notice(
                NoticeCode.API_KEY_UNENCRYPTED,
                f"connections.{name}",
                f"connection {name!r} sends its {key} over plain http: use https",
            )
            for name in self.names
            for key, urls in _SENT_TO.items()
            if key in self._fields[name]
            and any(sends_unencrypted(str(self._fields[name].get(url, ("", ""))[1])) for url in urls)
        )

    def written(self, name: str) -> dict[str, Any]:
        """Return the values of a connection as written. They must not be shown, because they may contain a secret."""
        return {key: value for key, (_, value) in self._fields[name].items()}

    def shown(self, name: str) -> dict[str, Any]:
        """Return a connection for display: values as written, variables by their names, secrets masked."""
        return {
            key: MASK if key in _SECRETS else hide_in_error(value) if isinstance(value, str) else value
            for key, (_, value) in self._fields[name].items()
        }

    def _file_of(self, name: str, key: str | None) -> str:
        fields = self._fields[name]
        filler = fields[key][0] if key is not None and key in fields else next(iter(fields.values()), (None,))[0]
        return filler.file if filler else self._file

    def _placed(self, name: str, problem: ConfigError) -> ConfigError:
        """Return the problem of a connection with its file and full key."""
        return ConfigError(problem.problem, file=self._file_of(name, problem.key), key=_below(name, problem.key))

    def _with_files(self, name: str, connection: Connection) -> Connection:
        """Check that certificate files are there; relative names start at the folder of the file that names them."""
        files: dict[str, Path] = {}
        for key in ("ca_bundle", "client_certificate", "client_key"):
            path: Path | None = getattr(connection, key)
            if path is not None:
                filler = self._fields[name][key][0]
                files[key] = filler.folder / path
                if not files[key].is_file():
                    shown = written if "${" in (written := str(self._fields[name][key][1])) else files[key]
                    raise ConfigError(f"there is no file {shown}", file=filler.file, key=_below(name, key))
        return connection.model_copy(update=files) if files else connection


def read_fields(rows: Mapping[str, Any], filler: Interpolator, *, below: str = "") -> Fields:
    """Return the connections of a parsed file, their keys checked and their variables not yet filled in.

    Raises:
        ConfigError: a connection that is not a mapping, or a key that is not known.
    """
    out: dict[str, Mapping[str, tuple[Interpolator, Any]]] = {}
    problems: list[ConfigError] = []
    for name, row in rows.items():
        where = _below(below, name)
        if name == "connections" and not below and isinstance(row, dict) and _names_connections(row):
            problem = "each connection stands at the top of the file, by its name: take this key away"
            problems.append(ConfigError(problem, file=filler.file, key=where))
            continue
        if not isinstance(row, dict):
            problems.append(ConfigError("must be a mapping with at least base_url", file=filler.file, key=where))
            continue
        for key in row:
            if key not in Connection.model_fields:
                problem = unknown_key(key, list(Connection.model_fields))
                problems.append(ConfigError(problem, file=filler.file, key=_below(where, key)))
        out[name] = {key: (filler, value) for key, value in row.items()}
    if problems:
        raise ConfigError.together(problems)
    return out


def _names_connections(row: Mapping[str, Any]) -> bool:
    return any(
        isinstance(value, dict) and not Connection.model_fields.keys().isdisjoint(value) for value in row.values()
    )


def read_connections(path: Path, label: str, env: Mapping[str, str]) -> Connections:
    """Return the connections of `connections.yaml`.

    Raises:
        ConfigError: the file or one of its keys cannot be used; missing variables are found when a connection is used.
    """
    rows = read_yaml(path, label, may_be_empty=True)
    connections = Connections(read_fields(rows, Interpolator(env, path.parent, label, files=True)), label)
    if problems := unusable(connections.problems()):
        raise ConfigError.together(problems)
    return connections


def unusable(problems: Iterable[ConfigError]) -> list[ConfigError]:
    """Return the problems that no variable can fix."""
    return [problem for problem in problems if not isinstance(problem, MissingVariable)]


def sends_unencrypted(url: str) -> bool:
    """Return whether data sent to a URL leaves the machine in plain text; loopback addresses do not."""
    return url.startswith("http:") and not is_local(_host(url))


def is_local(host: str) -> bool:
    """Return whether a host is this machine; a path is the folder of a local socket."""
    try:
        return host == "localhost" or host.startswith("/") or ip_address(host).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _emptiness(written: str) -> str:
    if "${file:" in written:
        return f"{written}: the file is there, but empty: put the value in it"
    problem = "the variable and its default are empty" if ":-" in written else "the variable is set, but empty"
    return f"{written}: {problem}: give it a value"


def _below(name: str, key: str | None) -> str:
    return ".".join(part for part in (name, key) if part)
