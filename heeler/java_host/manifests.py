"""A plugin.path for the host in which every plugin has a manifest. Plugins built before Kafka 3.6 have none, and
searching every class for them takes longer than the rest of the host's start.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

MANIFESTS: Final = "META-INF/services/org.apache.kafka.connect."
PROVIDERS: Final = "META-INF/services/org.apache.kafka.common.config.provider.ConfigProvider"
"""Config providers are found only by their manifest, also in Kafka Connect."""
_FILES: Final = {
    "source": f"{MANIFESTS}source.SourceConnector", "sink": f"{MANIFESTS}sink.SinkConnector",
    "converter": f"{MANIFESTS}storage.Converter", "header_converter": f"{MANIFESTS}storage.HeaderConverter",
    "transformation": f"{MANIFESTS}transforms.Transformation",
    "predicate": f"{MANIFESTS}transforms.predicates.Predicate",
}
NAMES_PLUGINS: Final = {*_FILES.values(), PROVIDERS}
"""The manifests that name plugins."""


def names_in(manifest: bytes) -> set[str]:
    """The classes that a manifest names, one a line, as ServiceLoader reads them."""
    lines = (line.partition("#")[0].strip() for line in manifest.decode("utf-8", "replace").splitlines())
    return set(filter(None, lines))


def link_with_manifest(into: Path, jars: Iterable[Path], plugins: Mapping[str, Iterable[str]]) -> None:
    """Creates a folder of links to the jars, and a jar with a manifest of the classes by type. Raises OSError."""
    into.mkdir(parents=True)
    for number, jar in enumerate(jars):
        (into / f"{number}-{jar.name}").symlink_to(jar.absolute())
    with zipfile.ZipFile(into / "manifests.jar", "w") as archive:
        for kind, names in plugins.items():
            if kind in _FILES:
                archive.writestr(_FILES[kind], "".join(f"{name}\n" for name in names))
