"""TLS of Kafka's clients: the user's PEM files, and PEM texts, which are kept in memory."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from spark_tasks.errors import ConfigError
from spark_tasks.process.private_files import memory_file


@dataclass(frozen=True, slots=True)
class PemText:
    """Keys and certificates that are not in a PEM file of the user: the value of a property, or a converted store."""

    text: str = field(repr=False)


Pem = Path | PemText


class PemFiles(NamedTuple):
    """The paths of PEM files; None for those that there are not."""

    trusted: str | None
    chain: str | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS settings of a client, for kafka-python's `ssl_context`. Unlike an ssl.SSLContext they can be pickled, for
    executors on other machines, and compared. `repr` shows no key and no password.
    """

    check_hostname: bool = True
    trusted: Pem | None = None
    """The certificates to trust; without any, the system's."""
    chain: Pem | None = None
    key: Pem | None = None
    password: str | None = field(default=None, repr=False)

    def wrap_socket(
        self, sock: socket.socket, *, server_hostname: str | None, do_handshake_on_connect: bool
    ) -> ssl.SSLSocket:
        """As the method of an ssl.SSLContext that kafka-python calls for each connection. Each time, the user's files
        are read again, so that certificates can be renewed. Raises OSError.
        """
        return self._context().wrap_socket(
            sock, server_hostname=server_hostname, do_handshake_on_connect=do_handshake_on_connect)

    @contextmanager
    def files(self) -> Iterator[PemFiles]:
        """A context manager for the files that OpenSSL reads: the user's, and those with PEM texts, which exist only
        within the context.
        """
        with ExitStack() as stack:
            yield PemFiles(*(stack.enter_context(memory_file(pem.text.encode())) if isinstance(pem, PemText)
                             else None if pem is None else str(pem)
                             for pem in (self.trusted, self.chain, self.key)))

    def check(self) -> None:
        """Reads everything, so that a wrong password or file is reported now and not at the first connection. Raises
        ConfigError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with self.files() as files:
            for store, load in (("trust", self._load_trusted), ("key", self._load_own)):
                try:
                    load(context, files)
                except (OSError, ValueError) as error:
                    raise ConfigError(f"the {store} store cannot be used: {error}") from error

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        with self.files() as files:
            self._load_trusted(context, files)
            self._load_own(context, files)
        if self.trusted is None:
            context.load_default_certs()
        return context

    def _load_trusted(self, context: ssl.SSLContext, files: PemFiles) -> None:
        if files.trusted is not None:
            context.load_verify_locations(files.trusted)

    def _load_own(self, context: ssl.SSLContext, files: PemFiles) -> None:
        if files.chain is not None:
            context.load_cert_chain(files.chain, files.key, self.password or "")  # without one, OpenSSL would ask
