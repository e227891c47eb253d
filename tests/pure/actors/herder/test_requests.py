"""Patches of a connector's configuration, and what happens while they are validated."""

from __future__ import annotations

import pytest

from actors.errors import BadRequestError, NotFoundError
from actors.herder.events import Validated
from actors.messages.correlation_ids import RequestId
from actors.messages.requests import DeleteConnector, PatchConnector, PutConnector, Request
from storage.ids import ConnectorName
from tests.rigs.herder.node import Node
from tests.rigs.herder.world import World

C = ConnectorName("c")


class Rig:
    """A worker with a connector, and a patch of it whose validation takes long."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.settle()
        self.ask(PutConnector(C, {"v": "0", "old": "1"}, replace=False))
        self.node: Node = self.world.nodes["w0"]
        self.patch = self.world.ask("w0", PatchConnector(C, {"new": "1"}))
        self.node.drain(("request", self.patch % 3))
        assert list(self.node.state.validating) == [self.patch]
        self.node.channels["validation", self.patch].clear()

    def ask(self, request: Request) -> int:
        asked = self.world.ask("w0", request)
        self.world.settle()
        assert self.world.replies[asked].error is None
        return asked

    def validated(self, error: Exception | None = None) -> None:
        self.node.deliver(Validated(RequestId(self.patch), error))

    @property
    def error(self) -> Exception | None:
        return self.world.replies[self.patch].error


def test_patches_that_are_validated_at_the_same_time_all_take_effect() -> None:
    rig = Rig()
    rig.ask(PatchConnector(C, {"v": "1", "old": None}))
    rig.validated()
    rig.world.settle()
    assert rig.error is None
    assert rig.world.replies[rig.patch].value.info.config == {"v": "1", "new": "1"}
    assert rig.world.config.connector_configs[C] == {"v": "1", "new": "1"}
    rig.world.check_at_rest()


@pytest.mark.parametrize("error", [None, BadRequestError("old is outdated")])
def test_a_patch_that_is_validated_does_not_restore_a_deleted_connector(error: Exception | None) -> None:
    rig = Rig()
    rig.ask(DeleteConnector(C))
    rig.validated(error)
    rig.world.settle()
    assert isinstance(rig.error, NotFoundError)
    assert rig.world.config.connectors() == []
    rig.world.check_at_rest()


@pytest.mark.parametrize("before", [None, BadRequestError("old is outdated")])
@pytest.mark.parametrize("again", [None, BadRequestError("v must not be 9")])
def test_a_patch_of_a_configuration_that_changed_meanwhile_is_validated_again(
    before: Exception | None, again: Exception | None
) -> None:
    rig = Rig()
    rig.ask(PutConnector(C, {"v": "9"}, replace=True))
    rig.validated(before)
    rig.node.channels["validation", rig.patch].clear()
    assert list(rig.node.state.validating) == [rig.patch]
    rig.validated(again)
    rig.world.settle()
    assert rig.error is again
    assert rig.world.config.connector_configs[C] == ({"v": "9", "new": "1"} if again is None else {"v": "9"})
    rig.world.check_at_rest()
