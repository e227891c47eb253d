"""The keys of a worker's file that are about its own connections to Kafka, as Kafka's clients define them."""

from __future__ import annotations

from spark_tasks.config.definition import (
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    OneOfIgnoringCase,
    Range,
    Type,
    Validator,
    ValidList,
    at_least,
    between,
)

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_JVM = " Only a Java worker has a use for it: ignored, and refused where the security of a connection hangs on it."
_OAUTH = "org.apache.kafka.common.security.oauthbearer.Default"


def _key(
    name: str, kind: Type, default: object, importance: Importance, doc: str, validator: Validator | None = None
) -> ConfigKey:
    return ConfigKey(name, kind, default=default, validator=validator, importance=importance, doc=doc)


CONNECTION_KEYS = ConfigDef(
    ConfigKey(
        "bootstrap.servers", Type.LIST, validator=ValidList(empty=False), importance=_HIGH,
        doc="host:port of one or more brokers, from which the rest of the Kafka cluster is found.",
    ),
    _key("client.dns.lookup", Type.STRING, "use_all_dns_ips", _MEDIUM,
         "How the names of brokers become addresses.",
         OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    _key("client.id", Type.STRING, "", _LOW, "The name that brokers log for this worker's requests."),
    _key("metadata.max.age.ms", Type.LONG, 300_000, _LOW, "The age at which cluster metadata is refreshed.",
         at_least(0)),
    _key("metadata.recovery.strategy", Type.STRING, "rebootstrap", _LOW,
         "What a client does when it can reach no known broker: start over from bootstrap.servers, or nothing.",
         OneOfIgnoringCase("rebootstrap", "none")),
    _key("metadata.recovery.rebootstrap.trigger.ms", Type.LONG, 300_000, _LOW,
         "How long metadata may be missing before a client starts over from bootstrap.servers.", at_least(0)),
    _key("send.buffer.bytes", Type.INT, 131_072, _MEDIUM, "TCP send buffer; -1 leaves it to the system.",
         at_least(-1)),
    _key("receive.buffer.bytes", Type.INT, 32_768, _MEDIUM, "TCP receive buffer; -1 leaves it to the system.",
         at_least(-1)),
    _key("reconnect.backoff.ms", Type.LONG, 50, _LOW, "First pause before a broker is connected to again.",
         at_least(0)),
    _key("reconnect.backoff.max.ms", Type.LONG, 1_000, _LOW, "Longest pause before a broker is connected to again.",
         at_least(0)),
    _key("retry.backoff.ms", Type.LONG, 100, _LOW, "First pause before a failed request is retried.", at_least(0)),
    _key("retry.backoff.max.ms", Type.LONG, 1_000, _LOW, "Longest pause before a failed request is retried.",
         at_least(0)),
    _key("request.timeout.ms", Type.INT, 40_000, _MEDIUM, "How long a broker may take to answer.", at_least(0)),
    _key("connections.max.idle.ms", Type.LONG, 540_000, _MEDIUM, "An idle connection is closed after this time."),
    _key("socket.connection.setup.timeout.ms", Type.LONG, 10_000, _LOW,
         "How long the first attempt to connect to a broker may take.", at_least(0)),
    _key("socket.connection.setup.timeout.max.ms", Type.LONG, 30_000, _LOW,
         "How long later attempts to connect to a broker may take at most.", at_least(0)),
    _key("security.protocol", Type.STRING, "PLAINTEXT", _MEDIUM, "The protocol used to talk to brokers.",
         OneOfIgnoringCase("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
)

SSL_KEYS = ConfigDef(
    _key("ssl.keystore.location", Type.STRING, None, _HIGH, "File with this worker's certificate and private key."),
    _key("ssl.keystore.password", Type.PASSWORD, None, _HIGH, "Password of ssl.keystore.location."),
    _key("ssl.keystore.key", Type.PASSWORD, None, _HIGH, "The private key itself, PEM (PKCS#8)."),
    _key("ssl.keystore.certificate.chain", Type.PASSWORD, None, _HIGH, "The certificate chain itself, PEM."),
    _key("ssl.keystore.type", Type.STRING, "JKS", _MEDIUM, "Format of ssl.keystore.location: PEM, JKS or PKCS12."),
    _key("ssl.key.password", Type.PASSWORD, None, _HIGH, "Password of the private key."),
    _key("ssl.truststore.location", Type.STRING, None, _HIGH, "File with the certificates that are trusted."),
    _key("ssl.truststore.password", Type.PASSWORD, None, _HIGH, "Password of ssl.truststore.location."),
    _key("ssl.truststore.certificates", Type.PASSWORD, None, _HIGH, "The trusted certificates themselves, PEM."),
    _key("ssl.truststore.type", Type.STRING, "JKS", _MEDIUM, "Format of ssl.truststore.location: PEM, JKS or PKCS12."),
    _key("ssl.protocol", Type.STRING, "TLSv1.3", _MEDIUM, "The TLS version that is preferred."),
    _key("ssl.enabled.protocols", Type.LIST, ["TLSv1.2", "TLSv1.3"], _MEDIUM, "The TLS versions that are allowed.",
         ValidList()),
    _key("ssl.cipher.suites", Type.LIST, [], _LOW, "The ciphers that are allowed; empty for all.", ValidList()),
    _key("ssl.endpoint.identification.algorithm", Type.STRING, "https", _LOW,
         "https checks that a server's certificate names its host; empty does not."),
    _key("ssl.provider", Type.STRING, None, _MEDIUM, "Security provider." + _JVM),
    _key("ssl.engine.factory.class", Type.CLASS, None, _LOW, "Maker of TLS engines." + _JVM),
    _key("ssl.keymanager.algorithm", Type.STRING, "SunX509", _LOW, "Key manager." + _JVM),
    _key("ssl.trustmanager.algorithm", Type.STRING, "PKIX", _LOW, "Trust manager." + _JVM),
    _key("ssl.secure.random.implementation", Type.STRING, None, _LOW, "Source of random numbers." + _JVM),
)

SASL_KEYS = ConfigDef(
    _key("sasl.mechanism", Type.STRING, "GSSAPI", _MEDIUM,
         "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI."),
    _key("sasl.jaas.config", Type.PASSWORD, None, _MEDIUM,
         "User and password as Java clients write them: a login module and its options, ended by a semicolon."),
    _key("sasl.client.callback.handler.class", Type.CLASS, None, _MEDIUM, "Callback of the client." + _JVM),
    _key("sasl.login.callback.handler.class", Type.CLASS, None, _MEDIUM, "Callback of the login." + _JVM),
    _key("sasl.login.class", Type.CLASS, None, _MEDIUM, "The login." + _JVM),
    _key("sasl.kerberos.service.name", Type.STRING, None, _MEDIUM, "Kerberos principal name that brokers run as."),
    _key("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", _LOW, "Path of kinit."),
    _key("sasl.kerberos.ticket.renew.window.factor", Type.DOUBLE, 0.8, _LOW,
         "Part of a ticket's life after which it is renewed."),
    _key("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, _LOW, "Random part of the renewal time."),
    _key("sasl.kerberos.min.time.before.relogin", Type.LONG, 60_000, _LOW, "Shortest time (ms) between two renewals."),
    _key("sasl.login.connect.timeout.ms", Type.INT, None, _LOW, "Time-out of connecting to the token endpoint."),
    _key("sasl.login.read.timeout.ms", Type.INT, None, _LOW, "Time-out of reading from the token endpoint."),
    _key("sasl.login.retry.backoff.ms", Type.LONG, 100, _LOW, "First pause before a login is retried."),
    _key("sasl.login.retry.backoff.max.ms", Type.LONG, 10_000, _LOW, "Longest pause before a login is retried."),
    _key("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8, _LOW,
         "Part of a login's life after which it is renewed.", between(0.5, 1.0)),
    _key("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05, _LOW, "Random part of that time.", between(0.0, 0.25)),
    _key("sasl.login.refresh.min.period.seconds", Type.SHORT, 60, _LOW, "Shortest time between two renewals.",
         between(0, 900)),
    _key("sasl.login.refresh.buffer.seconds", Type.SHORT, 300, _LOW, "Time kept in hand before a login ends.",
         between(0, 3600)),
)


_OAUTH_IMPORTANCE = {"expected.audience": _HIGH, "expected.issuer": _HIGH} | dict.fromkeys(
    ("assertion.claim.exp.seconds", "assertion.claim.nbf.seconds", "scope.claim.name", "sub.claim.name",
     "jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.ms", "jwks.endpoint.retry.backoff.max.ms",
     "clock.skew.seconds", "header.urlencode"), _LOW)


def _oauth(rest: str, kind: Type, default: object, doc: str, validator: Range | OneOfIgnoringCase | None = None
           ) -> ConfigKey:
    importance = _OAUTH_IMPORTANCE.get(rest, _MEDIUM)
    return _key(f"sasl.oauthbearer.{rest}", kind, default, importance, doc, validator)


OAUTH_KEYS = ConfigDef(
    _oauth("token.endpoint.url", Type.STRING, None, "Where tokens are requested."),
    _oauth("client.credentials.client.id", Type.STRING, None, "Client id at the token endpoint."),
    _oauth("client.credentials.client.secret", Type.PASSWORD, None, "Client secret at the token endpoint."),
    _oauth("scope", Type.STRING, None, "Scope that is asked for."),
    _oauth("scope.claim.name", Type.STRING, "scope", "The claim that holds the scope."),
    _oauth("sub.claim.name", Type.STRING, "sub", "The claim that holds the subject."),
    _oauth("header.urlencode", Type.BOOLEAN, False, "Whether id and secret are URL-encoded in the header."),
    _oauth("expected.audience", Type.LIST, [], "Audiences that a token may be for."),
    _oauth("expected.issuer", Type.STRING, None, "Who must have issued a token."),
    _oauth("clock.skew.seconds", Type.INT, 30, "How far two clocks may differ."),
    _oauth("jwks.endpoint.url", Type.STRING, None, "Where the keys that sign tokens are found."),
    _oauth("jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, "How often those keys are refreshed."),
    _oauth("jwks.endpoint.retry.backoff.ms", Type.LONG, 100, "First pause before a failed refresh is retried."),
    _oauth("jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10_000, "Longest such pause."),
    _oauth("jwt.retriever.class", Type.CLASS, f"{_OAUTH}JwtRetriever", "Fetches tokens." + _JVM),
    _oauth("jwt.validator.class", Type.CLASS, f"{_OAUTH}JwtValidator", "Checks tokens." + _JVM),
    _oauth("assertion.algorithm", Type.STRING, "RS256", "Signs assertions.", OneOfIgnoringCase("ES256", "RS256")),
    _oauth("assertion.claim.aud", Type.STRING, None, "Audience of assertions."),
    _oauth("assertion.claim.iss", Type.STRING, None, "Issuer of assertions."),
    _oauth("assertion.claim.sub", Type.STRING, None, "Subject of assertions."),
    _oauth("assertion.claim.exp.seconds", Type.INT, 300, "Life of assertions.", between(0, 86_400)),
    _oauth("assertion.claim.nbf.seconds", Type.INT, 60, "How far back assertions are valid.", between(0, 3_600)),
    _oauth("assertion.claim.jti.include", Type.BOOLEAN, False, "Whether assertions carry an id."),
    _oauth("assertion.file", Type.STRING, None, "A file with a ready-made assertion."),
    _oauth("assertion.template.file", Type.STRING, None, "A file with claims for assertions."),
    _oauth("assertion.private.key.file", Type.STRING, None, "PEM file with the key that signs assertions."),
    _oauth("assertion.private.key.passphrase", Type.PASSWORD, None, "Its password."),
)

CLIENT_KEYS = CONNECTION_KEYS.plus(SSL_KEYS, SASL_KEYS, OAUTH_KEYS)
