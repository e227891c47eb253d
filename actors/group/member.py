"""The actor of the group membership: takes messages and sends events; driver.py does the work."""

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
    """Takes JoinGroup, AllowJoin, RequestRejoin, LeaveGroup and HerderAlive; reports events to the herder.

    `tell` is called with JoinPreparing, Joined and CoordinatorLost on a thread of the Kafka client. Each JoinPreparing
    has to be answered by exactly one AllowJoin, or by a LeaveGroup. Stopping the actor leaves the group. If that thread
    dies, the actor dies too, so that the supervisor notices.
    """

    use_daemon_thread = True

    def __init__(
        self, settings: GroupSettings, snapshot: Callable[[], ClusterConfigState], tell: Callable[[GroupEvent], None],
        coordinator: NewCoordinator = GroupCoordinator,
    ) -> None:
        super().__init__()
        self._tell = tell
        self._driver = GroupDriver(settings, snapshot, self._report, coordinator)

    @override
    def on_start(self) -> None:
        """Connects; the group is joined when the herder sends JoinGroup."""
        self._driver.start()

    @override
    def on_receive(self, message: GroupCommand) -> None:
        """Never blocks."""
        match message:
            case HerderAlive():
                self._driver.alive()
            case JoinGroup():
                self._driver.join()
            case AllowJoin(owned):
                self._driver.allow(owned)
            case RequestRejoin(caught_up=caught_up):
                self._driver.rejoin(caught_up)
            case LeaveGroup(reason):
                self._driver.leave(reason)

    @override
    def on_stop(self) -> None:
        """Leaves the group, so that the others take over at once."""
        self._driver.close()

    @override
    def on_failure(self, *_exc_info: object) -> None:
        """Leaves the group: a dead actor must not stay a member."""
        self._driver.close()

    def _report(self, event: GroupEvent) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # the worker is stopping and the herder has ended
            self._tell(event)
