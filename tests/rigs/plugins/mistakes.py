"""Defective classes, which must not affect the other classes of the module."""

from heeler import ConfigDef, ConfigKey, SourceConnector, Type, source


class BadDefaultSourceConnector(SourceConnector):
    config_def = ConfigDef(ConfigKey("n", Type.INT, default="soon"))


@source("name strin")
def BadSchema(options, start):
    return [], {}


@source("name string")
def Neighbor(options, start):
    return [], {}
