"""Config providers in jars, declared in the worker's file: they are created, configured, queried and closed in a real
host.
"""

from __future__ import annotations

import pytest

from heeler.worker.config import WorkerConfig
from heeler.worker.providers import close_providers
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.config_providers import ConfigTransformer
from tests.rigs.java_jars import plugin_folder

pytestmark = pytest.mark.integration

FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    return str(plugin_folder(tmp_path_factory.mktemp("jars")))


def worker(jars, **more):
    return WorkerConfig.of({
        "bootstrap.servers": "localhost:9", "group.id": "g", "key.converter": "StringConverter",
        "value.converter": "StringConverter", "config.storage.topic": "c", "offset.storage.topic": "o",
        "status.storage.topic": "s", "plugin.path": jars, "java.plugins.jvm.options": "-Xmx64M -XX:TieredStopAtLevel=1",
        **more})


def test_a_java_config_provider_is_configured_used_and_closed(jars, tmp_path):
    """`${env:…}` of heeler's own provider is replaced in the settings of the JVM, not in those of a provider."""
    journal = tmp_path / "journal"
    config = worker(jars, **{
        "config.providers": "vault,env", "config.providers.vault.class": "heeler.tests.Vault",
        "config.providers.vault.param.journal": str(journal), "config.providers.vault.param.key": "${env:PATH}",
        "config.providers.env.class": "EnvVarConfigProvider", "ssl.key.password": "${vault:a:key}"})
    assert config.java is not None
    assert list(config.providers) == ["vault", "env"]
    assert config["ssl.key.password"].value == "${env:PATH}"
    found = ConfigTransformer(config.providers).transform({"a": "${vault:b:key}", "b": "${vault:b:absent}"})
    assert found == {"a": "${env:PATH}", "b": "${vault:b:absent}"}
    close_providers(config.providers)
    config.java.close()
    assert journal.read_text().splitlines() == ["configured by PluginClassLoader", "get a", "get b", "closed"]


def test_a_provider_that_is_missing_or_refuses_its_settings_is_reported(jars, tmp_path):
    with pytest.raises(ConfigError, match="Failed to find any class that implements ConfigProvider and which name "
                                          r"matches com.acme.Vault, available .*heeler\.tests\.Vault"):
        worker(jars, **{"config.providers": "v", "config.providers.v.class": "com.acme.Vault"})
    (tmp_path / "f").write_text("k=v")
    kafkas = {"config.providers": "f", "config.providers.f.class": FILE_PROVIDER, "java.plugins.prefer": FILE_PROVIDER}
    with pytest.raises(ConfigError, match=r"The config provider org\.apache\.kafka\.common\.config\.provider\."
                                          r"FileConfigProvider could not be configured: .*ConfigException: "):
        worker(jars, **kafkas, **{"config.providers.f.param.allowed.paths": "not/absolute"})
