"""The part of a herder that the group needs: answers JoinPreparing, follows assignments, rejoins after a revocation."""

import queue
import selectors
import threading
import time
from concurrent.futures import Future
from dataclasses import replace

from actors.assignment.protocol import Allocation, Membership, Protocol
from actors.group.coordinator import GroupCoordinator, GroupSettings
from actors.group.member import GroupMemberActor
from actors.messages.commands import AllowJoin, JoinGroup, LeaveGroup, RequestRejoin
from actors.messages.events import CoordinatorLost, Joined, JoinPreparing
from storage.config.state import ClusterConfigState

CONFIG = ClusterConfigState(offset=7, connector_configs={"a": {}, "b": {}}, task_counts={"a": 3, "b": 1})
EVERYTHING = frozenset(CONFIG.connectors()).union(*(CONFIG.tasks(name) for name in CONFIG.connectors()))


class Selector(selectors.DefaultSelector):
    """What the client's network loop waits with; it raises an error once `broken` is set."""

    broken = False

    def select(self, timeout=None):
        assert not self.broken, "a defect in the network loop"
        return super().select(timeout)


class GarbageCoordinator(GroupCoordinator):
    """As the leader, it assigns garbage once `sends_garbage` is set."""

    sends_garbage = False

    def assign(self, protocol, leader, metadata):
        assigned = super().assign(protocol, leader, metadata)
        return dict.fromkeys(assigned, b"\xff" * 50) if self.sends_garbage else assigned


class FakeHerder:
    """The herder of one worker, with a real member.

    `holds` makes it withhold AllowJoin; `offers`: metadata that its member sends to the group instead of the right
    ones.
    """

    def __init__(
        self, bootstrap_servers, group, name, config=CONFIG, *, kind=GroupCoordinator, offers=None, **settings
    ):
        self.events = queue.Queue()
        self.owned = Allocation()
        self.config = config
        self.holds = False
        self.membership: Membership | None = None
        self.name = name
        options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000, "max_delay_ms": 0, **settings}
        client = {"bootstrap_servers": bootstrap_servers, "client_id": name}
        self.settings = GroupSettings(group_id=group, url=f"http://{name}:8083/", client=client, **options)
        self.selector = Selector()
        self.coordinator: GroupCoordinator | None = None

        def made(settings, *arguments):
            client = {**settings.client, "selector": lambda: self.selector}
            self.coordinator = kind(replace(settings, client=client), *arguments)
            if offers is not None:
                self.coordinator.offers = lambda: offers
            return self.coordinator

        self.member = GroupMemberActor.start(self.settings, lambda: self.config, self.on_event, made)

    def on_event(self, event):
        """Called on the member's IO thread."""
        if isinstance(event, JoinPreparing):
            if event.eager:
                self.owned = Allocation()
            if not self.holds:
                self.allow()
        elif isinstance(event, CoordinatorLost):
            self.membership, self.owned = None, Allocation()
        else:
            self.follow(event.membership)
        self.events.put(event)

    def follow(self, membership):
        self.membership = membership
        answer = membership.assignment
        if membership.protocol is Protocol.EAGER:
            self.owned = answer.assigned
        else:
            self.owned = self.owned.minus(answer.revoked).plus(answer.assigned)
        if answer.revoked:
            self.member.tell(RequestRejoin("work was revoked"))

    def allow(self):
        self.member.tell(AllowJoin(self.owned))

    def release(self):
        self.holds = False
        self.allow()

    def join(self):
        self.member.tell(JoinGroup())
        return self

    def leave(self):
        self.membership, self.owned = None, Allocation()
        self.member.tell(LeaveGroup("test"))

    def next(self, kind, within=10.0):
        """The next event of this kind; drops events before it."""
        deadline = time.monotonic() + within
        while True:
            try:
                event = self.events.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.name}: no {kind.__name__} within {within} s") from None
            if isinstance(event, kind):
                return event

    def joined(self, within=10.0) -> Membership:
        return self.next(Joined, within).membership

    def forget(self):
        """Drop all events so far."""
        while not self.events.empty():
            self.events.get()

    def on_io_thread(self, function):
        """Run something on the member's IO thread, where a stopped process or a lost request would have its effect."""
        self.coordinator.post(function)

    def break_loop(self):
        """Cause a defect in the client's network loop. Returns the thread that ends because of it."""
        thread = Future()
        self.on_io_thread(lambda: thread.set_result(threading.current_thread()))
        found = thread.result(10)
        self.selector.broken = True
        self.coordinator.wake()
        return found

    def crash(self):
        """End like a killed process, without leaving the group."""
        async def stay():
            pass

        self.coordinator.finish(stay)
        self.member.stop(block=False)
        self.membership, self.owned = None, Allocation()


def settled(*herders):
    """Whether all are in one generation and run everything once, evenly distributed."""
    memberships = [herder.membership for herder in herders]
    if None in memberships or len({membership.generation for membership in memberships}) > 1:
        return False
    items = [item for herder in herders for item in herder.owned.items]
    sizes = [len(herder.owned.tasks) for herder in herders]
    return len(items) == len(EVERYTHING) and set(items) == EVERYTHING and max(sizes) - min(sizes) <= 1
