from __future__ import annotations

import re

import pytest

from heeler.java_host.proxy_classes import JavaSourceConnector
from spark_tasks.config.validators import Range
from spark_tasks.connectors.file_stream.source import FileStreamSourceConnector
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.plugins.third_party import is_third_party


class Mine(SourceConnector):
    def start(self) -> None:
        """Something."""


class InAFolder(SourceConnector):
    __module__ = "spark_tasks.spaces./opt/connectors.mine"


@pytest.mark.parametrize(("code", "theirs"), [
    (Mine, True), (Mine.start, True), (Mine.stop, False), (Mine.validate, False), (InAFolder, True),
    (lambda: None, True), (re.compile("a").match, True), (FileStreamSourceConnector, False),
    (JavaSourceConnector, False), (JavaSourceConnector.start, False), (Range(1), False),
])
def test_code_of_third_parties_is_told_by_its_module(code: object, theirs: bool) -> None:
    assert is_third_party(code) is theirs
