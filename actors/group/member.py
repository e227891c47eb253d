"""The actor around the group membership: messages in, events out; the work is done in group_driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pykka
from typing_extensions import override

from actors.group.coordinator import GroupCoordinator, GroupSettings
from actors.group.driver import GroupDriver, GroupEvent, NewCoordinator
from actors.messages.commands import AllowJoin, HerderAlive, JoinGroup, LeaveGroup, RequestRejoin
from storage.config.state import ClusterConfigState

GroupCommand = JoinGroup | AllowJoin | RequestRejoin | LeaveGroup | HerderAlive


class GroupMemberActor(pykka.ThreadingActor):
    """Takes JoinGroup, AllowJoin, RequestRejoin, LeaveGroup and HerderAlive; tells the herder what happens.

    `tell` takes JoinPreparing, Joined and CoordinatorLost on a thread of the Kafka client. Each JoinPreparing wants
    exactly one AllowJoin, unless a LeaveGroup is sent instead. Stopping the actor leaves the group. It dies, so that
    its supervisor notices, when that thread does.
    """

    use_daemon_thread = True

    def __init__(
        self, settings: GroupSettings, snapshot: Callable[[], ClusterConfigState], tell: Callable[[GroupEvent], None],
        coordinator: NewCoordinator = GroupCoordinator,
    ) -> None:
        super().__init__()
        self._tell = tell
        self._driver = GroupDriver(settings, snapshot, self._report, coordinator)

    def on_start(self) -> None:
        """Connect; the group is joined when the herder says so."""
        self._driver.start()

    def on_receive(self, message: GroupCommand) -> None:
        """Never blocks."""
        match message:
            case HerderAlive():
                self._driver.alive()
            case JoinGroup():
                self._driver.join()
            case AllowJoin(owned):
                self._driver.allow(owned)
            case RequestRejoin(reason, caught_up):
                self._driver.rejoin(reason, caught_up)
            case LeaveGroup(reason):
                self._driver.leave(reason)

    @override
    def on_stop(self) -> None:
        """Leave the group, so that the others take over at once."""
        self._driver.close()

    @override
    def on_failure(self, *_exc_info: object) -> None:
        """A dead actor must not stay a member."""
        self._driver.close()

    def _report(self, event: GroupEvent) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # the worker stops: nobody is left who could care
            self._tell(event)
