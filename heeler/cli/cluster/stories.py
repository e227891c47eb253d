"""What several workers tell of one connector, in the order of time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from heeler.cli.cluster.answers import a_list, a_status, a_text, an_object, workers
from heeler.cli.cluster.session import ClusterSession
from heeler.cli.rest_client import RestError, StrangeAnswerError, path_of

_WHAT = "a connector's story"


def whole_story(session: ClusterSession, connector: str) -> list[dict[str, Any]]:
    """The steps as the API has them, with the `worker` that tells of each. The worker that answers first must tell;
    others may be away. Raises ConnectErrors.
    """
    path = path_of("connectors", connector, "story")
    steps = _steps(session.call_admin("GET", path), session.client.url)
    statuses = []
    with suppress(RestError):  # it has none yet
        statuses.append(a_status(session.call("GET", path_of("connectors", connector, "status"))))
    known = {row_of(step) for step in steps}  # one worker may have two addresses
    for url in workers(session.client, statuses)[1:]:
        if (text := session.client.text(url, path)) is not None:
            with suppress(ValueError, RecursionError, StrangeAnswerError):
                steps += [step for step in _steps(json.loads(text), url) if row_of(step) not in known]
    return sorted(steps, key=lambda step: a_text(step.get("at")).removesuffix("Z"))  # some have milliseconds


def row_of(step: Mapping[str, Any]) -> tuple[str, ...]:
    """When, which step, because of which, what, and what came of it; of several lines, the first."""
    at, cause, because, what = (a_text(step.get(key)) for key in ("at", "cause", "because", "what"))
    line, more, _ = what.partition("\n")
    effects = "; ".join(map(a_text, a_list(step.get("effects") or [], "a step's effects")))
    return at, cause, because, f"{line} …" if more else line, effects


def _steps(response: Any, url: str) -> list[dict[str, Any]]:
    worker = url.partition("://")[2].rpartition("@")[2]
    found = a_list(an_object(response, _WHAT).get("story"), _WHAT)
    return [{"worker": worker, **an_object(step, "a step of a story")} for step in found]
