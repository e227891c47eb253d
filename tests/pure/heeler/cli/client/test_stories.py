"""`heeler connectors story`."""

from __future__ import annotations

import json

from tests.rigs.cli_fake import STATUS, run
from tests.rigs.fake_connect import fake_connect

STORY = {"connector": "c", "story": [{"at": "2026-11-22T18:00:00Z", "cause": "Joined#17", "because": "op 3",
                                     "what": "joined", "effects": ["StartInstance c"]}]}


def test_the_story_of_a_connector_is_printed(fake):
    fake.answers["GET /connectors/c/story"] = (200, STORY)
    assert run(fake, "connectors", "story", "c").stdout.splitlines()[1].split() == [
        fake.url.partition("//")[2], "2026-11-22T18:00:00Z", "Joined#17", "op", "3", "joined", "StartInstance", "c"]
    run(fake, "connectors", "story", "d", code=4)


def test_a_story_from_several_workers(fake):
    """The named workers and the one that runs the task; each step is shown once, in the order of time."""
    def step(at, what):
        return {"at": f"2026-11-22T18:00:{at}Z", "cause": f"Step#{at}", "because": None, "what": what, "effects": []}

    with fake_connect() as other, fake_connect() as odd:
        place = other.url.partition("//")[2]
        fake.answers |= {
            "GET /connectors/c/story": (200, {"story": [step("00", "a"), step("02", "hangs\nin read")]}),
            "GET /connectors/c/status": (200, {**STATUS, "tasks": [{"id": 0, "state": "RUNNING", "worker_id": place}]})}
        other.answers["GET /connectors/c/story"] = (200, {"story": [step("00.5", "b"), step("00", "a")]})
        odd.answers["GET /connectors/c/story"] = (200, {"story": 5})
        url = f"{fake.url},{odd.url},http://127.0.0.1:1"
        shown = run(fake, "connectors", "story", "c", url=url).stdout.splitlines()[1:]
        mine = fake.url.partition("//")[2]
        assert [(line.split()[0], line.split()[2:]) for line in shown] == [
            (mine, ["Step#00", "a"]), (place, ["Step#00.5", "b"]), (mine, ["Step#02", "hangs", "…"])]
        steps = json.loads(run(fake, "connectors", "story", "c", "-o", "json", url=url).stdout)["story"]
        assert steps[2] == {"worker": mine, **step("02", "hangs\nin read")}
