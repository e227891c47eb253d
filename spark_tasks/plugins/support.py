"""Writes docs/plugins.md: which plugins heeler has, which by another name, and which not.

`python -m spark_tasks.plugins.support docs/plugins.md` regenerates it from heeler's entry points and the table of Java
classes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from spark_tasks.plugins import discovery
from spark_tasks.plugins.java_classes import JARS, JAVA
from spark_tasks.plugins.kinds import Kind

_HEAD = """# Plugins: what is here

Made by `python -m spark_tasks.plugins.support docs/plugins.md` from heeler's own plugins and a table of well-known
ones of Java Kafka Connect. Plugins from packages and folders come on top: `GET /connector-plugins?connectorsOnly=false`
of a worker lists all that it has ([how to write one](writing-a-connector.md)), and
`GET /connector-plugins/NAME/config` the settings of one.

*Here*: under this name; Java's short forms (`FileStreamSink`, `Json`) work too. *By another name*: something here does
the job, with settings of its own. *By its jars*: not one of heeler's own; it [runs as it is](java-plugins.md) from
jars in `plugin.path`. *Not here*: not yet.
"""
_TITLES = {
    Kind.CONNECTOR: "Connectors", Kind.TRANSFORMATION: "Transforms", Kind.PREDICATE: "Predicates",
    Kind.CONVERTER: "Converters", Kind.HEADER_CONVERTER: "Header converters", Kind.CONFIG_PROVIDER: "Config providers",
}


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(f"\n## {title}\n\n| name | |\n|---|---|\n{''.join(_rows(kind))}"
                           for kind, title in _TITLES.items())


def _rows(kind: Kind) -> Iterator[str]:
    own = {f.alias or f.name for f in discovery.installed() if f.kind is kind and f.target.startswith("spark_tasks.")}
    yield from (f"| `{name}` | here |\n" for name in sorted(own))
    java = sorted(JAVA.get(kind, {}).items(), key=lambda entry: (not entry[1].startswith("use "), entry[0]))
    for name, instead in java:
        shown = f"{name}*" if name.endswith(".") else name
        if instead.startswith("use "):
            status = f"by another name: {instead}"
        else:
            status = "; ".join(filter(None, ["by its jars" if kind in JARS else "not here", instead]))
        yield f"| `{shown}` | {status} |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
