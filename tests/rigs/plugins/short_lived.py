"""A config provider whose values are to be used for a quarter of a second only."""

from heeler import ConfigData, ConfigProvider


class ShortLivedConfigProvider(ConfigProvider):
    def get(self, path, keys=None):
        return ConfigData(dict.fromkeys(keys or (), path), ttl_ms=250)
