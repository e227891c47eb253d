"""Opens confluent-kafka's client of a schema registry, with the settings of Java's clients that it does not have: any
header, a token without a logical cluster, URLs that are tried in turn, limits of responses.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from spark_tasks.errors import ConfigError
from spark_tasks.kafka.client_config import tls_settings
from spark_tasks.registry.responses import checked, read_body
from spark_tasks.registry.settings import TLS_PREFIX, Properties, user_info, without_user

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema, SchemaRegistryClient

BUSY = (408, 429, 500, 502, 503, 504)
"""Status codes after which another URL, or the same one later, may succeed."""


def connect(values: Mapping[str, Any]) -> SchemaRegistryClient:
    """Returns a client that connects at its first request. `values`: those of `registry_of`. Raises ConfigError."""
    import httpx2  # noqa: PLC0415 - of the extra `registry`, as what follows
    from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415

    seconds = values["http.read.timeout.ms"] / 1000 or None  # 0: no limit, as in Java
    timeout = httpx2.Timeout(seconds, connect=values["http.connect.timeout.ms"] / 1000 or None)
    tls = tls_settings({key.removeprefix(TLS_PREFIX): value for key, value in values.items()
                        if key.startswith(TLS_PREFIX + "ssl.")})
    with tls.files() as files:  # which the client reads only here
        stores = {"ssl.ca.location": files.trusted, "ssl.certificate.location": files.chain,
                  "ssl.key.location": files.key, "ssl.key.password": tls.password}
        given = {key: value for key, value in stores.items() if value}
        try:
            client = SchemaRegistryClient({**_conf(values), "timeout": timeout, **given})
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(f"schema.registry.url: {error}") from error
    # The client has no settings for what Java's clients support: any header, and a token without a logical cluster.
    rest = client._rest_client  # noqa: SLF001
    rest.session.event_hooks = {"response": [lambda response: read_body(response, seconds or math.inf)]}
    rest.send_request = _checking(rest.send_request)
    rest.send_http_request = _remembering(rest)
    if not tls.check_hostname:
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
    if values["bearer.auth.credentials.source"] == "OAUTHBEARER":
        _know_when_tokens_expire(rest.bearer_field_provider)
    return client


def latest_with_metadata(client: SchemaRegistryClient, subject: str, properties: Properties) -> RegisteredSchema:
    """Returns the latest schema of the subject with these properties in its metadata; deleted versions count, too. (The
    client's own method encodes the properties twice, so that "a b" would be "a%20b".)
    """
    from confluent_kafka.schema_registry import RegisteredSchema  # noqa: PLC0415 - of the extra `registry`

    pairs = [*(("key", key) for key, _ in properties), *(("value", value) for _, value in properties)]
    url = f"subjects/{quote(subject, safe='')}/metadata?{urlencode([*pairs, ('deleted', 'true')])}"
    return RegisteredSchema.from_dict(client._rest_client.get(url))  # noqa: SLF001


def _checking(send: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Returns the client's function `send` with a check of the response, before the client caches it."""
    def send_and_check(url: str, method: str, **more: Any) -> dict[str, Any]:
        required = {"POST": ("id",), "GET": ("schema",) if url.startswith("schemas/") else ("schema", "id")}
        return checked(send(url, method, **more), required[method])

    return send_and_check


def _remembering(rest: Any) -> Callable[..., Any]:
    """Returns the function of the client that sends a request to one URL. A URL that fails becomes the last one, as in
    Java's clients; otherwise each request would first be retried there.
    """
    send = rest.send_http_request

    def send_and_remember(base_url: str, *args: Any, **more: Any) -> Any:
        failed = True
        try:
            response = send(base_url, *args, **more)
            failed = response.status_code in BUSY
        finally:
            if failed:  # a new list: the client may be iterating over the old one
                rest.base_urls = sorted(rest.base_urls, key=lambda url: url == base_url)
        return response

    return send_and_remember


_TOKEN_S = 300


def _know_when_tokens_expire(tokens: Any) -> None:
    """A server may give a token without saying for how long it is valid, which is an error in the client. Such a token
    is renewed every five minutes.
    """
    fetch = tokens.fetch_token

    def fetched() -> str:
        token = str(fetch())
        fields = dict(tokens.token_object)
        seconds = int(fields.get("expires_in") or _TOKEN_S)
        tokens.token_object = {**fields, "expires_in": seconds, "expires_at": time.time() + seconds}
        return token

    tokens.fetch_token = fetched


_CLOUD_HEADERS = {
    "target-sr-cluster": "bearer.auth.logical.cluster", "Confluent-Identity-Pool-Id": "bearer.auth.identity.pool.id"
}


def _conf(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of confluent-kafka's client, except for the files of TLS. Raises ConfigError."""
    urls = [url.rstrip("/") for url in values["schema.registry.url"]]
    if values["basic.auth.credentials.source"] == "USER_INFO":
        urls = [without_user(url) for url in urls]  # whose user and password are not used then
    if values["schema.registry.url.randomize"]:
        first = random.randrange(len(urls))  # noqa: S311 - load, not secrets
        urls = urls[first:] + urls[:first]
    conf: dict[str, Any] = {
        "url": ",".join(urls),
        "max.retries": values["max.retries"],
        "retries.wait.ms": values["retries.wait.ms"],
        "retries.max.wait.ms": values["retries.max.wait.ms"],
        "cache.latest.ttl.sec": 0,  # Registry has the cache
    }
    if values["basic.auth.credentials.source"] == "USER_INFO":
        conf["basic.auth.user.info"] = user_info(values)
    if values["bearer.auth.credentials.source"] == "OAUTHBEARER":
        conf["bearer.auth.credentials.source"] = "OAUTHBEARER"
        conf |= {key: values[key] for key in _OAUTH if values.get(key)}
        conf.setdefault("bearer.auth.logical.cluster", "")
    elif all(url.startswith("http://") for url in urls):
        conf["ssl.ca.location"] = False  # nothing has TLS, and reading all authorities takes long
    if values["proxy.host"]:
        conf["proxy"] = f"http://{values['proxy.host']}:{values['proxy.port']}"
    return conf


_OAUTH = (
    "bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope", "bearer.auth.issuer.endpoint.url",
    "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id",
)
