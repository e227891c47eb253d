"""The probes and the unit of docs/operations.md, executed as Kubernetes and systemd execute them."""

from __future__ import annotations

import configparser
import http.client
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

_PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
_PORT = 8083  # on the page
_TCP_S = 1.0  # Kubernetes' default timeout
HEELER = Path(sys.executable).with_name("heeler")


def _block(of: str) -> str:
    """The block of code below a bold title."""
    found = re.search(rf"^\*\*{of}\*\*\n\n```\w+\n(.*?)```", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def succeeds(probe: str, port: int) -> bool:
    """Whether a worker with this port passes the probe, such as livenessProbe."""
    wanted: dict[str, Any] = yaml.safe_load(_block("Kubernetes"))[probe]
    if "tcpSocket" in wanted:
        assert wanted["tcpSocket"] == {"port": _PORT}
        try:
            socket.create_connection(("127.0.0.1", port), _TCP_S).close()
        except OSError:
            return False
        return True
    assert wanted["httpGet"]["port"] == _PORT
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=wanted["timeoutSeconds"])
    try:
        connection.request("GET", wanted["httpGet"]["path"])
        return 200 <= connection.getresponse().status < 400
    except OSError:
        return False
    finally:
        connection.close()


def unit(properties: Path, port: int = _PORT) -> str:
    """The unit, with this installation's heeler, properties file and port."""
    text = _block("systemd")
    for documented, own in (("/opt/heeler/bin/heeler", str(HEELER)),
                            ("/etc/heeler/worker.properties", str(properties)),
                            (f"localhost:{_PORT}", f"127.0.0.1:{port}")):
        assert documented in text
        text = text.replace(documented, own)
    return text


def after_start(port: int) -> None:
    """Run what the unit runs before the service counts as started. Raises CalledProcessError, TimeoutExpired."""
    parser = configparser.ConfigParser()
    parser.read_string(unit(Path("unused"), port))
    service = parser["Service"]
    subprocess.run(shlex.split(service["ExecStartPost"]), check=True, capture_output=True,
                   timeout=float(service["TimeoutStartSec"]))
