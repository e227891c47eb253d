"""Translates the settings of Apicurio's clients (apicurio.registry.*) to those of Confluent's converters; Apicurio's
registry supports Confluent's API, too. Rejects values that would change the bytes of records or the place of schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigValue
from spark_tasks.errors import ConfigError
from spark_tasks.registry.settings import NO_REGISTRY, problems, without_prefix, without_user

PREFIX = "apicurio.registry."
_URL = "schema.registry.url"
_TLS = "schema.registry.ssl."
_SAME = {
    "auth.service.token.endpoint": "bearer.auth.issuer.endpoint.url", "auth.client.id": "bearer.auth.client.id",
    "auth.client.secret": "bearer.auth.client.secret", "auth.client.scope": "bearer.auth.scope",
    "auto-register": "auto.register.schemas", "find-latest": "use.latest.version", "retry-count": "max.retries",
    "retry-backoff-ms": "retries.wait.ms", "proxy.host": "proxy.host", "proxy.port": "proxy.port",
    "tls.truststore.location": f"{_TLS}truststore.location", "tls.truststore.type": f"{_TLS}truststore.type",
    "tls.truststore.password": f"{_TLS}truststore.password", "tls.keystore.location": f"{_TLS}keystore.location",
    "tls.keystore.type": f"{_TLS}keystore.type", "tls.keystore.password": f"{_TLS}keystore.password",
}  # fmt: skip
# key -> the supported values; of class names, only the part after the last dot is compared
_ONLY = {
    "id-handler": ("Default4ByteIdHandler", "Legacy4ByteIdHandler"), "as-confluent": ("true",),
    "use-id": ("contentId",), "headers.enabled": ("false",), "artifact-resolver-strategy": ("TopicIdStrategy",),
    "artifact.group-id": ("default",), "avro.encoding": ("BINARY",),
    "avro-datum-provider": ("DefaultAvroDatumProvider",), "converter.serializer": ("AvroKafkaSerializer",),
    "converter.deserializer": ("AvroKafkaDeserializer",),
    "auto-register.if-exists": ("FIND_OR_CREATE_VERSION", "RETURN_OR_UPDATE"), "dereference-schema": ("false",),
    "canonicalize": ("false",), "use-schema-from-headers": ("false",), "serde.contract-rules.enabled": ("false",),
    "tls.trust-all": ("false",), "serde.send-type-ref": ("false",), "serde.read-type-ref": ("false",),
    "serde.send-indexes": ("true",), "serde.read-indexes": ("true",),
}  # fmt: skip
_OTHER_IN_2 = {"use-id": "globalId", "headers.enabled": "true"}  # defaults of Apicurio 2
_OF_NO_EFFECT = frozenset({
    "url", "url.version", "auth.username", "auth.password", "check-period-ms", "cache-latest", "is-key",
    "fault-tolerant-refresh", "background-refresh-enabled", "background-refresh.executor-threads",
    "background-refresh.timeout-ms", "use-specific-avro-reader", "avro.schema-cache-size",
})  # fmt: skip


def translated(props: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with Apicurio's keys translated and, if `apicurio.registry.url` is set, Apicurio's defaults.
    If both forms of a key are set, Confluent's wins. Raises ConfigError.
    """
    apicurio_settings = {
        key.removeprefix(PREFIX): str(value).strip() for key, value in props.items() if key.startswith(PREFIX)}
    if not apicurio_settings:
        return dict(props)
    out: dict[str, Any] = {"auto.register.schemas": "false"} if "url" in apicurio_settings else {}
    for name, value in apicurio_settings.items():
        if name in _SAME:
            out[_SAME[name]] = value
        elif name in _ONLY:
            if value.rpartition(".")[2].lower() not in map(str.lower, _ONLY[name]):
                raise ConfigError(f"Invalid value {value} for configuration {PREFIX}{name}: supported: "
                                  f"{', '.join(_ONLY[name])}")
        elif name not in _OF_NO_EFFECT:
            raise ConfigError(f"The configuration {PREFIX}{name} is not supported")
    _check_defaults(apicurio_settings)
    if "url" in apicurio_settings:
        out[_URL] = ",".join(_confluent_url(url.strip()) for url in apicurio_settings["url"].split(","))
    if "auth.username" in apicurio_settings:
        out["basic.auth.credentials.source"] = "USER_INFO"
        user, password = apicurio_settings["auth.username"], apicurio_settings.get("auth.password", "")
        out["basic.auth.user.info"] = f"{user}:{password}"
    if "auth.service.token.endpoint" in apicurio_settings:
        out["bearer.auth.credentials.source"] = "OAUTHBEARER"
    return {**out, **{key: value for key, value in props.items() if not key.startswith(PREFIX)}}


def _check_defaults(settings: Mapping[str, str]) -> None:
    """Raises ConfigError if the settings are those of Apicurio 2 and one lacks whose default is not supported."""
    if "as-confluent" in settings or settings.get("id-handler", "").endswith("Legacy4ByteIdHandler"):
        for name, default in _OTHER_IN_2.items():
            if name not in settings:
                raise ConfigError(f"Please set {PREFIX}{name}={_ONLY[name][0]}: its default in Apicurio 2 is "
                                  f"{default}, which is not supported")


def writes_as_apicurio(props: Mapping[str, Any]) -> bool:
    """Returns whether the settings are those of Apicurio's converter, which writes Avro's bytes differently."""
    return f"{PREFIX}url" in props


def _confluent_url(url: str) -> str:
    """Returns the URL of Confluent's API in an Apicurio registry, from the URL of Apicurio's own API."""
    if re.search(r"/apis/ccompat/v\d+/?$", url):
        return url
    match = re.fullmatch(r"(https?://[^/]+)(?:(.*)/apis(?:/registry(?:/v\d+)?)?)?/?", url)
    if match is None:
        raise ConfigError(f"Invalid value {without_user(url)} for configuration {PREFIX}url: must be Apicurio's, such "
                          "as http://apicurio:8080/apis/registry/v3")
    return f"{match[1]}{match[2] or ''}/apis/ccompat/v7"


_REQUIRED = f'Missing required configuration "{_URL}" which has no default value.'
_MISSING = f"{_REQUIRED} Please {NO_REGISTRY}."


def unified(props: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with the names of settings.REGISTRY_KEYS, instead of Apicurio's or those with a prefix.
    Raises ConfigError.
    """
    return without_prefix(translated(props))


class RegistryConfigDef(ConfigDef):
    """The keys of a converter with a registry. Other names of keys are accepted, too: see `unified`."""

    @override
    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        props = unified(props)
        if _URL not in props:
            raise ConfigError(_MISSING)
        return super().parse(props)

    @override
    def validate_all(self, props: Mapping[str, Any]) -> dict[str, ConfigValue]:
        """Validates the settings, also against what the converters support. Reports errors in Apicurio's keys as errors
        of schema.registry.url.
        """
        try:
            results = super().validate_all(unified(props))
        except ConfigError as error:
            results = super().validate_all(props)
            results[_URL].errors[:] = [str(error)]
        if not any(result.errors for result in results.values()):
            for name, message in problems({name: result.value for name, result in results.items()}):
                results[name].errors.append(message)
        results[_URL].errors[:] = [_MISSING if message == _REQUIRED else message for message in results[_URL].errors]
        return results
