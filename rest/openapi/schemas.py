"""The schemas of request and response bodies, as JSON Schema for OpenAPI 3.0."""

from __future__ import annotations

from typing import Any, Final

from spark_tasks.process.log_levels import LEVELS

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """A reference to a schema of this file."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    """A list with items of a schema."""
    return {"type": "array", "items": items}


def mapped(values: Schema) -> Schema:
    """An object with any keys and values of a schema."""
    return {"type": "object", "additionalProperties": values}


def an_object(required: str, **properties: Schema) -> Schema:
    """An object; `required`: the names of its required properties, separated by spaces."""
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": required.split()} if required else schema


TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
ANY: Final[Schema] = {}
KIND: Final[Schema] = {"type": "string", "enum": ["source", "sink", "unknown"]}
STATE: Final[Schema] = {"type": "string", "enum": [
    "UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", "DESTROYED"]}
LEVEL: Final[Schema] = {"type": "string", "enum": list(LEVELS)}
_NULLABLE_TEXT: Final[Schema] = {"type": "string", "nullable": True}
_RUNTIME: Final[Schema] = {"type": "string", "enum": ["heeler", "java"]}
_MILLIS: Final[Schema] = {"type": "integer", "format": "int64", "description": "Milliseconds since 1970."}
_MOMENT: Final[Schema] = {"anyOf": [_MILLIS, {"type": "string", "format": "date-time"}]}
_RESTARTS: Final = {
    **an_object("count cause", count=NUMBER, cause=TEXT, permanent={"type": "boolean"},
                next_attempt={"type": "string", "format": "date-time"}),
    "description": "Automatic restarts (errors.restart.policy), if any: their number, the last failure, the next one.",
}
_STALLED: Final = {
    **an_object("since what", since={"type": "string", "format": "date-time"}, what=TEXT),
    "description": "If it makes no progress (task.progress.timeout.ms): since when, and where it hangs.",
}
_VERSION: Final = {
    **_NULLABLE_TEXT,
    "description": "The plugin's version; null in the status of a part that has just stopped, or is restarting.",
}
_STATUS: Final = {"state": STATE, "worker_id": TEXT, "version": _VERSION, "trace": TEXT}

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": an_object("error_code message", error_code=NUMBER, message=_NULLABLE_TEXT),
    "Message": an_object("message", message=TEXT),
    "Config": {**mapped(_NULLABLE_TEXT), "description": "Keys and values. In a patch, null removes a key."},
    "TaskId": an_object("connector task", connector=TEXT, task=NUMBER),
    "Connector": an_object("name config tasks type", name=TEXT, config=ref("Config"), tasks=listed(ref("TaskId")),
                           type=KIND),
    "NewConnector": an_object(
        "name config", name=TEXT, config=ref("Config"),
        initial_state={"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"], "nullable": True}),
    "TaskStatus": an_object("id state worker_id", id=NUMBER, **_STATUS, restarts=_RESTARTS, stalled=_STALLED),
    "ConnectorStatus": an_object("name connector tasks type", name=TEXT,
                                 connector=an_object("state worker_id", **_STATUS), tasks=listed(ref("TaskStatus")),
                                 type=KIND, restarts=_RESTARTS, stalled=_STALLED),
    "Task": an_object("id config", id=ref("TaskId"), config=ref("Config")),
    "Topics": {**mapped(an_object("topics", topics=listed(TEXT))), "description": "The key is the connector's name."},
    "Offsets": an_object("offsets", offsets=listed(an_object(
        "offset", partition={"type": "object", "nullable": True}, offset={"type": "object", "nullable": True}))),
    "Plugin": an_object("class type", **{"class": TEXT}, type={"type": "string", "enum": [
        "source", "sink", "converter", "header_converter", "transformation", "predicate"]}, version=TEXT,
        runtime={**_RUNTIME, "description": "The runtime that is used, if both have a plugin of this class."},
        passed_over={**listed(an_object("runtime location", runtime=_RUNTIME, version=TEXT, location=TEXT)),
                     "description": "Other plugins of this class that are installed but not used."}),
    "ConfigKey": {"type": "object", "description": "A key's name, type, default, importance, documentation and more."},
    "Validation": an_object("name error_count groups configs", name=TEXT, error_count=NUMBER, groups=listed(TEXT),
                            configs=listed(mapped(ANY))),
    "LoggerLevel": an_object("level", level=LEVEL, last_modified={
        "type": "integer", "format": "int64", "nullable": True, "description": "Milliseconds since 1970."}),
    "NewLevel": an_object("level", level=LEVEL),
    "Worker": an_object("version commit kafka_cluster_id", version=TEXT, commit=TEXT, kafka_cluster_id=TEXT),
    "Health": an_object("status message", status={"type": "string", "enum": ["starting", "healthy", "unhealthy"]},
                        message=TEXT, degraded={
                            **listed(TEXT),
                            "description": "Connectors and tasks that hang, tasks that have waited for a long time."},
                        waiting={
                            **listed(TEXT),
                            "description": "Tasks whose Java plugins have waited for data for a long time in `poll`, "
                                           "since when. Nothing is wrong with them."}),
    "Story": an_object("connector story", connector=TEXT, story=listed(an_object(
        "at cause because what effects", at=TEXT, cause=TEXT, because=_NULLABLE_TEXT, what=TEXT,
        effects=listed(TEXT)))),
    "Trial": an_object("config", config=ref("Config"), limit={**NUMBER, "minimum": 1, "maximum": 1000, "default": 5},
                       records=listed({"type": "object", "description": "A value; optionally key, topic, headers."})),
    "TrialResult": an_object("stages", stages=listed({"type": "object"})),
    "Replay": an_object("", dry_run={"type": "boolean", "default": False}, values={
        "type": "boolean", "default": False, "description": "Whether samples of a dry run contain keys and values."},
        keeps_no_offsets={"type": "boolean", "default": False, "description": (
            "Confirms that the connector keeps no position in its target, although its task overrides open and "
            "preCommit.")},
        limit={**NUMBER, "minimum": 1}, filter=an_object(
            "", topics=listed(TEXT), stages=listed(TEXT), exception=TEXT, message=TEXT, **{"from": _MOMENT},
            to=_MOMENT, partition=NUMBER, first_offset=NUMBER, last_offset=NUMBER)),
    "ReplayProgress": an_object(
        "connector queue dry_run state scanned replayed would_replay refused_again left not_replayable", connector=TEXT,
        queue=TEXT, dry_run={"type": "boolean"}, state={"type": "string", "enum": ["RUNNING", "DONE", "FAILED"]},
        error=_NULLABLE_TEXT, started_at=_MILLIS, scanned=NUMBER, replayed=NUMBER, would_replay=NUMBER,
        refused_again=NUMBER, left=NUMBER, not_replayable=NUMBER, held_by_the_sink=NUMBER, by_topic=mapped(NUMBER),
        by_stage=mapped(NUMBER), by_exception=mapped(NUMBER),
        partitions=listed(an_object("partition position end", partition=NUMBER, position=NUMBER, end=NUMBER)),
        samples=listed({"type": "object"})),
    "Logs": an_object("name lines", name=TEXT, lines=listed(TEXT)),
}
