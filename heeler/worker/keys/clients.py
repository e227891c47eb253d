"""The keys of a worker's file that are about its own connections to Kafka, as Kafka's clients define them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spark_tasks.config.client_keys import PROTOCOLS, client_config_def
from spark_tasks.config.definition import (
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    OneOfIgnoringCase,
    Validator,
    ValidList,
    at_least,
    between,
)

_JVM = " Used only by Java workers: ignored, or refused if the security of a connection depends on it."
_KAFKAS = client_config_def("consumer").keys


def _key(name: str, doc: str, validator: Validator | None = None, **different: Any) -> ConfigKey:
    """A key as Kafka's clients define it, except for the fields that are `different` in a worker."""
    return replace(_KAFKAS[name], doc=doc, validator=validator, **different)


CONNECTION_KEYS = ConfigDef(
    _key("bootstrap.servers",
         "host:port of one or more brokers, from which the rest of the Kafka cluster is found.",
         ValidList(empty=False)),
    _key("client.dns.lookup",
         "How brokers' host names are resolved.",
         OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    _key("client.id", "The name that brokers log for this worker's requests."),
    _key("metadata.max.age.ms", "The age at which cluster metadata is refreshed.", at_least(0)),
    _key("metadata.recovery.strategy",
         "What a client does when it cannot reach any known broker: start over from bootstrap.servers, or nothing.",
         OneOfIgnoringCase("rebootstrap", "none")),
    _key("metadata.recovery.rebootstrap.trigger.ms",
         "How long metadata may be missing before a client starts over from bootstrap.servers.", at_least(0)),
    _key("send.buffer.bytes", "TCP send buffer; -1 leaves it to the system.", at_least(-1)),
    _key("receive.buffer.bytes", "TCP receive buffer; -1 leaves it to the system.", at_least(-1), default=32_768),
    _key("reconnect.backoff.ms", "First pause before reconnecting to a broker.", at_least(0)),
    _key("reconnect.backoff.max.ms", "Longest pause before reconnecting to a broker.", at_least(0)),
    _key("retry.backoff.ms", "First pause before a failed request is retried.", at_least(0)),
    _key("retry.backoff.max.ms", "Longest pause before a failed request is retried.", at_least(0)),
    _key("request.timeout.ms", "How long a broker may take to respond.", at_least(0), default=40_000),
    _key("connections.max.idle.ms", "An idle connection is closed after this time."),
    _key("socket.connection.setup.timeout.ms",
         "How long the first attempt to connect to a broker may take.", at_least(0), importance=Importance.LOW),
    _key("socket.connection.setup.timeout.max.ms",
         "How long later attempts to connect to a broker may take at most.", at_least(0), importance=Importance.LOW),
    _key("security.protocol",
         "The protocol used to talk to brokers.", OneOfIgnoringCase(*PROTOCOLS)),
)

SSL_KEYS = ConfigDef(
    _key("ssl.keystore.location", "File with this worker's certificate and private key."),
    _key("ssl.keystore.password", "Password of ssl.keystore.location."),
    _key("ssl.keystore.key", "The private key itself, PEM (PKCS#8)."),
    _key("ssl.keystore.certificate.chain", "The certificate chain itself, PEM."),
    _key("ssl.keystore.type", "Format of ssl.keystore.location: PEM, JKS or PKCS12."),
    _key("ssl.key.password", "Password of the private key."),
    _key("ssl.truststore.location", "File with the certificates that are trusted."),
    _key("ssl.truststore.password", "Password of ssl.truststore.location."),
    _key("ssl.truststore.certificates", "The trusted certificates themselves, PEM."),
    _key("ssl.truststore.type", "Format of ssl.truststore.location: PEM, JKS or PKCS12."),
    _key("ssl.protocol", "The TLS version that is preferred."),
    _key("ssl.enabled.protocols", "The TLS versions that are allowed.", ValidList()),
    _key("ssl.cipher.suites", "The ciphers that are allowed; empty for all.", ValidList()),
    _key("ssl.endpoint.identification.algorithm",
         "https: check that a server's certificate names its host; empty: do not check it."),
    _key("ssl.provider", "Security provider." + _JVM),
    _key("ssl.engine.factory.class", "Factory of TLS engines." + _JVM),
    _key("ssl.keymanager.algorithm", "Key manager." + _JVM),
    _key("ssl.trustmanager.algorithm", "Trust manager." + _JVM),
    _key("ssl.secure.random.implementation", "Source of random numbers." + _JVM),
)

SASL_KEYS = ConfigDef(
    _key("sasl.mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; others only for Java workers."),
    _key("sasl.jaas.config",
         "User and password as in Java clients: a login module and its options, ended by a semicolon."),
    _key("sasl.client.callback.handler.class", "Callback of the client." + _JVM),
    _key("sasl.login.callback.handler.class", "Callback of the login." + _JVM),
    _key("sasl.login.class", "The login." + _JVM),
    _key("sasl.kerberos.service.name", "Kerberos principal name that brokers run as."),
    _key("sasl.kerberos.kinit.cmd", "Path of kinit."),
    _key("sasl.kerberos.ticket.renew.window.factor", "Fraction of a ticket's lifetime after which it is renewed."),
    _key("sasl.kerberos.ticket.renew.jitter", "Random part of the renewal time."),
    _key("sasl.kerberos.min.time.before.relogin", "Shortest time (ms) between two renewals."),
    _key("sasl.login.connect.timeout.ms", "Timeout for connecting to the token endpoint."),
    _key("sasl.login.read.timeout.ms", "Timeout for reading from the token endpoint."),
    _key("sasl.login.retry.backoff.ms", "First pause before a login is retried."),
    _key("sasl.login.retry.backoff.max.ms", "Longest pause before a login is retried."),
    _key("sasl.login.refresh.window.factor", "Fraction of a token's lifetime after which it is renewed.",
         between(0.5, 1.0)),
    _key("sasl.login.refresh.window.jitter", "Random part of that time.", between(0.0, 0.25)),
    _key("sasl.login.refresh.min.period.seconds", "Shortest time between two renewals.", between(0, 900)),
    _key("sasl.login.refresh.buffer.seconds", "Time before a token's expiry by which it must be renewed.",
         between(0, 3600)),
)


def _oauth(rest: str, doc: str, validator: Validator | None = None) -> ConfigKey:
    return _key(f"sasl.oauthbearer.{rest}", doc, validator)


OAUTH_KEYS = ConfigDef(
    _oauth("token.endpoint.url", "Where tokens are requested."),
    _oauth("client.credentials.client.id", "Client id at the token endpoint."),
    _oauth("client.credentials.client.secret", "Client secret at the token endpoint."),
    _oauth("scope", "The requested scope."),
    _oauth("scope.claim.name", "The claim that holds the scope."),
    _oauth("sub.claim.name", "The claim that holds the subject."),
    _oauth("header.urlencode", "Whether id and secret are URL-encoded in the header."),
    _oauth("expected.audience", "Audiences that a token may be for."),
    _oauth("expected.issuer", "The issuer that a token must have."),
    _oauth("clock.skew.seconds", "How far two clocks may differ."),
    _oauth("jwks.endpoint.url", "Where the keys that sign tokens are found."),
    _oauth("jwks.endpoint.refresh.ms", "How often those keys are refreshed."),
    _oauth("jwks.endpoint.retry.backoff.ms", "First pause before a failed refresh is retried."),
    _oauth("jwks.endpoint.retry.backoff.max.ms", "Longest such pause."),
    _oauth("jwt.retriever.class", "Fetches tokens." + _JVM),
    _oauth("jwt.validator.class", "Checks tokens." + _JVM),
    _oauth("assertion.algorithm", "Signs assertions.", OneOfIgnoringCase("ES256", "RS256")),
    _oauth("assertion.claim.aud", "Audience of assertions."),
    _oauth("assertion.claim.iss", "Issuer of assertions."),
    _oauth("assertion.claim.sub", "Subject of assertions."),
    _oauth("assertion.claim.exp.seconds", "Lifetime of assertions.", between(0, 86_400)),
    _oauth("assertion.claim.nbf.seconds", "How long before its creation an assertion is already valid.",
           between(0, 3_600)),
    _oauth("assertion.claim.jti.include", "Whether assertions contain an id (jti)."),
    _oauth("assertion.file", "A file with a complete assertion."),
    _oauth("assertion.template.file", "A file with claims for assertions."),
    _oauth("assertion.private.key.file", "PEM file with the key that signs assertions."),
    _oauth("assertion.private.key.passphrase", "Its password."),
)

CLIENT_KEYS = CONNECTION_KEYS.plus(SSL_KEYS, SASL_KEYS, OAUTH_KEYS)
