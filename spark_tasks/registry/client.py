"""The schema registry, through confluent-kafka's client. Answers are cached, and while it is unreachable only one
request waits.

Errors: RetriableError (it is unreachable or busy, so no record is bad), ConfigError (it refuses access),
UnknownSchemaError and RefusedSchemaError (DataErrors: the records with that schema are bad).
"""

from __future__ import annotations

import importlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from spark_tasks.backoff import doubled
from spark_tasks.errors import ConfigError, DataError, RetriableError
from spark_tasks.kafka.client_config import tls_files
from spark_tasks.registry.errors import RefusedSchemaError, UnknownSchemaError
from spark_tasks.registry.settings import TLS_PREFIX
from spark_tasks.registry.wire import SchemaId

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema as ClientSchema
    from confluent_kafka.schema_registry import SchemaRegistryClient

T = TypeVar("T")
_BUSY = (408, 429, 500, 502, 503, 504)
_INSTALL = "a schema registry needs more packages: pip install 'heeler[registry]'"


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A registered schema. `kind`: AVRO, JSON or PROTOBUF; `references`: name, subject and version of the
    schemas that it uses.
    """

    text: str
    kind: str
    references: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaName:
    """How the registry names a schema. `guid`: None where it gives none."""

    id: int
    guid: str | None


def require_packages(*more: str) -> None:
    """ConfigError if the client's packages, or `more` packages of the extra, are not installed."""
    for name in ("confluent_kafka.schema_registry", *more):
        try:
            importlib.import_module(name)  # imported here, because it takes half a second and few need it
        except ImportError as error:
            raise ConfigError(f"{_INSTALL} ({error})") from error


@lru_cache(maxsize=64)
def shared(settings: tuple[tuple[str, Any], ...]) -> Registry:
    """The Registry that all converters of this process with these settings share."""
    return Registry(dict(settings))


def registry_of(values: Mapping[str, Any], configs: Mapping[str, str]) -> Registry:
    """The registry for parsed settings (settings.REGISTRY_KEYS) and for the raw ones whose names are not fixed."""
    free = (TLS_PREFIX + "ssl.", "request.header.", "bearer.auth.", "basic.auth.")
    passed = {key: str(value) for key, value in configs.items() if key.startswith(free)}
    known = {key: _frozen(values[key]) for key in (
        "schema.registry.url", "schema.registry.url.randomize", "normalize.schemas", "latest.cache.size",
        "latest.cache.ttl.sec", "max.schemas.per.subject", "schema.registry.basic.auth.user.info",
        "basic.auth.credentials.source", "bearer.auth.credentials.source", "proxy.host", "proxy.port",
        "http.connect.timeout.ms", "http.read.timeout.ms", "max.retries", "retries.wait.ms", "retries.max.wait.ms",
    )}
    return shared(tuple(sorted({**passed, **known}.items())))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return getattr(value, "value", value)


class Registry:
    """A schema registry; connects at the first request. Thread-safe."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._failures = 0
        self._away_until = 0.0
        self._why = ""

    def schema(self, schema_id: SchemaId) -> SchemaText:
        """The schema of an id or GUID. UnknownSchemaError."""
        if isinstance(schema_id, str):
            found = self._ask(f"GUID {schema_id}", lambda: self._client.get_schema_by_guid(schema_id))
        else:
            found = self._ask(f"schema {schema_id}", lambda: self._client.get_schema(schema_id))
        return _text(found)

    def version(self, subject: str, schema: SchemaText) -> int | None:
        """The schema's version in the subject; None if it is not in there."""
        try:
            found: int | None = self._lookup(subject, schema).version
        except (UnknownSchemaError, RefusedSchemaError):
            return None
        return found

    def register(self, subject: str, schema: SchemaText) -> SchemaName:
        """Register the schema in the subject. RefusedSchemaError."""
        return _name(self._ask(
            f"subject {subject}",
            lambda: self._client.register_schema_full_response(subject, _client_schema(schema), self._normalize),
        ))

    def name_of(self, subject: str, schema: SchemaText) -> SchemaName:
        """The name of a schema that is in the subject. UnknownSchemaError."""
        return _name(self._lookup(subject, schema))

    def latest(self, subject: str) -> tuple[SchemaName, SchemaText]:
        """The newest schema of the subject and its name. UnknownSchemaError."""
        found = self._ask(f"subject {subject}", lambda: self._client.get_latest_version(subject))
        return _name(found), _text(found.schema)

    def referenced(self, schema: SchemaText) -> dict[str, SchemaText]:
        """All schemas that this one uses, directly or not, by name; each after those that it uses itself."""
        found: dict[str, SchemaText] = {}
        self._collect(schema, found, 0)
        return found

    def _collect(self, schema: SchemaText, found: dict[str, SchemaText], depth: int) -> None:
        if depth > 50:
            raise DataError("schemas refer to each other in more than 50 levels")
        for name, subject, version in schema.references:
            if name in found:
                continue
            one = _text(self._ask(f"subject {subject}, version {version}", partial(self._version_of, subject, version)))
            self._collect(one, found, depth + 1)
            found[name] = one

    def _version_of(self, subject: str, version: int) -> Any:
        return self._client.get_version(subject, version, deleted=True).schema

    def _lookup(self, subject: str, schema: SchemaText) -> Any:
        return self._ask(
            f"subject {subject}",
            lambda: self._client.lookup_schema(subject, _client_schema(schema), self._normalize),
        )

    @property
    def _normalize(self) -> bool:
        return bool(self._settings["normalize.schemas"])

    def _ask(self, what: str, question: Callable[[], T]) -> T:
        """Send a request, unless the registry is known to be away."""
        from confluent_kafka.schema_registry.common._httpx_compat import httpx  # noqa: PLC0415
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError  # noqa: PLC0415

        left = self._away_until - time.monotonic()
        if left > 0:
            raise RetriableError(f"{self._why}; the next attempt is in {left:.1f} s")
        try:
            answer = question()
        except SchemaRegistryError as error:
            if error.http_status_code in _BUSY:
                raise self._away(str(error)) from error
            self._back()
            raise self._refusal(what, error) from error
        except (httpx.TransportError, OAuthTokenError) as error:
            raise self._away(f"{type(error).__name__}: {error}") from error
        except ValueError as error:  # the answer is not JSON: another service listens there
            raise self._away(f"its answer is not that of a schema registry: {error}") from error
        self._back()
        return answer

    def _refusal(self, what: str, error: Any) -> Exception:
        status = error.http_status_code
        words = f"{error.error_message} (HTTP status {status}, code {error.error_code})"
        where = f"the schema registry {self._urls}, {what}: {words}"
        if status in (401, 403):
            return ConfigError(f"{where}; see basic.auth.* and bearer.auth.* of the converter")
        if error.error_code == -1 and not what.startswith("GUID"):  # not every registry supports these
            return ConfigError(f"{where}; that is not the answer of a schema registry: is the path of the URL right?")
        if status == 404:
            return UnknownSchemaError(where)
        if status == 409:
            return RefusedSchemaError(f"{where}; the schema is not compatible with those that the subject has: change "
                                      "the data, or the subject's compatibility level")
        return RefusedSchemaError(where)

    def _away(self, why: str) -> RetriableError:
        with self._lock:
            self._failures += 1
            limit = self._settings["retries.max.wait.ms"] / 1000
            wait = doubled(self._settings["retries.wait.ms"] / 1000, self._failures - 1, limit)
            self._why = f"the schema registry {self._urls} cannot be reached: {why}"
            self._away_until = time.monotonic() + wait
            return RetriableError(self._why)

    def _back(self) -> None:
        self._failures = 0

    @property
    def _urls(self) -> str:
        return ",".join(_shown(url) for url in self._settings["schema.registry.url"])

    @cached_property
    def _client(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415
        from confluent_kafka.schema_registry.common._httpx_compat import httpx  # noqa: PLC0415

        values = self._settings
        conf = _conf(values)
        conf["timeout"] = httpx.Timeout(
            values["http.read.timeout.ms"] / 1000, connect=values["http.connect.timeout.ms"] / 1000
        )
        try:
            client = SchemaRegistryClient(conf)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(f"schema.registry.url: {error}") from error
        # The client has no settings for these: Java's clients send any header, and a token without a logical cluster.
        rest = client._rest_client  # noqa: SLF001
        if values.get(f"{TLS_PREFIX}ssl.endpoint.identification.algorithm", "https").strip() == "":
            rest.verify.check_hostname = False
        for key, value in values.items():
            if key.startswith("request.header."):
                rest.session.headers[key.removeprefix("request.header.")] = value
        token = values.get("bearer.auth.token")
        if token and values["bearer.auth.credentials.source"] == "STATIC_TOKEN":
            rest.session.headers["Authorization"] = f"Bearer {token}"
            for name, key in _CLOUD_HEADERS.items():
                if values.get(key):
                    rest.session.headers[name] = values[key]
        return client


_CLOUD_HEADERS = {
    "target-sr-cluster": "bearer.auth.logical.cluster", "Confluent-Identity-Pool-Id": "bearer.auth.identity.pool.id"
}


def _conf(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of confluent-kafka's client."""
    urls = [url.rstrip("/") for url in values["schema.registry.url"]]
    if values["schema.registry.url.randomize"]:
        first = random.randrange(len(urls))  # noqa: S311 - load, not secrets
        urls = urls[first:] + urls[:first]
    conf: dict[str, Any] = {
        "url": ",".join(urls),
        "max.retries": values["max.retries"],
        "retries.wait.ms": values["retries.wait.ms"],
        "retries.max.wait.ms": values["retries.max.wait.ms"],
        "cache.capacity": values["latest.cache.size"],
    }
    if values["latest.cache.ttl.sec"] >= 0:
        conf["cache.latest.ttl.sec"] = values["latest.cache.ttl.sec"]
    user = values.get("basic.auth.user.info") or values["schema.registry.basic.auth.user.info"]
    if values["basic.auth.credentials.source"] == "USER_INFO":
        if ":" not in user:
            raise ConfigError("basic.auth.user.info (value hidden) has to be user:password")
        conf["basic.auth.user.info"] = user
    if values["bearer.auth.credentials.source"] == "OAUTHBEARER":
        conf["bearer.auth.credentials.source"] = "OAUTHBEARER"
        conf |= {key: values[key] for key in _OAUTH if values.get(key)}
        conf.setdefault("bearer.auth.logical.cluster", "")
    if values["proxy.host"]:
        conf["proxy"] = f"http://{values['proxy.host']}:{values['proxy.port']}"
    prefix = len(TLS_PREFIX)
    tls = tls_files({key[prefix:]: value for key, value in values.items() if key.startswith(TLS_PREFIX + "ssl.")})
    return conf | {name: tls[key] for key, name in _TLS_NAMES.items() if tls.get(key)}


_OAUTH = (
    "bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope", "bearer.auth.issuer.endpoint.url",
    "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id",
)
_TLS_NAMES = {
    "ssl_cafile": "ssl.ca.location", "ssl_certfile": "ssl.certificate.location", "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}


def _client_schema(schema: SchemaText) -> ClientSchema:
    from confluent_kafka.schema_registry import Schema, SchemaReference  # noqa: PLC0415

    references = [SchemaReference(name, subject, version) for name, subject, version in schema.references]
    return Schema(schema.text, schema.kind, references)


def _name(found: Any) -> SchemaName:
    return SchemaName(int(found.schema_id), found.guid or None)


def _text(schema: Any) -> SchemaText:
    references = tuple((one.name, one.subject, one.version) for one in schema.references or ())
    return SchemaText(str(schema.schema_str), schema.schema_type or "AVRO", references)


def _shown(url: str) -> str:
    """The URL without user and password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
