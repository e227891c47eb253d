"""A registry over HTTP whose schemas are all `int`."""

import http.server
import json


class IntRegistry(http.server.BaseHTTPRequestHandler):
    """A registry whose schemas are all `int`. Its server's `seen`: all requests, each with the path and the login.
    If its server is `busy`, all requests fail; if it is `silent`, they are not answered.
    """

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        if self.server.busy:
            self.send_error(503)
            return
        if self.server.silent:
            self.rfile.read(1)  # until the client ends the connection
            return
        body = json.dumps({"schema": '"int"', "id": 7, "version": 1, "subject": "t-value"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815 - its base class asks for these

    def log_message(self, *args):
        pass
