"""Configurations of the connectors in rigs/plugins that hang or fail until a file exists."""

from __future__ import annotations

RUNNING, FAILED, STOPPED = "RUNNING", "FAILED", "STOPPED"
QUICK = {"errors.restart.policy": "failed", "errors.restart.backoff.initial.ms": "200",
         "errors.restart.backoff.max.ms": "500", "errors.restart.limit": "1000"}


def hanging(release, at="", **more):
    converter = {"value.converter": "HoldingConverter", "value.converter.at": at,
                 "value.converter.release": str(release)}
    return {"connector.class": "HangingSource", "at": at, "release": str(release), "topic": "hanging",
            **(converter if at == "configure" else {}), **more}


def failing(release, at, topic="failing"):
    return {"connector.class": "FailingSource", "at": at, "release": str(release), "topic": topic}
