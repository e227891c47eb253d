"""An HTTP server with a handler of the test's own."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def listening(
    handler: type[http.server.BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None, **attributes: Any
) -> Iterator[Any]:
    """A server on a free port of 127.0.0.1, with these attributes, for its handler."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    vars(server).update(attributes)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        vars(server)["handle_error"] = lambda *_: None  # of clients that are turned away
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
