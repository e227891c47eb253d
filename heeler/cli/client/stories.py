"""Merges the stories that several workers have of one connector, in the order of time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from heeler.cli.client.responses import as_list, as_object, as_status, as_text, workers
from heeler.cli.client.rest_client import RestError, UnexpectedResponseError, path_of
from heeler.cli.client.session import ClusterSession

_WHAT = "a connector's story"


def whole_story(session: ClusterSession, connector: str) -> list[dict[str, Any]]:
    """The steps as in the API, each with its `worker`. The first worker of the client that responds must have a story;
    others may be unreachable. Raises ConnectError.
    """
    path = path_of("connectors", connector, "story")
    steps = _steps(session.call("GET", path), session.client.url)
    statuses = []
    with suppress(RestError):  # it has none yet
        statuses.append(as_status(session.call("GET", path_of("connectors", connector, "status"))))
    known = {row_of(step) for step in steps}  # one worker may have two addresses
    for url in workers(session.client, statuses)[1:]:
        if (text := session.client.fetch_text(url, path)) is not None:
            with suppress(ValueError, RecursionError, UnexpectedResponseError):
                steps += [step for step in _steps(json.loads(text), url) if row_of(step) not in known]
    return sorted(steps, key=lambda step: as_text(step.get("at")).removesuffix("Z"))  # some have milliseconds


def row_of(step: Mapping[str, Any]) -> tuple[str, ...]:
    """A step's time, its id, the id of the step that caused it, the event (only its first line), and its effects."""
    at, cause, because, what = (as_text(step.get(key)) for key in ("at", "cause", "because", "what"))
    line, more, _ = what.partition("\n")
    effects = "; ".join(map(as_text, as_list(step.get("effects") or [], "a step's effects")))
    return at, cause, because, f"{line} …" if more else line, effects


def _steps(response: Any, url: str) -> list[dict[str, Any]]:
    worker = url.partition("://")[2].rpartition("@")[2]
    steps = as_list(as_object(response, _WHAT).get("story"), _WHAT)
    return [{"worker": worker, **as_object(step, "a step of a story")} for step in steps]
