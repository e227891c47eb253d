"""A config provider in a jar, which is called in the host; each call has its own thread and time limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from typing_extensions import override

from heeler.java_host.connection import JavaPluginError
from heeler.java_host.host import JavaHost
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins.config_providers import ConfigData, ConfigProvider

_REFUSAL: Final = "org.apache.kafka.common.config.ConfigException: "


class JavaProviderRefusedError(ConfigError):
    """A config provider has thrown a ConfigException, for example for a value that may exist the next time."""

    permanent = False


class JavaConfigProvider(ConfigProvider):
    """Base of the classes that represent config providers. A host that replaces another one creates and configures its
    own provider. The host closes the provider when the worker ends.
    """

    runtime: ClassVar[str] = "java"
    host: ClassVar[JavaHost]
    java_class: ClassVar[str]
    version: ClassVar[str]

    _settings: Mapping[str, str]

    @override
    def configure(self, settings: Mapping[str, str]) -> None:
        """Calls its `configure`. Raises ConfigError with the exception that it throws."""
        self._settings = dict(settings)
        try:
            self._ask("configure", "could not be configured")
        except ConnectError as error:
            raise ConfigError(str(error)) from error

    @override
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """Calls its `get`. Raises ConfigError if it throws a ConfigException, and ConnectError for anything else:
        another exception, or no response within java.plugins.answer.timeout.ms.
        """
        wanted = None if keys is None else sorted(keys)
        response = self._ask("get", f"could not read {path or 'its values'}", path=path, keys=wanted)
        ttl = response["ttl"]
        data = {str(key): str(value) for key, value in response["data"].items() if value is not None}
        return ConfigData(data, None if ttl is None else int(ttl))

    def _ask(self, op: str, failed: str, **fields: Any) -> Mapping[str, Any]:
        named = {"class": self.java_class, "version": self.version}
        try:
            return self.host.ask(op, **named, provider=self.name, settings=self._settings, **fields)
        except JavaPluginError as error:
            why = str(error).partition("\n")[0]
            error.permanent = False  # a missing value may exist the next time
            kind = JavaProviderRefusedError if why.startswith(_REFUSAL) else ConnectError
            raise kind(f"The config provider {self.java_class} {failed}: {why}") from error
        except ConnectError as error:
            raise ConnectError(f"The config provider {self.java_class} {failed}: {error}") from error
