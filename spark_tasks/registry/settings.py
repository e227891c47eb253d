"""The keys of converters for the schema registry, with the names, types and defaults of Confluent's converters.
Settings that no Python client supports are refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_tasks.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, Type, between
from spark_tasks.errors import ConfigError

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
schema.registry.url LIST HIGH ! URLs of the schema registry; several, separated by commas, are tried one after another.
schema.registry.url.randomize BOOLEAN LOW =false Whether each process begins with another of the URLs.
max.schemas.per.subject INT LOW =1000 How many schemas are kept.
normalize.schemas BOOLEAN MEDIUM =false Whether the registry takes schemas that differ in form alone for the same.
auto.register.schemas BOOLEAN MEDIUM =true Whether schemas are registered; else they have to be in the registry already.
propagate.schema.tags BOOLEAN LOW =false Not supported: has to be false.
use.schema.id INT LOW =-1 The id of the schema that all records are written with; -1 for none.
use.schema.guid STRING LOW - Not supported: use use.schema.id.
id.compatibility.strict BOOLEAN LOW =true Whether use.schema.id demands that the records' schema can read that one.
use.latest.version BOOLEAN LOW =false Whether records are written with the newest schema of their subject.
latest.compatibility.strict BOOLEAN LOW =true Whether the records' schema has to be able to read that newest one.
latest.cache.size INT LOW =1000 How many newest schemas are kept.
latest.cache.ttl.sec INT LOW =-1 For how long a newest schema is kept, in seconds; -1 for ever.
use.latest.with.metadata STRING LOW - Not supported.
schema.format STRING LOW - Not supported.
execution.environment STRING MEDIUM - Not supported.
rule.executors LIST LOW = Not supported: no rules of data contracts are run.
rule.actions LIST LOW = Not supported: no rules of data contracts are run.
rule.service.loader.enable BOOLEAN LOW =true Of no effect: no Java class is run.
rule.metrics.enable BOOLEAN LOW =true Of no effect: no rules of data contracts are run.
validation.rules.executor.class STRING LOW =io.confluent.kafka.schemaregistry.rules.cel.CelValidator Of no effect.
validation.rules.fail.fast BOOLEAN LOW =false Of no effect.
basic.auth.credentials.source STRING MEDIUM =URL Where user and password are: URL or USER_INFO.
bearer.auth.credentials.source STRING MEDIUM =STATIC_TOKEN Where the token is from: STATIC_TOKEN or OAUTHBEARER.
schema.registry.basic.auth.user.info PASSWORD MEDIUM = The older name of basic.auth.user.info.
basic.auth.user.info PASSWORD MEDIUM = User and password, a colon between them, for USER_INFO.
bearer.auth.token PASSWORD MEDIUM = The token, for STATIC_TOKEN.
bearer.auth.issuer.endpoint.url STRING MEDIUM - Where tokens are given out, for OAUTHBEARER.
bearer.auth.client.id STRING MEDIUM - Whom tokens are given to, for OAUTHBEARER.
bearer.auth.client.secret PASSWORD MEDIUM - The client's secret, for OAUTHBEARER.
bearer.auth.scope STRING MEDIUM - What the tokens are for, for OAUTHBEARER.
bearer.auth.scope.claim.name STRING LOW =scope Of no effect: tokens are passed on as they are.
bearer.auth.sub.claim.name STRING LOW =sub Of no effect: tokens are passed on as they are.
bearer.auth.identity.pool.id STRING MEDIUM - Sent in the header Confluent-Identity-Pool-Id.
bearer.auth.logical.cluster STRING MEDIUM - Sent in the header target-sr-cluster.
bearer.auth.cache.expiry.buffer.seconds SHORT LOW =300 Of no effect: tokens are renewed early anyway.
bearer.auth.custom.provider.class STRING MEDIUM - Not supported: no Java class is run.
context.name.strategy CLASS MEDIUM ={_NO_CONTEXT} Only this one is supported.
key.subject.name.strategy CLASS MEDIUM ={ASSOCIATED_NAME} How the subject of keys is called (see docs/registry.md).
key.schema.id.serializer CLASS MEDIUM ={_PREFIX_ID} Where ids of keys are written: HeaderSchemaIdSerializer has headers.
key.schema.id.deserializer CLASS MEDIUM ={_DUAL_ID} Where ids of keys are read: this one looks into headers too.
value.subject.name.strategy CLASS MEDIUM ={ASSOCIATED_NAME} How the subject of values is called (see docs/registry.md).
value.schema.id.serializer CLASS MEDIUM ={_PREFIX_ID} Where ids of values are written: as with keys.
value.schema.id.deserializer CLASS MEDIUM ={_DUAL_ID} Where ids of values are read: this one looks into headers too.
schema.reflection BOOLEAN LOW =false Of no effect.
proxy.host STRING LOW = The proxy through which the registry is reached.
proxy.port INT LOW =-1 The proxy's port.
http.connect.timeout.ms INT LOW =60000 How long a connection may take.
http.read.timeout.ms INT LOW =60000 How long an answer may take.
max.retries INT LOW =3 How often a request is repeated at once before the registry counts as out of reach.
retries.wait.ms INT LOW =1000 The longest wait before the first repetition.
retries.max.wait.ms INT LOW =20000 The longest wait before any repetition.
"""
# keys that every Java client has and that are not client keys of Kafka
_TLS = """
ssl.cipher.suites LIST LOW -
ssl.enabled.protocols LIST MEDIUM =TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING LOW =https
ssl.engine.factory.class CLASS LOW -
ssl.key.password PASSWORD HIGH -
ssl.keymanager.algorithm STRING LOW =SunX509
ssl.keystore.certificate.chain PASSWORD HIGH -
ssl.keystore.key PASSWORD HIGH -
ssl.keystore.location STRING HIGH -
ssl.keystore.password PASSWORD HIGH -
ssl.keystore.type STRING MEDIUM =JKS
ssl.protocol STRING MEDIUM =TLSv1.3
ssl.provider STRING MEDIUM -
ssl.secure.random.implementation STRING LOW -
ssl.trustmanager.algorithm STRING LOW =PKIX
ssl.truststore.certificates PASSWORD HIGH -
ssl.truststore.location STRING HIGH -
ssl.truststore.password PASSWORD HIGH -
ssl.truststore.type STRING MEDIUM =JKS
"""
TLS_PREFIX = "schema.registry."


def _keys() -> list[ConfigKey]:
    rows = [line.split(maxsplit=4) for line in _TABLE.strip().splitlines()]
    rows += [
        [TLS_PREFIX + name, kind, importance, default, f"As {name} of Kafka's clients, for the registry."]
        for name, kind, importance, default in (line.split() for line in _TLS.strip().splitlines())
    ]
    return [_key(*row) for row in rows]


def _key(name: str, kind: str, importance: str, default: str, doc: str) -> ConfigKey:
    value: Any = {"-": None, "!": REQUIRED}.get(default, default[1:])
    ranged = between(0, 3600) if name == "bearer.auth.cache.expiry.buffer.seconds" else None
    return ConfigKey(name, Type[kind], default=value, validator=ranged, importance=Importance[importance], doc=doc)


REGISTRY_KEYS = ConfigDef(*_keys())

_ONLY: dict[str, tuple[Any, ...]] = {
    "propagate.schema.tags": (False,),
    "use.schema.guid": (None, ""),
    "use.latest.with.metadata": (None, ""),
    "schema.format": (None, ""),
    "rule.executors": ([],),
    "rule.actions": ([],),
    "bearer.auth.custom.provider.class": (None, ""),
    "context.name.strategy": (_NO_CONTEXT,),
    "key.schema.id.serializer": (_PREFIX_ID, _HEADER_ID),
    "value.schema.id.serializer": (_PREFIX_ID, _HEADER_ID),
    "key.schema.id.deserializer": (_DUAL_ID, _PREFIX_READER),
    "value.schema.id.deserializer": (_DUAL_ID, _PREFIX_READER),
    "basic.auth.credentials.source": ("URL", "USER_INFO"),
    "bearer.auth.credentials.source": ("STATIC_TOKEN", "OAUTHBEARER"),
}


NO_REGISTRY: Final = ("name at least one URL, such as http://registry:8081; a converter of this kind needs "
                      "a registry (JsonConverter does not)")


def check(values: Mapping[str, Any]) -> None:
    """ConfigError for a value that is not supported."""
    if not [url for url in values["schema.registry.url"] if url]:
        raise ConfigError(f"schema.registry.url: {NO_REGISTRY}")
    for url in values["schema.registry.url"]:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"Invalid value {url} for configuration schema.registry.url: must begin with http:// or "
                              "https://")
    for name, allowed in _ONLY.items():
        if values[name] not in allowed:
            names = ", ".join(str(one) for one in allowed if one) or "left out"
            raise ConfigError(f"Invalid value {values[name]} for configuration {name}: not supported; it has to be "
                              f"{names}")


def reads_headers(values: Mapping[str, Any], *, is_key: bool) -> bool:
    """Whether schema ids in headers are used."""
    return bool(values[f"{'key' if is_key else 'value'}.schema.id.deserializer"] == _DUAL_ID)


def writes_headers(values: Mapping[str, Any], *, is_key: bool) -> bool:
    """Whether schemas are named by GUIDs in headers, and not by ids before the bytes."""
    return bool(values[f"{'key' if is_key else 'value'}.schema.id.serializer"] == _HEADER_ID)
