"""The commands of docs/migrating-from-java.md."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs/migrating-from-java.md"


def commands(java_port, heeler_port):
    """All commands of the guide, one after the other, with the addresses of this test."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    script = "set -eu -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(blocks)
    return script.replace("8083", str(java_port)).replace("8084", str(heeler_port))
