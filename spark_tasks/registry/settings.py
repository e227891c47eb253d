"""The registry's keys of converters, with the names, types and defaults of Confluent's converters. Settings that the
Python client does not support are rejected, not ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, Password, Type, at_least, between
from spark_tasks.config.unsupported import UNREAD_BY_REGISTRY_CLIENTS, refuse_https
from spark_tasks.errors import ConfigError

Properties = tuple[tuple[str, str], ...]
"""Properties in the metadata of schemas, as pairs of key and value in the order of the keys."""

_URL = "schema.registry.url"
_METADATA = "use.latest.with.metadata"
_SERIALIZERS = "io.confluent.kafka.serializers"
TOPIC_NAME = f"{_SERIALIZERS}.subject.TopicNameStrategy"
RECORD_NAME = f"{_SERIALIZERS}.subject.RecordNameStrategy"
TOPIC_RECORD_NAME = f"{_SERIALIZERS}.subject.TopicRecordNameStrategy"
ASSOCIATED_NAME = f"{_SERIALIZERS}.subject.AssociatedNameStrategy"
_PREFIX_ID = f"{_SERIALIZERS}.schema.id.PrefixSchemaIdSerializer"
_HEADER_ID = f"{_SERIALIZERS}.schema.id.HeaderSchemaIdSerializer"
_DUAL_ID = f"{_SERIALIZERS}.schema.id.DualSchemaIdDeserializer"
_PREFIX_READER = f"{_SERIALIZERS}.schema.id.PrefixSchemaIdDeserializer"
_NO_CONTEXT = f"{_SERIALIZERS}.context.NullContextNameStrategy"

# name, type, importance, default (- none, ! required), documentation
_TABLE = f"""
schema.registry.url LIST HIGH ! URLs of the schema registry, separated by commas, to be tried one after the other.
schema.registry.url.randomize BOOLEAN LOW =false Whether each process starts with a random one of the URLs.
max.schemas.per.subject INT LOW =1000 The maximum number of schemas to cache.
normalize.schemas BOOLEAN MEDIUM =false Whether the registry treats schemas that differ only in form as equal.
auto.register.schemas BOOLEAN MEDIUM =true Whether to register schemas; otherwise the registry must already have them.
propagate.schema.tags BOOLEAN LOW =false Not supported: must be false.
use.schema.id INT LOW =-1 The id of the schema with which to write all records; -1 for none.
use.schema.guid STRING LOW - Not supported: set use.schema.id instead.
id.compatibility.strict BOOLEAN LOW =true Whether the records' schema must be able to read the schema of use.schema.id.
use.latest.version BOOLEAN LOW =false Whether to write records with the latest schema of their subject.
latest.compatibility.strict BOOLEAN LOW =true Whether the records' schema must be able to read the latest schema.
latest.cache.size INT LOW =1000 The maximum number of latest schemas to cache.
latest.cache.ttl.sec INT LOW =-1 How long to cache a latest schema, in seconds; -1 means forever.
use.latest.with.metadata STRING LOW - The metadata of a schema, as key=value,…: use the latest one that has them.
schema.format STRING LOW - Not supported.
execution.environment STRING MEDIUM - Has no effect: rules of data contracts are not run.
rule.executors LIST LOW = Not supported: rules of data contracts are not run.
rule.actions LIST LOW = Not supported: rules of data contracts are not run.
rule.service.loader.enable BOOLEAN LOW =true Has no effect: no Java class is run.
rule.metrics.enable BOOLEAN LOW =true Has no effect: rules of data contracts are not run.
validation.rules.executor.class STRING LOW =io.confluent.kafka.schemaregistry.rules.cel.CelValidator Has no effect.
validation.rules.fail.fast BOOLEAN LOW =false Has no effect.
basic.auth.credentials.source STRING MEDIUM =URL Where to find user and password: URL or USER_INFO.
bearer.auth.credentials.source STRING MEDIUM =STATIC_TOKEN Where to get the token: STATIC_TOKEN or OAUTHBEARER.
schema.registry.basic.auth.user.info PASSWORD MEDIUM = The older name of basic.auth.user.info.
basic.auth.user.info PASSWORD MEDIUM = The credentials for USER_INFO, as user:password.
bearer.auth.token PASSWORD MEDIUM = The token for STATIC_TOKEN.
bearer.auth.issuer.endpoint.url STRING MEDIUM - The token endpoint for OAUTHBEARER.
bearer.auth.client.id STRING MEDIUM - The client id for OAUTHBEARER.
bearer.auth.client.secret PASSWORD MEDIUM - The client secret for OAUTHBEARER.
bearer.auth.scope STRING MEDIUM - The scope of the tokens for OAUTHBEARER.
bearer.auth.scope.claim.name STRING LOW =scope Has no effect: tokens are passed on unchanged.
bearer.auth.sub.claim.name STRING LOW =sub Has no effect: tokens are passed on unchanged.
bearer.auth.identity.pool.id STRING MEDIUM - Sent in the header Confluent-Identity-Pool-Id.
bearer.auth.logical.cluster STRING MEDIUM - Sent in the header target-sr-cluster.
bearer.auth.cache.expiry.buffer.seconds SHORT LOW =300 Has no effect: tokens are always renewed before they expire.
bearer.auth.custom.provider.class STRING MEDIUM - Not supported: no Java class is run.
context.name.strategy CLASS MEDIUM ={_NO_CONTEXT} Only this class is supported.
key.subject.name.strategy CLASS MEDIUM ={ASSOCIATED_NAME} How to name the subject of keys (see docs/registry.md).
key.schema.id.serializer CLASS MEDIUM ={_PREFIX_ID} Where to write ids of keys; HeaderSchemaIdSerializer uses headers.
key.schema.id.deserializer CLASS MEDIUM ={_DUAL_ID} Where to read ids of keys; the default also reads headers.
value.subject.name.strategy CLASS MEDIUM ={ASSOCIATED_NAME} How to name the subject of values (see docs/registry.md).
value.schema.id.serializer CLASS MEDIUM ={_PREFIX_ID} Where to write ids of values, as for keys.
value.schema.id.deserializer CLASS MEDIUM ={_DUAL_ID} Where to read ids of values; the default also reads headers.
schema.reflection BOOLEAN LOW =false Has no effect.
proxy.host STRING LOW = The host of the proxy for requests to the registry.
proxy.port INT LOW =-1 The port of the proxy.
http.connect.timeout.ms INT LOW =60000 The timeout of a connection attempt.
http.read.timeout.ms INT LOW =60000 The timeout of a response.
max.retries INT LOW =3 How often to retry a request before the registry counts as unreachable.
retries.wait.ms INT LOW =1000 The maximum backoff before the first retry.
retries.max.wait.ms INT LOW =20000 The maximum backoff before any retry.
"""
TLS_PREFIX = "schema.registry."
_OF_CLIENT = ("basic.auth.", "bearer.auth.", "proxy.", "http.", "max.retries", "retries.")

_RANGES = {"bearer.auth.cache.expiry.buffer.seconds": between(0, 3600)} | dict.fromkeys(
    ("http.connect.timeout.ms", "http.read.timeout.ms", "max.retries", "retries.wait.ms", "retries.max.wait.ms"),
    at_least(0))  # fmt: skip


def _keys() -> Iterator[ConfigKey]:
    for line in _TABLE.strip().splitlines():
        yield _key(*line.split(maxsplit=4))
    for name, key in client_config_def("producer").keys.items():
        if name.startswith("ssl."):
            doc = ("Has no effect, as in Confluent's client." if name in UNREAD_BY_REGISTRY_CLIENTS else
                   f"As {name} of Kafka's clients, for the registry.")
            yield replace(key, name=TLS_PREFIX + name, doc=doc)


def _key(name: str, kind: str, importance: str, default: str, doc: str) -> ConfigKey:
    value: Any = {"-": None, "!": REQUIRED}.get(default, default[1:])
    return ConfigKey(name, Type[kind], default=value, validator=_RANGES.get(name), importance=Importance[importance],
                     doc=doc)


REGISTRY_KEYS = ConfigDef(*_keys())

_STRATEGIES = (TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME, ASSOCIATED_NAME)
_ONLY: dict[str, tuple[Any, ...]] = {
    "propagate.schema.tags": (False,),
    "use.schema.guid": (None, ""),
    "schema.format": (None, ""),
    "rule.executors": ([],),
    "rule.actions": ([],),
    "bearer.auth.custom.provider.class": (None, ""),
    "context.name.strategy": (_NO_CONTEXT,),
    "key.subject.name.strategy": _STRATEGIES,
    "value.subject.name.strategy": _STRATEGIES,
    "key.schema.id.serializer": (_PREFIX_ID, _HEADER_ID),
    "value.schema.id.serializer": (_PREFIX_ID, _HEADER_ID),
    "key.schema.id.deserializer": (_DUAL_ID, _PREFIX_READER),
    "value.schema.id.deserializer": (_DUAL_ID, _PREFIX_READER),
    "basic.auth.credentials.source": ("URL", "USER_INFO"),
    "bearer.auth.credentials.source": ("STATIC_TOKEN", "OAUTHBEARER"),
}


def without_prefix(props: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings, with those of the client that have the prefix `schema.registry.` also without it, as
    Confluent's client reads them. If both forms are set, the one with the prefix wins. (In Java, the order of a hash
    map decides.)
    """
    bare = {key.removeprefix(TLS_PREFIX): value for key, value in props.items()
            if key.startswith(TLS_PREFIX) and value not in (None, "")}
    return {**props, **{name: value for name, value in bare.items() if name.startswith(_OF_CLIENT)}}


NO_REGISTRY: Final = ("name at least one URL, such as http://registry:8081; a converter of this kind needs "
                      "a registry (JsonConverter does not)")


def check(values: Mapping[str, Any]) -> None:
    """Raises ConfigError for a value that is not supported."""
    for _, message in problems(values):
        raise ConfigError(message)


def problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Returns the keys whose values are not supported, each with a message."""
    if not [url for url in values[_URL] if url]:
        yield _URL, f"{_URL}: {NO_REGISTRY}"
        return
    for url in values[_URL]:
        reason = _problem_of(url)
        if reason:
            yield _URL, f"Invalid value {without_user(url)} for configuration {_URL}: {reason}"
    for name, allowed in _ONLY.items():
        if values[name] not in allowed:
            names = ", ".join(str(value) for value in allowed if value)
            remedy = f"supported: {names}" if names else "not supported; remove it"
            yield name, f"Invalid value {values[name]} for configuration {name}: {remedy}"
    try:
        metadata_properties(values)
    except ConfigError as error:
        yield _METADATA, str(error)
    try:
        if values["basic.auth.credentials.source"] == "USER_INFO":
            user_info(values)
    except ConfigError as error:
        yield "basic.auth.user.info", str(error)
    urls = (*values[_URL], values["bearer.auth.issuer.endpoint.url"] or "")
    try:
        if any(url.startswith("https://") for url in urls):
            refuse_https({key.removeprefix(TLS_PREFIX): str(value or "") for key, value in values.items()}, TLS_PREFIX)
    except ConfigError as error:
        yield _URL, str(error)


def _problem_of(url: str) -> str | None:
    if not url.startswith(("http://", "https://")):
        return "must start with http:// or https://"
    return None if _has_address(url) else "must have a host and, optionally, a port from 1 to 65535"


def _has_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def without_user(url: str) -> str:
    """Returns the URL without user and password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else url.rpartition("@")[2]


def user_info(values: Mapping[str, Any]) -> str:
    """Returns user and password, with a colon between them. `values`: with Passwords or their texts. Raises
    ConfigError.
    """
    given = values.get("basic.auth.user.info") or ""
    user: str = given.value if isinstance(given, Password) else given
    if not user:
        raise ConfigError("basic.auth.user.info is missing, although basic.auth.credentials.source is USER_INFO; set "
                          "it to user:password")
    if ":" not in user:
        raise ConfigError("basic.auth.user.info (value hidden) must be user:password")
    return user


def metadata_properties(values: Mapping[str, Any]) -> Properties:
    """Returns the properties of use.latest.with.metadata, none if it is not set. As in Java, pairs with a comma are in
    single quotes, which are doubled within them. Raises ConfigError.
    """
    text = values[_METADATA] or ""
    try:
        pairs = [pair.partition("=") for pair in next(csv.reader([text], quotechar="'", strict=True), [])]
    except csv.Error:
        pairs = [("", "", "")]
    found = {key: value for key, separator, value in pairs if separator}
    if len(found) != len(pairs):
        raise ConfigError(f"Invalid value {text} for configuration {_METADATA}: must be different keys with their "
                          "values, such as application.version=v1,team=x; a pair with a comma must be in single quotes")
    return tuple(sorted(found.items()))


def reads_headers(values: Mapping[str, Any], *, is_key: bool) -> bool:
    """Returns whether the converter reads schema ids from headers, too."""
    return bool(values[f"{'key' if is_key else 'value'}.schema.id.deserializer"] == _DUAL_ID)


def writes_headers(values: Mapping[str, Any], *, is_key: bool) -> bool:
    """Returns whether the converter writes GUIDs into headers, instead of ids before the payload."""
    return bool(values[f"{'key' if is_key else 'value'}.schema.id.serializer"] == _HEADER_ID)
