"""The keys of Kafka 4.3's clients, with which a connector's overrides are validated and described, and properties of
clients are parsed (client_values.py).

Each line has a key: name, the clients that have it (P producer, C consumer, A admin), type, importance, default (`-`
null, `!` required, otherwise the text after `=`).
"""

# ruff: noqa: E501  (one line per key)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from spark_tasks.config.client_properties import CONNECTION_NUMBERS
from spark_tasks.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, Rule, Type

_TABLE = """
acks P STRING LOW =all
allow.auto.create.topics C BOOLEAN MEDIUM =true
auto.commit.interval.ms C INT LOW =5000
auto.offset.reset C STRING MEDIUM =latest
batch.size P INT MEDIUM =16384
bootstrap.controllers A LIST HIGH =
bootstrap.servers PC LIST HIGH !
bootstrap.servers A LIST HIGH =
buffer.memory P LONG HIGH =33554432
check.crcs C BOOLEAN LOW =true
client.dns.lookup PCA STRING MEDIUM =use_all_dns_ips
client.id C STRING LOW =
client.id PA STRING MEDIUM =
client.rack C STRING LOW =
compression.gzip.level P INT MEDIUM =-1
compression.lz4.level P INT MEDIUM =9
compression.type P STRING HIGH =none
compression.zstd.level P INT MEDIUM =3
config.providers PCA LIST LOW =
connections.max.idle.ms A LONG MEDIUM =300000
connections.max.idle.ms PC LONG MEDIUM =540000
default.api.timeout.ms CA INT MEDIUM =60000
delivery.timeout.ms P INT MEDIUM =120000
enable.auto.commit C BOOLEAN MEDIUM =true
enable.idempotence P BOOLEAN LOW =true
enable.metrics.push A BOOLEAN LOW =false
enable.metrics.push PC BOOLEAN LOW =true
exclude.internal.topics C BOOLEAN MEDIUM =true
fetch.max.bytes C INT MEDIUM =52428800
fetch.max.wait.ms C INT LOW =500
fetch.min.bytes C INT HIGH =1
group.id C STRING HIGH -
group.instance.id C STRING MEDIUM -
group.protocol C STRING HIGH =classic
group.remote.assignor C STRING MEDIUM -
heartbeat.interval.ms C INT HIGH =3000
interceptor.classes PC LIST LOW =
internal.throw.on.fetch.stable.offset.unsupported C BOOLEAN LOW =false
isolation.level C STRING MEDIUM =read_uncommitted
key.deserializer C CLASS HIGH !
key.serializer P CLASS HIGH !
linger.ms P LONG MEDIUM =5
max.block.ms P LONG MEDIUM =60000
max.in.flight.requests.per.connection P INT LOW =5
max.partition.fetch.bytes C INT HIGH =1048576
max.poll.interval.ms C INT MEDIUM =300000
max.poll.records C INT MEDIUM =500
max.request.size P INT MEDIUM =1048576
metadata.max.age.ms PCA LONG LOW =300000
metadata.max.idle.ms P LONG LOW =300000
metadata.recovery.rebootstrap.trigger.ms PCA LONG LOW =300000
metadata.recovery.strategy PCA STRING LOW =rebootstrap
metric.reporters PCA LIST LOW =org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples PCA INT LOW =2
metrics.recording.level PCA STRING LOW =INFO
metrics.sample.window.ms PCA LONG LOW =30000
partition.assignment.strategy C LIST MEDIUM =class org.apache.kafka.clients.consumer.RangeAssignor,class org.apache.kafka.clients.consumer.CooperativeStickyAssignor
partitioner.adaptive.partitioning.enable P BOOLEAN LOW =true
partitioner.availability.timeout.ms P LONG LOW =0
partitioner.class P CLASS MEDIUM -
partitioner.ignore.keys P BOOLEAN MEDIUM =false
receive.buffer.bytes P INT MEDIUM =32768
receive.buffer.bytes CA INT MEDIUM =65536
reconnect.backoff.max.ms PCA LONG LOW =1000
reconnect.backoff.ms PCA LONG LOW =50
request.timeout.ms PCA INT MEDIUM =30000
retries P INT HIGH =2147483647
retries A INT LOW =2147483647
retry.backoff.max.ms PCA LONG LOW =1000
retry.backoff.ms PCA LONG LOW =100
sasl.client.callback.handler.class PCA CLASS MEDIUM -
sasl.jaas.config PCA PASSWORD MEDIUM -
sasl.kerberos.kinit.cmd PCA STRING LOW =/usr/bin/kinit
sasl.kerberos.min.time.before.relogin PCA LONG LOW =60000
sasl.kerberos.service.name PCA STRING MEDIUM -
sasl.kerberos.ticket.renew.jitter PCA DOUBLE LOW =0.05
sasl.kerberos.ticket.renew.window.factor PCA DOUBLE LOW =0.8
sasl.login.callback.handler.class PCA CLASS MEDIUM -
sasl.login.class PCA CLASS MEDIUM -
sasl.login.connect.timeout.ms PCA INT LOW -
sasl.login.read.timeout.ms PCA INT LOW -
sasl.login.refresh.buffer.seconds PCA SHORT LOW =300
sasl.login.refresh.min.period.seconds PCA SHORT LOW =60
sasl.login.refresh.window.factor PCA DOUBLE LOW =0.8
sasl.login.refresh.window.jitter PCA DOUBLE LOW =0.05
sasl.login.retry.backoff.max.ms PCA LONG LOW =10000
sasl.login.retry.backoff.ms PCA LONG LOW =100
sasl.mechanism PCA STRING MEDIUM =GSSAPI
sasl.oauthbearer.assertion.algorithm PCA STRING MEDIUM =RS256
sasl.oauthbearer.assertion.claim.aud PCA STRING MEDIUM -
sasl.oauthbearer.assertion.claim.exp.seconds PCA INT LOW =300
sasl.oauthbearer.assertion.claim.iss PCA STRING MEDIUM -
sasl.oauthbearer.assertion.claim.jti.include PCA BOOLEAN MEDIUM =false
sasl.oauthbearer.assertion.claim.nbf.seconds PCA INT LOW =60
sasl.oauthbearer.assertion.claim.sub PCA STRING MEDIUM -
sasl.oauthbearer.assertion.file PCA STRING MEDIUM -
sasl.oauthbearer.assertion.private.key.file PCA STRING MEDIUM -
sasl.oauthbearer.assertion.private.key.passphrase PCA PASSWORD MEDIUM -
sasl.oauthbearer.assertion.template.file PCA STRING MEDIUM -
sasl.oauthbearer.client.credentials.client.id PCA STRING MEDIUM -
sasl.oauthbearer.client.credentials.client.secret PCA PASSWORD MEDIUM -
sasl.oauthbearer.clock.skew.seconds PCA INT LOW =30
sasl.oauthbearer.expected.audience PCA LIST HIGH =
sasl.oauthbearer.expected.issuer PCA STRING HIGH -
sasl.oauthbearer.header.urlencode PCA BOOLEAN LOW =false
sasl.oauthbearer.jwks.endpoint.refresh.ms PCA LONG LOW =3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms PCA LONG LOW =10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms PCA LONG LOW =100
sasl.oauthbearer.jwks.endpoint.url PCA STRING MEDIUM -
sasl.oauthbearer.jwt.retriever.class PCA CLASS MEDIUM =org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class PCA CLASS MEDIUM =org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope PCA STRING MEDIUM -
sasl.oauthbearer.scope.claim.name PCA STRING LOW =scope
sasl.oauthbearer.sub.claim.name PCA STRING LOW =sub
sasl.oauthbearer.token.endpoint.url PCA STRING MEDIUM -
security.protocol PCA STRING MEDIUM =PLAINTEXT
security.providers PCA STRING LOW -
send.buffer.bytes PCA INT MEDIUM =131072
session.timeout.ms C INT HIGH =45000
share.acknowledgement.mode C STRING MEDIUM =implicit
share.acquire.mode C STRING MEDIUM =BATCH_OPTIMIZED
socket.connection.setup.timeout.max.ms PCA LONG MEDIUM =30000
socket.connection.setup.timeout.ms PCA LONG MEDIUM =10000
ssl.cipher.suites PCA LIST LOW =
ssl.enabled.protocols PCA LIST MEDIUM =TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm PCA STRING LOW =https
ssl.engine.factory.class PCA CLASS LOW -
ssl.key.password PCA PASSWORD HIGH -
ssl.keymanager.algorithm PCA STRING LOW =SunX509
ssl.keystore.certificate.chain PCA PASSWORD HIGH -
ssl.keystore.key PCA PASSWORD HIGH -
ssl.keystore.location PCA STRING HIGH -
ssl.keystore.password PCA PASSWORD HIGH -
ssl.keystore.type PCA STRING MEDIUM =JKS
ssl.protocol PCA STRING MEDIUM =TLSv1.3
ssl.provider PCA STRING MEDIUM -
ssl.secure.random.implementation PCA STRING LOW -
ssl.trustmanager.algorithm PCA STRING LOW =PKIX
ssl.truststore.certificates PCA PASSWORD HIGH -
ssl.truststore.location PCA STRING HIGH -
ssl.truststore.password PCA PASSWORD HIGH -
ssl.truststore.type PCA STRING MEDIUM =JKS
transaction.timeout.ms P INT LOW =60000
transaction.two.phase.commit.enable P BOOLEAN LOW =false
transactional.id P STRING LOW -
value.deserializer C CLASS HIGH !
value.serializer P CLASS HIGH !
"""


ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
RESETS: Final = ("earliest", "latest", "none")
BY_DURATION: Final = "by_duration:"
"""What precedes a duration in auto.offset.reset (KIP-1106)."""
ACKS: Final[Mapping[str, int]] = {"all": -1, "-1": -1, "1": 1, "0": 0}
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _one_of(allowed: Iterable[str], more: str = "", prefix: str | None = None) -> Rule:
    """Returns a rule for texts in any case. `more`: describes those that begin with `prefix`."""
    known = {value.lower() for value in allowed}

    def accepts(value: str) -> bool:
        text = value.lower()
        return text in known or (prefix is not None and text.startswith(prefix))

    return Rule(f"one of {', '.join(allowed)}{more}", accepts)


def _whole(minimum: int) -> Rule:
    return Rule(f"a whole number of at least {minimum}", lambda value: value >= minimum)


_RULES: Final[Mapping[str, Rule]] = {  # of tasks: as in Kafka Connect, validation knows only the types
    **dict.fromkeys((
        "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records", "max.request.size",
        "max.in.flight.requests.per.connection", "delivery.timeout.ms", "transaction.timeout.ms", "max.block.ms",
    ), _whole(1)),
    **dict.fromkeys(CONNECTION_NUMBERS, _whole(0)),
    "isolation.level": _one_of(ISOLATION_LEVELS),
    "auto.offset.reset": _one_of(RESETS, f", or {BY_DURATION}PnDTnHnMn.nS", BY_DURATION),
    "acks": _one_of(ACKS),
    "compression.type": _one_of(COMPRESSIONS),
    "security.protocol": _one_of(PROTOCOLS),
}  # fmt: skip


@cache
def client_config_def(client: str) -> ConfigDef:
    """Returns the keys of one client: "producer", "consumer" or "admin"."""
    rows = (line.split(maxsplit=4) for line in _TABLE.strip().splitlines())
    return ConfigDef(*(_key(*row) for row in rows if client[0].upper() in row[1]))


def is_client_key(key: str) -> bool:
    """Returns whether one of the clients has the key."""
    return any(key in client_config_def(client) for client in ("producer", "consumer", "admin"))


def _key(name: str, _clients: str, kind: str, importance: str, default: str) -> ConfigKey:
    value = {"-": None, "!": REQUIRED}.get(default, default[1:])
    doc = f"Passed on to the Kafka client; see {name} in Kafka's documentation."
    return ConfigKey(name, Type[kind], default=value, validator=_RULES.get(name), importance=Importance[importance],
                     doc=doc)
