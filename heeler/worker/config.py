"""One worker's configuration: a Kafka Connect worker file, the environment and the command line as one frozen value."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from heeler.java_host.runtime import JavaRuntime
from heeler.worker.exactly_once import ExactlyOnce
from heeler.worker.keys.clients import CLIENT_KEYS
from heeler.worker.keys.ignored import refusals, warning
from heeler.worker.keys.worker import KNOWN_PREFIXES, LOG_LEVEL, WORKER_KEYS
from heeler.worker.providers import configured
from spark_tasks.config.client_keys import is_client_key
from spark_tasks.config.client_properties import WorkerClients
from spark_tasks.config.definition import ConfigDef, Type, invalid
from spark_tasks.config.masking import MASK, passwords, process_secrets, secret_name
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins.config_providers import ConfigProvider, ConfigTransformer
from spark_tasks.spark.master import SparkMaster
from spark_tasks.spark.residents.settings import RESIDENT
from spark_tasks.spark.security import authenticates, authentication
from storage.ids import TopicName
from storage.offsets.own_topic import OwnOffsets
from storage.offsets.placement import own_offsets

_logger = logging.getLogger(__name__)
_CLIENT_PREFIXES = ("security.", "ssl.", "sasl.")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """`values`: every known key, parsed, except those without a default that are neither set nor needed; `originals`:
    the settings as given, with provider placeholders replaced; `clients`: those for the Kafka clients of connectors;
    `java`: the Java plugins, if a provider is one.
    """

    values: Mapping[str, Any]
    originals: Mapping[str, str]
    clients: WorkerClients
    providers: Mapping[str, ConfigProvider]
    java: JavaRuntime | None = None

    @classmethod
    def of(cls, props: Mapping[str, str], needed: Collection[str] | None = None) -> Self:
        """Parses and checks the settings. `needed`: the keys without a default that must be set; None: all.

        Raises ConfigError that lists each wrong key, its value and what is allowed.
        """
        providers, java = configured(props, _hide)
        try:
            return cls._of(props, providers, java, needed)
        except BaseException:
            if java is not None:
                java.close()
            raise

    @classmethod
    def _of(
        cls, props: Mapping[str, str], providers: Mapping[str, ConfigProvider], java: JavaRuntime | None,
        needed: Collection[str] | None,
    ) -> Self:
        try:
            originals = ConfigTransformer(providers, on_values=_hide).transform(props)
        except ConnectError as error:
            raise ConfigError(str(error)) from error
        process_secrets().add("", passwords(originals, [k for k in originals if _is_secret(k)]))
        if "plugin.path" in props and originals["plugin.path"] != props["plugin.path"]:
            _logger.warning("plugin.path cannot contain placeholders (KIP-421); %s is used as it is",
                            props["plugin.path"])
            originals["plugin.path"] = props["plugin.path"]
        values, clients = _parse(originals, originals.given, needed)
        config = cls(values, originals, clients, providers, java)
        for key in config.unknown_keys():
            near = difflib.get_close_matches(key, WORKER_KEYS.keys, 1, 0.85)
            _logger.warning("%s is not a known worker setting%s", key, f"; did you mean {near[0]}?" if near else "")
        ignored = warning(originals)
        if ignored:
            _logger.warning(ignored)
        if not authenticates(originals):
            _logger.warning("spark.authenticate=false: anybody who can reach a port of Spark can run code there and "
                            "read the passwords of connectors")
        return config

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def group_id(self) -> str:
        """The worker group's name."""
        return str(self.values["group.id"])

    @property
    def bootstrap_servers(self) -> str:
        """Brokers, separated by commas."""
        return ",".join(self.values["bootstrap.servers"])

    @property
    def exactly_once_support(self) -> ExactlyOnce:
        """The value of exactly.once.source.support."""
        return ExactlyOnce.of(self.values)

    @property
    def exactly_once(self) -> bool:
        """Whether exactly.once.source.support is enabled (KIP-618)."""
        return self.exactly_once_support is ExactlyOnce.ENABLED

    @property
    def spark_master(self) -> SparkMaster:
        """Where Spark runs."""
        return SparkMaster.of(self.originals)

    @property
    def starts_executors(self) -> bool:
        """Whether the worker starts executor processes itself, until Spark does."""
        return self["heeler.executors.mode"] == RESIDENT and self.spark_master.is_local

    @property
    def transactional_leader(self) -> bool:
        """Whether the leader writes the config topic in transactions (preparing or enabled, KIP-618)."""
        return self.exactly_once_support is not ExactlyOnce.DISABLED

    @property
    def log_levels(self) -> dict[str, str]:
        """The level of each logger that has one of its own, as given."""
        return self.prefixed(LOG_LEVEL)

    def prefixed(self, prefix: str) -> dict[str, str]:
        """The settings under a prefix, without it."""
        return {k.removeprefix(prefix): v for k, v in self.originals.items() if k.startswith(prefix)}

    def client(self) -> dict[str, str]:
        """Settings of the worker's own Kafka clients, in Kafka's names. As in Java, they include keys that the worker
        does not define, such as max.request.size.
        """
        known = {k: v for k, v in self.originals.items() if k in CLIENT_KEYS or k.startswith(_CLIENT_PREFIXES)}
        undefined = {k: self.originals[k] for k in _undefined(self.originals)}
        return {**known, "bootstrap.servers": self.bootstrap_servers, **undefined}

    def own_offsets(self, connector: Mapping[str, str]) -> OwnOffsets | None:
        """Where a source connector's offsets are, if not on the worker's topic alone. Raises ConfigError."""
        topic = TopicName(self.values["offset.storage.topic"])
        return own_offsets(self.clients, topic, connector, exactly_once=self.exactly_once)

    def unknown_keys(self) -> list[str]:
        """Settings that neither the worker nor a client of Kafka's has; they are often misspelled."""
        return [key for key in _undefined(self.originals) if not is_client_key(key)]


def load_worker_config(
    file: Path, overrides: Iterable[str] = (), environ: Mapping[str, str] | None = None,
    needed: Collection[str] | None = None, *, given: Callable[[Mapping[str, str]], object] = lambda _: None,
) -> WorkerConfig:
    """Reads a Java .properties file. `CONNECT_…` variables in `environ` override it, and `overrides` (KEY=VALUE)
    override both. `needed`: see WorkerConfig.of. Calls `given` with the settings before they are checked. Raises
    ConfigError.
    """
    import javaproperties  # noqa: PLC0415 - only here

    try:
        props: dict[str, str] = javaproperties.loads(_decoded(file.read_bytes()))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"The worker file {file} cannot be read: {why}") from error
    props |= from_environment(environ or {})
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"Invalid override {override}: must be KEY=VALUE")
        props[key.strip()] = value
    given(props)
    try:
        return WorkerConfig.of(props, needed)
    except ConfigError as error:
        raise ConfigError(f"The worker file {file} has invalid settings:\n{error}") from error


def _decoded(data: bytes) -> str:
    """The text of a worker file: UTF-8 (some editors put a byte order mark before it) if it is valid, else Latin-1, in
    which Java reads it.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings in `CONNECT_…` variables, as Kafka Connect's container images name them: CONNECT_GROUP_ID is group.id,
    two underscores stand for one, three for a dash. CONNECT_LOG4J_ROOT_LOGLEVEL and CONNECT_LOG4J_LOGGERS set log
    levels.
    """
    properties: dict[str, str] = {}
    for name, value in environ.items():
        if not name.startswith("CONNECT_"):
            continue
        if name == "CONNECT_LOG4J_ROOT_LOGLEVEL":
            properties["heeler.log.level"] = value
        elif name == "CONNECT_LOG4J_LOGGERS":
            pairs = (part.partition("=") for part in value.split(",") if "=" in part)
            properties |= {f"heeler.log.level.{logger.strip()}": level.strip() for logger, _, level in pairs}
        elif not name.startswith("CONNECT_LOG4J_"):
            rest = name.removeprefix("CONNECT_").lower()
            properties[re.sub("_{1,3}", lambda m: {1: ".", 2: "_", 3: "-"}[len(m[0])], rest)] = value
    return properties


def _hide(_: str | None, given: Mapping[str, Sequence[str]]) -> None:
    """Registers values of providers in passwords and unknown keys as secrets. Operators may read all other settings."""
    for key, values in given.items():
        if key not in WORKER_KEYS or _is_secret(key):
            process_secrets().add("", values)


def _parse(
    originals: Mapping[str, str], given: Collection[str], needed: Collection[str] | None
) -> tuple[dict[str, Any], WorkerClients]:
    values: dict[str, Any] = {}
    errors: list[str] = []
    for name, key in WORKER_KEYS.keys.items():
        if key.required and name not in originals and needed is not None and name not in needed:
            continue
        try:
            values |= ConfigDef(key).parse(originals)
        except ConfigError as error:
            text = originals.get(name)
            hidden = text and (_is_secret(name) or name in given)
            errors.append(str(error).replace(text or "", MASK) if hidden else str(error))
            near = difflib.get_close_matches(name, _undefined(originals), 1, 0.85) if text is None else ()
            errors[-1] += "".join(f" Did you mean {key}?" for key in near)
    clients = WorkerClients()
    try:
        clients = WorkerClients.of(originals)
    except ConfigError as error:
        errors.append(str(error))
    try:
        authentication(originals)
    except ConfigError as error:
        errors.append(str(error))
    errors += refusals(originals)
    errors += _contradictions(values)
    if errors:
        raise ConfigError("\n".join(errors))
    return values, clients


def _undefined(originals: Mapping[str, str]) -> list[str]:
    return sorted(k for k in originals if k not in WORKER_KEYS and not k.startswith(KNOWN_PREFIXES))


def _contradictions(values: Mapping[str, Any]) -> Iterable[str]:
    session, heartbeat = values.get("session.timeout.ms"), values.get("heartbeat.interval.ms")
    if session is not None and heartbeat is not None and heartbeat >= session:
        yield str(invalid("heartbeat.interval.ms", heartbeat, f"must be lower than session.timeout.ms ({session})"))
    signature, accepted = (values.get(f"inter.worker.{k}") for k in ("signature.algorithm", "verification.algorithms"))
    if signature and accepted and signature not in accepted:
        allowed = f"must be one of inter.worker.verification.algorithms ({', '.join(accepted)})"
        yield str(invalid("inter.worker.signature.algorithm", signature, allowed))


def _is_secret(name: str) -> bool:
    known = WORKER_KEYS.keys.get(name)
    return known.type is Type.PASSWORD if known else secret_name(name)
