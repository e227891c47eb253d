"""Translates the properties of Java's Kafka clients, as in a worker's properties file, to kafka-python's settings."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from typing_extensions import override

from spark_tasks.config.client_properties import CONNECTION_NUMBERS
from spark_tasks.config.client_values import client_value, given_value
from spark_tasks.config.unsupported import refuse
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.security.key_stores import certificates, identity, is_pem, pem_text, read_store
from spark_tasks.process.private_files import open_private, private_folder

Keep = Callable[[str], str]
"""Writes a text to a file that only this user can read, and returns its path."""

_ANY: Final = "consumer"  # its keys of connections, which all clients have, are those of the others
_STORES: Final = ("PEM", "PKCS12", "JKS")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_JAAS_OPTION = re.compile(
    r"""(?<![\w.\-])([\w.\-]++)\s*+=\s*+(?:"((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'|([^\s;"']+))""")


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns keyword arguments for kafka-python's clients: `bootstrap_servers`, `security_protocol`, and those for
    which a property is set. Ignores unknown properties. Writes PEM texts to files that only this user can read. Raises
    ConfigError with advice if a value or a security setting is not supported.
    """
    settings: dict[str, Any] = {"bootstrap_servers": _servers(properties)}
    if properties.get("client.id"):
        settings["client_id"] = properties["client.id"]
    for key in CONNECTION_NUMBERS:
        if (number := given_value(_ANY, properties, key)) is not None:
            settings[key.replace(".", "_")] = number
    if lookup := given_value(_ANY, properties, "client.dns.lookup"):
        settings["client_dns_lookup"] = lookup
    protocol = client_value(_ANY, properties, "security.protocol").upper()
    settings["security_protocol"] = protocol
    if protocol.startswith("SASL"):
        settings.update(_sasl(properties))
    refuse(properties)
    if protocol.endswith("SSL"):
        settings.update(_ssl(properties, _private_file))
    return settings


@contextmanager
def tls_files(properties: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A context manager for kafka-python's settings for TLS, from the ssl.* properties of any client. PEM files that
    are not the user's exist only within the context. Raises ConfigError.
    """
    with tempfile.TemporaryDirectory(prefix="heeler-pem-") as folder:
        def keep(text: str) -> str:
            file = Path(folder, f"{hashlib.sha256(text.encode()).hexdigest()}.pem")
            with open_private(file, "w") as out:
                out.write(text)
            return str(file)

        yield _ssl(properties, keep)


def _servers(properties: Mapping[str, str]) -> list[str]:
    servers = [server for server in given_value(_ANY, properties, "bootstrap.servers") or () if server]
    if not servers:
        raise _bad("bootstrap.servers", properties.get("bootstrap.servers"), "host:port, several separated by commas")
    for server in servers:
        if not re.fullmatch(r"(?:[^:]*://)?(\[[0-9a-fA-F:.%]+\]|[^\s:/]+):\d{1,5}", server):
            raise _bad("bootstrap.servers", server, "host:port")
    return servers


def _sasl(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = client_value(_ANY, properties, "sasl.mechanism").upper()
    if mechanism not in _MECHANISMS:
        allowed = f"one of {', '.join(_MECHANISMS)} (Kerberos and OAuth are not supported)"
        raise _bad("sasl.mechanism", mechanism, allowed)
    options = _jaas(properties.get("sasl.jaas.config", ""))
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise ConfigError(
            f"sasl.jaas.config has no {' and no '.join(missing)} (value hidden); for example, {mechanism} needs: "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";',
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _jaas(text: str) -> dict[str, str]:
    """Returns the options of a JAAS login module entry. In quotes, a backslash escapes the next character."""
    options = {}
    for name, double, single, bare in _JAAS_OPTION.findall(text):
        options[name] = bare or re.sub(r"\\(.)", r"\1", double or single)
    return options


def _ssl(properties: Mapping[str, str], keep: Keep) -> dict[str, Any]:
    for kind in ("keystore", "truststore"):
        store = properties.get(f"ssl.{kind}.type", "").strip().upper()
        if store not in ("", *_STORES):
            allowed = f"one of {', '.join(_STORES)} (for JKS and PKCS12: what keytool writes)"
            raise _bad(f"ssl.{kind}.type", store, allowed)
    settings: dict[str, Any] = {"ssl_check_hostname": bool(_endpoint_check(properties))}
    trust = _trust_file(properties, keep)
    if trust:
        settings["ssl_cafile"] = trust
    settings.update(_own_certificate(properties, keep))
    _check_files(settings)
    return settings


def _trust_file(properties: Mapping[str, str], keep: Keep) -> str | None:
    location = properties.get("ssl.truststore.location", "").strip()
    if not location:
        return _pem_text_file(properties, "ssl.truststore.certificates", keep)
    content = read_store("ssl.truststore.location", location)
    if is_pem(content):
        return location
    return keep(certificates(content, properties.get("ssl.truststore.password")))


def _own_certificate(properties: Mapping[str, str], keep: Keep) -> dict[str, Any]:
    """Returns the settings of the client's certificate chain, its key and the key's password; empty without a key
    store.
    """
    location = properties.get("ssl.keystore.location", "").strip()
    password = properties.get("ssl.key.password")
    if location:
        content = read_store("ssl.keystore.location", location)
        chain: str | None = location  # a PEM key store file holds the key and the chain
        if not is_pem(content):
            chain = keep(identity(content, properties.get("ssl.keystore.password"), password).decode())
            password = None
        key = chain
    else:
        chain = _pem_text_file(properties, "ssl.keystore.certificate.chain", keep)
        key = _pem_text_file(properties, "ssl.keystore.key", keep) or chain
    if not chain:
        return {}
    return {"ssl_certfile": chain, "ssl_keyfile": key, **({"ssl_password": password} if password else {})}


def _endpoint_check(properties: Mapping[str, str]) -> str:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip()
    if algorithm.lower() not in ("https", ""):
        raise _bad("ssl.endpoint.identification.algorithm", algorithm, "https, or nothing for no check")
    return algorithm


def _pem_text_file(properties: Mapping[str, str], key: str, keep: Keep) -> str | None:
    text = properties.get(key, "").strip()
    if not text:
        return None
    pem = pem_text(text)
    if not pem:
        raise ConfigError(f"{key} (value hidden) is not PEM: it has no -----BEGIN …----- with its -----END …-----")
    return keep(pem)


class PrivateFile(str):
    """The path of a file with a text. Unpickled, for example on another machine, it is the path of a copy there."""

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, path: str, text: str) -> Self:
        """The file has been written."""
        made = super().__new__(cls, path)
        made._text = text
        return made

    def restored(self) -> str:
        """Returns the path of such a file; writes it if it is gone. (Systems remove temporary files that nobody has
        read for days, as nobody does while connections are stable.)
        """
        return _private_file(self._text)

    @override
    def __reduce__(self) -> tuple[Callable[[str], str], tuple[str]]:
        return _private_file, (self._text,)


def _private_file(text: str) -> str:
    """Returns a file with this text that only this user can read. Equal texts share a file, also those of other
    processes, to limit their number. It remains: nobody knows who else still reads it.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    folder = private_folder("pem")
    file = folder / f"{digest}.pem"
    if not file.exists():
        handle, unfinished = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(unfinished).replace(file)
    return PrivateFile(str(file), text)


def _check_files(settings: Mapping[str, Any]) -> None:
    """Loads the files, so that a wrong password or file is reported now and not at the first connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for what, load in _loads(context, settings):
        try:
            load()
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(f"{what} cannot be used: {error}") from error


def _loads(context: ssl.SSLContext, settings: Mapping[str, Any]) -> list[tuple[str, Callable[[], None]]]:
    loads: list[tuple[str, Callable[[], None]]] = []
    if "ssl_cafile" in settings:
        loads.append(("the trust store", lambda: context.load_verify_locations(settings["ssl_cafile"])))
    if "ssl_certfile" in settings:
        password = settings.get("ssl_password", "")
        files = settings["ssl_certfile"], settings["ssl_keyfile"]
        loads.append(("the key store", lambda: context.load_cert_chain(*files, password=password)))
    return loads


def _bad(key: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {key}: must be {allowed}")
