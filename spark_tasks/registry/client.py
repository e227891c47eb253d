"""Access to a schema registry with confluent-kafka's client. What is known needs no request. After a failure, requests
fail at once until the backoff is over.

All methods raise RetriableError (the registry is unreachable or busy; no record is bad), ConfigError (it denies
access), UnknownSchemaError and RefusedSchemaError (DataErrors: the records with that schema are bad).
"""

from __future__ import annotations

import importlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from spark_tasks.backoff import doubled
from spark_tasks.errors import ConfigError, DataError, RetriableError
from spark_tasks.registry.caches import with_failures
from spark_tasks.registry.certificates import rejection
from spark_tasks.registry.connection import BUSY, connect, latest_with_metadata
from spark_tasks.registry.errors import RefusedSchemaError, UnknownSchemaError, UnusableSchemaError
from spark_tasks.registry.settings import TLS_PREFIX, Properties, without_user
from spark_tasks.registry.wire import SchemaId

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema as ClientSchema
    from confluent_kafka.schema_registry import SchemaRegistryClient

T = TypeVar("T")
_LONGEST = 500  # of a registry's message
_UNKNOWN_S = 1.0  # for this long a schema stays unknown: many batches in a row may have records with its id
_DEEPEST_REFERENCES, _MOST_REFERENCES = 50, 1000
_INSTALL = "a schema registry needs additional packages: pip install 'heeler[registry]'"


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
    """The registry's identifiers of a schema. `guid`: None if the registry has no GUIDs."""

    id: int
    guid: str | None


def require_packages(*more: str) -> None:
    """Raises ConfigError if the client's packages, or `more` packages of the extra `registry`, are not installed."""
    for name in ("confluent_kafka.schema_registry", *more):
        try:
            importlib.import_module(name)  # here, because it takes half a second and few connectors need it
        except ImportError as error:
            raise ConfigError(f"{_INSTALL} ({error})") from error


@lru_cache(maxsize=64)
def shared(settings: tuple[tuple[str, Any], ...]) -> Registry:
    """Returns the Registry that all converters of this process with these settings share."""
    return Registry(dict(settings))


def registry_of(values: Mapping[str, Any], configs: Mapping[str, str]) -> Registry:
    """Returns the registry for a converter's settings. `values`: those of settings.REGISTRY_KEYS, parsed; `configs`:
    all settings (see apicurio.unified), unparsed, for keys with a prefix. Raises ConfigError.
    """
    free = (TLS_PREFIX + "ssl.", "request.header.", "bearer.auth.", "basic.auth.")
    passed = {key: str(value) for key, value in configs.items() if key.startswith(free)}
    known = {key: _frozen(values[key]) for key in (
        "schema.registry.url", "schema.registry.url.randomize", "normalize.schemas", "latest.cache.size",
        "latest.cache.ttl.sec", "max.schemas.per.subject", "basic.auth.credentials.source",
        "bearer.auth.credentials.source", "proxy.host", "proxy.port", "http.connect.timeout.ms",
        "http.read.timeout.ms", "max.retries", "retries.wait.ms", "retries.max.wait.ms",
    )}
    return shared(tuple(sorted({**passed, **known}.items())))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else getattr(value, "value", value)


class Registry:
    """A schema registry. Connects at the first request. Thread-safe. For the errors of its methods see the module."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from cachetools import TTLCache, cached  # noqa: PLC0415 - of the extra `registry`

        self._settings = settings
        self._lock = threading.Lock()
        self._failures = 0
        self._backoff_until = 0.0
        self._why = ""
        self._kept = max(1, int(settings["max.schemas.per.subject"]))
        self._requests = 0
        kept = lru_cache(self._kept)
        self._registered, self._found = kept(self._register), kept(self._look_up)
        self._versions = kept(self._version_of)
        self._schemas = with_failures(kept(self._schema), self._kept, UnknownSchemaError, _UNKNOWN_S)
        ttl_s = settings["latest.cache.ttl.sec"]
        latest = cached(TTLCache(settings["latest.cache.size"], ttl_s if ttl_s >= 0 else math.inf),
                        lock=threading.Lock())(self._fetch_latest)
        self._latest = with_failures(latest, self._kept, UnknownSchemaError, _UNKNOWN_S)

    def schema(self, schema_id: SchemaId) -> SchemaText:
        """Returns the schema with an id or GUID."""
        return self._schemas(schema_id)

    def _schema(self, schema_id: SchemaId) -> SchemaText:
        if isinstance(schema_id, str):
            return _text(self._request(f"GUID {schema_id}", lambda: self._client.get_schema_by_guid(schema_id)))
        return _text(self._request(f"schema {schema_id}", lambda: self._client.get_schema(schema_id)))

    def version(self, subject: str, schema: SchemaText) -> int | None:
        """Returns the schema's version in the subject, or None if the subject does not have it."""
        try:
            version: int | None = self._found(subject, schema).version
        except (UnknownSchemaError, RefusedSchemaError):
            return None
        return version

    def register(self, subject: str, schema: SchemaText) -> SchemaName:
        """Registers the schema in the subject."""
        return self._registered(subject, schema)

    def _register(self, subject: str, schema: SchemaText) -> SchemaName:
        return _name(self._request(
            f"subject {subject}",
            lambda: self._client.register_schema_full_response(subject, _client_schema(schema), self._normalize),
        ))

    def name_of(self, subject: str, schema: SchemaText) -> SchemaName:
        """Returns the identifiers of a schema of the subject."""
        return _name(self._found(subject, schema))

    def latest(self, subject: str, properties: Properties = ()) -> tuple[SchemaName, SchemaText]:
        """Returns the latest schema of the subject with these properties in its metadata, and its identifiers. With
        properties, deleted versions count, too, as in Java.
        """
        return self._latest(subject, properties)

    def _fetch_latest(self, subject: str, properties: Properties) -> tuple[SchemaName, SchemaText]:
        if properties:
            named = ",".join(f"{key}={value}" for key, value in properties)
            latest = self._request(f"subject {subject}, metadata {named}", lambda: latest_with_metadata(
                self._client, subject, properties))
        else:
            latest = self._request(f"subject {subject}", lambda: self._client.get_latest_version(subject))
        return _name(latest), _text(latest.schema)

    def referenced(self, schema: SchemaText) -> dict[str, SchemaText]:
        """Returns all schemas that this one references, directly or indirectly, by name. Each comes after those that it
        references itself.
        """
        schemas: dict[str, SchemaText] = {}
        self._collect(schema, schemas, 0)
        return schemas

    def _collect(self, schema: SchemaText, found: dict[str, SchemaText], depth: int) -> None:
        if depth > _DEEPEST_REFERENCES or len(found) + len(schema.references) > _MOST_REFERENCES:
            raise DataError(f"the references of a schema are nested more than {_DEEPEST_REFERENCES} levels deep, for "
                            f"example because they reference each other, or are more than {_MOST_REFERENCES}")
        for name, subject, version in schema.references:
            if name in found:
                continue
            one = self._versions(subject, version)
            self._collect(one, found, depth + 1)
            found[name] = one

    def _version_of(self, subject: str, version: int) -> SchemaText:
        return _text(self._request(
            f"subject {subject}, version {version}",
            lambda: self._client.get_version(subject, version, deleted=True).schema,
        ))

    def _look_up(self, subject: str, schema: SchemaText) -> Any:
        return self._request(
            f"subject {subject}",
            lambda: self._client.lookup_schema(subject, _client_schema(schema), self._normalize),
        )

    @property
    def _normalize(self) -> bool:
        return bool(self._settings["normalize.schemas"])

    def _request(self, what: str, send: Callable[[], T]) -> T:
        """Sends a request, unless the backoff after a failure is not over. `what`: its subject, for messages."""
        import httpx2  # noqa: PLC0415 - of the extra `registry`, as what follows
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError  # noqa: PLC0415

        left = self._backoff_until - time.monotonic()
        if left > 0:
            raise RetriableError(f"{self._why}; the next attempt is in {left:.1f} s")
        with self._lock:
            self._requests += 1
            if self._requests % self._kept == 0:
                self._client.clear_caches()  # the client would keep all schemas forever
        try:
            result = send()
        except SchemaRegistryError as error:
            if error.http_status_code in BUSY:
                raise self._unreachable(_described(error)) from error
            self._reset_backoff()
            raise self._refusal(what, error) from error
        except OAuthTokenError as error:
            if getattr(error.__context__, "error", None) in _NO_TOKENS:
                raise ConfigError("bearer.auth.issuer.endpoint.url did not issue a token for bearer.auth.client.id: "
                                  f"{error.message}") from error
            rejected = rejection(error)
            if rejected:
                raise ConfigError(f"bearer.auth.issuer.endpoint.url: {rejected}") from error
            raise self._unreachable(f"no token: {error.message}") from error
        except (httpx2.TransportError, TimeoutError) as error:
            rejected = rejection(error)
            if rejected:
                raise ConfigError(f"the schema registry {self._urls}: {rejected}") from error
            raise self._unreachable(f"{type(error).__name__}: {error}") from error
        except UnicodeEncodeError as error:  # of the request: a record's schema may have any name
            raise UnusableSchemaError(f"{what!r} is not valid Unicode: {error}") from error
        except (ValueError, RecursionError, httpx2.DecodingError) as error:  # of another service
            raise self._unreachable(f"its response is not that of a schema registry: {error}") from error
        self._reset_backoff()
        return result

    def _refusal(self, what: str, error: Any) -> Exception:
        status = error.http_status_code
        where = f"the schema registry {self._urls}, {what}: {_described(error)}"
        if status in (401, 403):
            return ConfigError(f"{where}; see basic.auth.* and bearer.auth.* of the converter")
        if status == 409:
            return RefusedSchemaError(f"{where}; the schema is not compatible with earlier schemas of the subject: "
                                      "change the data, or the subject's compatibility level")
        if ", metadata " in what and status in (404, 405) and error.error_code in (-1, None):
            return ConfigError(f"{where}; use.latest.with.metadata needs a registry that supports metadata, such as "
                               "Confluent's")
        has_no_guids = what.startswith("GUID") and status in (404, 405)
        if error.error_code in (-1, None) and status != 422 and not has_no_guids:  # registries set an error code
            return ConfigError(f"{where}; this is not the response of a schema registry: is the path of the URL right?")
        return UnknownSchemaError(where) if status == 404 else RefusedSchemaError(where)

    def _unreachable(self, why: str) -> RetriableError:
        with self._lock:
            if time.monotonic() >= self._backoff_until:  # several threads may fail at once
                self._failures += 1
            limit = self._settings["retries.max.wait.ms"] / 1000
            wait = doubled(self._settings["retries.wait.ms"] / 1000, self._failures - 1, limit)
            self._why = f"the schema registry {self._urls} cannot be reached: {why}"
            self._backoff_until = time.monotonic() + wait
            return RetriableError(self._why)

    def _reset_backoff(self) -> None:
        self._failures = 0

    @property
    def _urls(self) -> str:
        return ",".join(without_user(url) for url in self._settings["schema.registry.url"])

    @cached_property
    def _client(self) -> SchemaRegistryClient:
        return connect(self._settings)


def _described(error: Any) -> str:
    """Returns the text of a SchemaRegistryError. Its message may be a whole HTML page."""
    message = str(error.error_message)[:_LONGEST]
    return f"{message} (HTTP status {error.http_status_code}, code {error.error_code})"


_NO_TOKENS = frozenset({  # RFC 6749: errors that a retry does not resolve
    "access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "unauthorized_client",
    "unsupported_grant_type",
})  # fmt: skip


def _client_schema(schema: SchemaText) -> ClientSchema:
    from confluent_kafka.schema_registry import Schema, SchemaReference  # noqa: PLC0415

    references = [SchemaReference(name, subject, version) for name, subject, version in schema.references]
    return Schema(schema.text, schema.kind, references)


def _name(found: Any) -> SchemaName:
    return SchemaName(int(found.schema_id), found.guid or None)


def _text(schema: Any) -> SchemaText:
    references = tuple((reference.name, reference.subject, reference.version) for reference in schema.references or ())
    return SchemaText(str(schema.schema_str), schema.schema_type or "AVRO", references)
