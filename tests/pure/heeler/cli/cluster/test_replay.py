"""`heeler connectors replay`."""

from __future__ import annotations

from tests.rigs.cli_fake import ESCAPE, run

REPLAY = {"connector": "c", "queue": "q", "dry_run": False, "state": "DONE", "error": None, "scanned": 3, "replayed": 0,
          "would_replay": 0, "refused_again": 0, "left": 1, "held_by_the_sink": 0, "not_replayable": 0,
          "by_topic": {f"t{ESCAPE}": 2}, "by_stage": {"TASK_PUT": 2}, "by_exception": {"E": 2}, "partitions": [],
          "samples": []}


def test_a_replay_shows_its_plan_and_waits_for_its_end(fake):
    path = "/connectors/c/dead-letters/replay"
    sample = {"queue_partition": 0, "queue_offset": 7, "topic": "t", "partition": 0, "offset": 1, "stage": "TASK_PUT",
              "exception": "E", "message": ESCAPE, "key": None, "value": "v"}
    dry = {**REPLAY, "dry_run": True, "would_replay": 2, "samples": [sample]}
    fake.answers[f"POST {path}"] = [(202, {**dry, "state": "RUNNING"}), (202, {**REPLAY, "replayed": 2})]
    fake.answers[f"GET {path}"] = (200, dry)
    shown = run(fake, "connectors", "replay", "c", "--dry-run", "--stage", "TASK_PUT", "--values").output
    assert "would be replayed" in shown
    assert "QUEUE OFFSET" in shown
    assert "\x1b" not in shown
    assert "replayed" in run(fake, "connectors", "replay", "c", "--yes", "--limit", "2", "--keeps-no-offsets").output
    assert [body for request, body in fake.asked if request.startswith("POST")] == [
        {"filter": {"stages": ["TASK_PUT"]}, "dry_run": True, "values": True},
        {"filter": {}, "limit": 2, "keeps_no_offsets": True}]


def test_a_replay_counts_each_letter_and_those_refused_again(fake):
    path = "POST /connectors/c/dead-letters/replay"
    fake.answers[path] = (202, {**REPLAY, "scanned": 9, "replayed": 3, "left": 2, "not_replayable": 1})
    rows = dict(line.rsplit(maxsplit=1) for line in run(fake, "connectors", "replay", "c", "-y").stdout.splitlines())
    assert rows["replayed before"] == "3"
    assert "of these refused again" not in rows
    assert (rows["stage TASK_PUT"], rows["exception E"]) == ("2", "2")
    fake.answers[path] = (202, {**REPLAY, "replayed": 2, "refused_again": 1})
    done = run(fake, "connectors", "replay", "c", "-y", code=1).stdout
    assert "of these refused again" in done
    assert "replayed before" not in done


def test_a_replay_that_ends_early_says_why(fake):
    ended = {**REPLAY, "state": "FAILED", "error": f"no{ESCAPE}"}
    fake.answers["POST /connectors/c/dead-letters/replay"] = (202, ended)
    done = run(fake, "connectors", "replay", "c", "--yes", code=1)
    assert "the replay ended early: no" in done.stderr
    assert "\x1b" not in done.output


def test_the_question_before_a_replay_has_a_number_of_the_worker_and_nothing_else(fake):
    path = "POST /connectors/c/dead-letters/replay"
    fake.answers[path] = (202, {**REPLAY, "dry_run": True, "would_replay": 2})
    assert "Replay 2 dead letters?" in run(fake, "connectors", "replay", "c", code=2).stderr
    fake.answers[path] = (202, {**REPLAY, "dry_run": True, "would_replay": f"0{ESCAPE}"})
    refused = run(fake, "connectors", "replay", "c", code=7)
    assert "the number of letters is not a number but a string" in refused.stderr
    assert "\x1b" not in refused.output
