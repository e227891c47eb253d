"""The requests whose responses by Java Kafka Connect 4.3.1 were recorded (record.py), and must equal those of our API.

A scenario is a list of steps on a worker without connectors; it removes what it creates. Names are in a step's own
words. `until` is a part of the answer that the recorder waits for; a replay expects it at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SIGNED = "signed"  # a step's signature: valid, or made with another key, or none
FORGED = "forged"


@dataclass(frozen=True)
class Step:
    """One request. `body` is sent as JSON, `raw` as it is; `until` is a subset of the answer to wait for."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    until: Any = None
    signature: str | None = None


def source(**more: Any) -> dict[str, Any]:
    """A source connector's config; `tasks_max="2"` stands for tasks.max."""
    config = {"connector.class": SOURCE, "topic": "golden-lines", "file": "/dev/null"}
    return {**config, **{key.replace("_", "."): value for key, value in more.items()}}


def sink(**more: Any) -> dict[str, Any]:
    """A sink connector's config."""
    config = {"connector.class": SINK, "topics": "golden-lines", "file": "/dev/null"}
    return {**config, **{key.replace("_", "."): value for key, value in more.items()}}


def raw_config(more: str) -> str:
    """A source connector's config as text, with more members as they are."""
    return f'{{"connector.class":"{SOURCE}","topic":"t",{more}}}'


def create(name: str, config: dict[str, Any], **more: Any) -> Step:
    """POST /connectors."""
    return Step(f"create {name}", "POST", "/connectors", {"name": name, "config": config, **more})


def running(name: str, tasks: int = 1) -> Step:
    """The status once connector and tasks run."""
    states = [{"id": n, "state": "RUNNING"} for n in range(tasks)]
    return Step(f"{name} runs", "GET", f"/connectors/{name}/status",
                until={"connector": {"state": "RUNNING"}, "tasks": states})


def delete(name: str) -> Step:
    """DELETE /connectors/{name}."""
    return Step(f"delete {name}", "DELETE", f"/connectors/{name}")


def gone(name: str) -> Step:
    """The status once the leader has removed it."""
    return Step(f"{name} is gone", "GET", f"/connectors/{name}/status", until={"error_code": 404})


def has_tasks(name: str, count: int) -> Step:
    """The connector's description once the leader has its task configs."""
    tasks = [{"connector": name, "task": n} for n in range(count)]
    return Step(f"{name} has {count} tasks", "GET", f"/connectors/{name}", until={"tasks": tasks})


ROOT = [
    Step("server info", "GET", "/"),
    Step("health", "GET", "/health"),
    Step("no connectors", "GET", "/connectors"),
    Step("no connectors, expanded", "GET", "/connectors?expand=status&expand=info"),
    Step("trailing slash", "GET", "/connectors/"),
    Step("double slash", "GET", "//connectors"),
    Step("unknown path", "GET", "/nope"),
    Step("unknown path, HTML wanted", "GET", "/nope", headers={"Accept": "text/html"}),
    Step("unknown path below a resource", "GET", "/connectors/a/nope"),
    Step("post to the root", "POST", "/", {}),
    Step("delete the root", "DELETE", "/"),
    Step("post to health", "POST", "/health", {}),
    Step("delete all connectors", "DELETE", "/connectors"),
    Step("put all connectors", "PUT", "/connectors", {}),
    Step("patch a connector", "PATCH", "/connectors/a", {}),
    Step("post to a connector", "POST", "/connectors/a", {}),
    Step("get restart", "GET", "/connectors/a/restart"),
    Step("get pause", "GET", "/connectors/a/pause"),
    Step("put tasks", "PUT", "/connectors/a/tasks", []),
    Step("get fence", "GET", "/connectors/a/fence"),
    Step("head of the root", "HEAD", "/"),
    Step("head of connectors", "HEAD", "/connectors"),
    Step("head of an unknown connector", "HEAD", "/connectors/a/status"),
    Step("options of connectors", "OPTIONS", "/connectors"),
    Step("options of a connector", "OPTIONS", "/connectors/a"),
    Step("options of a config", "OPTIONS", "/connectors/a/config"),
    Step("options of the root", "OPTIONS", "/"),
    Step("options of an unknown path", "OPTIONS", "/nope"),
    Step("trace", "TRACE", "/connectors"),
    Step("unknown method", "BREW", "/connectors"),
    Step("only HTML wanted", "GET", "/connectors", headers={"Accept": "text/html"}),
    Step("HTML or anything wanted", "GET", "/connectors", headers={"Accept": "text/html,*/*;q=0.1"}),
    Step("any application type wanted", "GET", "/connectors", headers={"Accept": "application/*"}),
    Step("JSON refused", "GET", "/connectors", headers={"Accept": "application/json;q=0"}),
    Step("JSON in UTF-8 wanted", "GET", "/connectors", headers={"Accept": "application/json; charset=utf-8"}),
    Step("bad accept header", "GET", "/connectors", headers={"Accept": "nonsense"}),
    Step("only HTML wanted of the root", "GET", "/", headers={"Accept": "text/html"}),
    Step("text body", "POST", "/connectors", raw="a=b", headers={"Content-Type": "text/plain"}),
    Step("form body", "POST", "/connectors", raw="a=b",
         headers={"Content-Type": "application/x-www-form-urlencoded"}),
    Step("xml config", "PUT", "/connectors/a/config", raw="<a/>", headers={"Content-Type": "text/xml"}),
    Step("bad content type", "PUT", "/connectors/a/config", raw="{}", headers={"Content-Type": "json"}),
    Step("text body and a get", "GET", "/connectors", raw="a=b", headers={"Content-Type": "text/plain"}),
    Step("pause with a text body", "PUT", "/connectors/a/pause", raw="x", headers={"Content-Type": "text/plain"}),
    Step("json with charset", "PUT", "/connectors/a/config/nope", {},
         headers={"Content-Type": "application/json; charset=utf-8"}),
    Step("no content type", "POST", "/connectors", raw="{}", headers={"Content-Type": ""}),
    Step("text and no body", "POST", "/connectors", raw="", headers={"Content-Type": "text/plain"}),
    Step("text and no body to pause", "PUT", "/connectors/a/pause", raw="", headers={"Content-Type": "text/plain"}),
    Step("text and no body to a get", "GET", "/connectors", headers={"Content-Type": "text/plain"}),
    Step("no content type and no body to pause", "PUT", "/connectors/a/pause", raw="", headers={"Content-Type": ""}),
    Step("no content type, but a body, to pause", "PUT", "/connectors/a/pause", raw="x", headers={"Content-Type": ""}),
    Step("any application type", "PUT", "/connectors/a/config", raw="{}", headers={"Content-Type": "application/*"}),
    Step("a JSON dialect", "PUT", "/connectors/a/config", raw="{}", headers={"Content-Type": "application/x+json"}),
    Step("upper case JSON", "PUT", "/connectors/a/config", raw="{}", headers={"Content-Type": "Application/JSON"}),
    Step("text body to the root", "GET", "/", raw="x", headers={"Content-Type": "text/plain"}),
    Step("text body to a task's restart", "POST", "/connectors/a/tasks/0/restart", raw="x",
         headers={"Content-Type": "text/plain"}),
    Step("method before media type", "PUT", "/connectors", raw="x", headers={"Content-Type": "text/plain"}),
    Step("media type before acceptance", "POST", "/connectors", raw="x",
         headers={"Content-Type": "text/plain", "Accept": "text/html"}),
    Step("dots in the path", "GET", "/connectors/./a"),
    Step("slashes at the end", "GET", "/connectors/a/status/"),
    Step("encoded letters in the path", "GET", "/connector%73"),
    Step("matrix parameters in the path", "GET", "/connectors;x=y/a;b=c/status"),
]

MISSING = [
    Step("connector", "GET", "/connectors/a"),
    Step("config", "GET", "/connectors/a/config"),
    Step("status", "GET", "/connectors/a/status"),
    Step("tasks", "GET", "/connectors/a/tasks"),
    Step("tasks-config", "GET", "/connectors/a/tasks-config"),
    Step("task status", "GET", "/connectors/a/tasks/0/status"),
    Step("task status, no number", "GET", "/connectors/a/tasks/x/status"),
    Step("task status, negative number", "GET", "/connectors/a/tasks/-1/status"),
    Step("task status, signed number", "GET", "/connectors/a/tasks/+1/status"),
    Step("task status, too large a number", "GET", "/connectors/a/tasks/2147483648/status"),
    Step("task status, largest number", "GET", "/connectors/a/tasks/2147483647/status"),
    Step("task", "GET", "/connectors/a/tasks/0"),
    Step("restart of a task", "POST", "/connectors/a/tasks/0/restart"),
    Step("restart", "POST", "/connectors/a/restart"),
    Step("restart with tasks", "POST", "/connectors/a/restart?includeTasks=true"),
    Step("restart only failed", "POST", "/connectors/a/restart?onlyFailed=true"),
    Step("restart both", "POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true"),
    Step("restart, no boolean", "POST", "/connectors/a/restart?includeTasks=maybe"),
    Step("pause", "PUT", "/connectors/a/pause"),
    Step("resume", "PUT", "/connectors/a/resume"),
    Step("stop", "PUT", "/connectors/a/stop"),
    Step("delete", "DELETE", "/connectors/a"),
    Step("patch", "PATCH", "/connectors/a/config", {"x": "y"}),
    Step("offsets", "GET", "/connectors/a/offsets"),
    Step("alter offsets", "PATCH", "/connectors/a/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]}),
    Step("reset offsets", "DELETE", "/connectors/a/offsets"),
    Step("topics", "GET", "/connectors/a/topics"),
    Step("reset topics", "PUT", "/connectors/a/topics/reset"),
    Step("name with a space", "GET", "/connectors/a%20b"),
    Step("name with a plus", "GET", "/connectors/a+b"),
    Step("name in UTF-8", "GET", "/connectors/%C3%A9t%C3%A9"),
    Step("name not in UTF-8", "GET", "/connectors/%FF"),
    Step("name with a semicolon", "GET", "/connectors/a;b"),
    Step("name with an encoded semicolon", "GET", "/connectors/a%3Bb"),
    Step("name with a question mark", "GET", "/connectors/a%3Fb"),
    Step("name with a line end", "GET", "/connectors/a%0Ab"),
    Step("name with quotes", "GET", "/connectors/%22a%22"),
    Step("name with braces", "GET", "/connectors/%7Ba%7D"),
    Step("name of dots", "GET", "/connectors/..."),
    Step("blank name", "GET", "/connectors/%20/status"),
]

RUNS = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}

LIFE = [
    create("one", source()),
    has_tasks("one", 1),
    running("one"),
    Step("list", "GET", "/connectors"),
    Step("list with status", "GET", "/connectors?expand=status"),
    Step("list with info", "GET", "/connectors?expand=info"),
    Step("list with both", "GET", "/connectors?expand=status&expand=info"),
    Step("list with nonsense", "GET", "/connectors?expand=nonsense"),
    Step("list with an empty expand", "GET", "/connectors?expand"),
    Step("list with a comma", "GET", "/connectors?expand=status,info"),
    Step("config", "GET", "/connectors/one/config"),
    Step("tasks", "GET", "/connectors/one/tasks"),
    Step("task status", "GET", "/connectors/one/tasks/0/status"),
    Step("status of a task that is not there", "GET", "/connectors/one/tasks/1/status"),
    Step("head of a config", "HEAD", "/connectors/one/config"),
    create("one", source()),
    Step("create with the name in the config", "POST", "/connectors", {"name": "one", "config": source(name="one")}),
    Step("unchanged config", "PUT", "/connectors/one/config", source(name="one")),
    Step("new config", "PUT", "/connectors/one/config", source(batch_size="10")),
    Step("config without a name", "GET", "/connectors/one/config"),
    Step("config with another name", "PUT", "/connectors/one/config", source(name="two")),
    Step("created by put", "PUT", "/connectors/two/config", source(tasks_max="2")),
    running("two"),
    Step("patch", "PATCH", "/connectors/two/config", {"batch.size": "7", "tasks.max": None}),
    Step("patch adds nothing", "PATCH", "/connectors/two/config", {}),
    Step("patch of nothing", "PATCH", "/connectors/two/config", raw=""),
    Step("patch of null", "PATCH", "/connectors/two/config", raw="null"),
    Step("patch to a bad config", "PATCH", "/connectors/two/config", {"topic": None}),
    Step("patch of the name", "PATCH", "/connectors/two/config", {"name": "three"}),
    Step("name with spaces around", "POST", "/connectors", {"name": " three ", "config": source()}),
    Step("the trimmed name", "GET", "/connectors/three/config"),
    running("one"),
    running("two"),
    running("three"),
    Step("restart", "POST", "/connectors/one/restart"),
    running("one"),
    Step("restart a task", "POST", "/connectors/one/tasks/0/restart"),
    running("one"),
    Step("restart an unknown task", "POST", "/connectors/one/tasks/7/restart"),
    # A status may still be the one before the last restart: `running` cannot tell, so these look again themselves.
    Step("restart with tasks", "POST", "/connectors/one/restart?includeTasks=true",
         until={"connector": {"version": "4.3.1"}, "tasks": [{"version": "4.3.1"}]}),  # of what ran
    Step("restart what failed", "POST", "/connectors/one/restart?includeTasks=true&onlyFailed=true", until=RUNS),
    Step("restart only the failed connector", "POST", "/connectors/one/restart?onlyFailed=true", until=RUNS),
    Step("restart, all false", "POST", "/connectors/one/restart?includeTasks=false&onlyFailed=false"),
    running("one"),
    Step("pause", "PUT", "/connectors/one/pause"),
    Step("paused", "GET", "/connectors/one/status",
         until={"connector": {"state": "PAUSED"}, "tasks": [{"state": "PAUSED"}]}),
    Step("pause again", "PUT", "/connectors/one/pause"),
    Step("resume", "PUT", "/connectors/one/resume"),
    running("one"),
    Step("resume again", "PUT", "/connectors/one/resume"),
    Step("stop", "PUT", "/connectors/one/stop"),
    Step("stopped", "GET", "/connectors/one/status", until={"connector": {"state": "STOPPED"}, "tasks": []}),
    Step("stop again", "PUT", "/connectors/one/stop"),
    Step("stopped connector", "GET", "/connectors/one", until={"tasks": []}),
    Step("tasks of a stopped connector", "GET", "/connectors/one/tasks"),
    Step("restart a stopped connector", "POST", "/connectors/one/restart?includeTasks=true"),
    Step("paused from stopped", "PUT", "/connectors/one/pause"),
    delete("one"), gone("one"),
    delete("one"),
    delete("two"), gone("two"),
    delete("three"), gone("three"),
    Step("none left", "GET", "/connectors"),
]

ODD = "odd:,=&+'()@!*$~"  # none of these characters is encoded in a path

CREATE = [
    create("paused", source(), initial_state="PAUSED"),
    Step("starts paused", "GET", "/connectors/paused/status",
         until={"connector": {"state": "PAUSED"}}),
    create("stopped", source(), initial_state="stopped"),
    Step("starts stopped", "GET", "/connectors/stopped/status", until={"connector": {"state": "STOPPED"}}),
    create("started", source(), initial_state="Running"),
    running("started"),
    create(ODD, source(), initial_state="STOPPED"),
    Step("the oddly named connector", "GET", f"/connectors/{ODD}"),
    delete(ODD),
    create("bad-state", source(), initial_state="STARTED"),
    create("empty-state", source(), initial_state=""),
    create("null-state", source(), initial_state=None),
    create("number-state", source(), initial_state=1),
    create("object-state", source(), initial_state={}),
    Step("name mismatch", "POST", "/connectors", {"name": "a", "config": source(name="b")}),
    Step("no class", "POST", "/connectors", {"name": "a", "config": {"topic": "t"}}),
    Step("unknown class", "POST", "/connectors", {"name": "a", "config": {"connector.class": "no.such.Class"}}),
    Step("class that is no connector", "POST", "/connectors",
         {"name": "a", "config": {"connector.class": "org.apache.kafka.connect.storage.StringConverter"}}),
    Step("empty class", "POST", "/connectors", {"name": "a", "config": {"connector.class": ""}}),
    Step("alias of a class", "POST", "/connectors",
         {"name": "alias", "config": source(**{"connector.class": "FileStreamSource"})}),
    delete("alias"),
    Step("no topic", "POST", "/connectors", {"name": "a", "config": {"connector.class": SOURCE}}),
    Step("two errors", "POST", "/connectors",
         {"name": "a", "config": {"connector.class": SOURCE, "tasks.max": "0", "batch.size": "x"}}),
    Step("no tasks", "POST", "/connectors", {"name": "a", "config": source(tasks_max="0")}),
    Step("sink without topics", "POST", "/connectors", {"name": "a", "config": {"connector.class": SINK}}),
    Step("null value", "POST", "/connectors", {"name": "a", "config": source(file=None)}),
    Step("null value by put", "PUT", "/connectors/a/config", source(file=None)),
    Step("null value, seen", "GET", "/connectors/a/config"),
    delete("a"), gone("a"),
    Step("no name", "POST", "/connectors", {"config": source()}),
    Step("no name, but in the config", "POST", "/connectors", {"config": source(name="a")}),
    Step("null name", "POST", "/connectors", {"name": None, "config": source()}),
    Step("blank name", "POST", "/connectors", {"name": "  ", "config": source()}),
    Step("name with a control character", "POST", "/connectors", {"name": "a\nb", "config": source()}),
    Step("name as number", "POST", "/connectors", {"name": 12, "config": {"topic": "t"}}),
    Step("name as object", "POST", "/connectors", {"name": {}, "config": {"topic": "t"}}),
    Step("name as boolean", "POST", "/connectors", {"name": True, "config": {"topic": "t"}}),
    Step("null config", "POST", "/connectors", {"name": "a", "config": None}),
    Step("no config", "POST", "/connectors", {"name": "a"}),
    Step("config as list", "POST", "/connectors", {"name": "a", "config": []}),
    Step("config as string", "POST", "/connectors", {"name": "a", "config": "x"}),
    Step("config as empty string", "POST", "/connectors", {"name": "a", "config": ""}),
    Step("config as number", "POST", "/connectors", {"name": "a", "config": 1}),
    Step("config as boolean", "POST", "/connectors", {"name": "a", "config": True}),
    Step("unknown field", "POST", "/connectors", {"name": "a", "config": {}, "extra": 1}),
    Step("config's value an object", "POST", "/connectors", {"name": "a", "config": {"x": {"y": 1}}}),
    Step("config's value a list", "POST", "/connectors", {"name": "a", "config": {"x": ["y"]}}),
    Step("coerced values", "POST", "/connectors", {"name": "coerced", "config": source(
        tasks_max=1, batch_size=10, x_int=-5, x_zero=0, x_true=True, x_false=False, x_float=1.5, x_whole=2.0,
        x_empty="", x_text="é\u20ac\U0001f600")}),
    Step("coerced values, seen", "GET", "/connectors/coerced/config"),
    has_tasks("coerced", 1),
    Step("odd numbers", "PUT", "/connectors/coerced/config", raw=raw_config(
        '"a":1e3,"b":1E-7,"c":100000000000000000000,"d":1.10,"e":-0,"f":-0.0,"g":123456789012345678.123456789,'
        '"h":0.1e1')),
    Step("odd numbers, seen", "GET", "/connectors/coerced/config"),
    Step("key twice", "PUT", "/connectors/coerced/config",
         raw=raw_config('"a":"1","a":"2"')),
    Step("unicode escapes", "PUT", "/connectors/coerced/config",
         raw=raw_config(r'"a":"\u00e9\n\t\u0001/\/","\u0062":"x"')),
    Step("unicode escapes, seen", "GET", "/connectors/coerced/config"),
    delete("coerced"),
    delete("paused"), delete("stopped"), delete("started"), delete("null-state"), delete("empty-state"),
    gone("paused"), gone("stopped"), gone("started"),
]

BODIES = [
    *[Step(f"create with {name}", "POST", "/connectors", raw=raw) for name, raw in (
        ("nothing", ""), ("spaces", "  "), ("null", "null"), ("a word", "nonsense"), ("a string", '"x"'),
        ("a number", "1"), ("a boolean", "true"), ("a list", "[]"), ("an empty object", "{}"),
        ("an open object", '{"name": "a"'), ("an open string", '{"name": "a'), ("a bad comma", '{"name": "a",}'),
        ("single quotes", "{'name': 'a'}"), ("a bare key", '{name: "a"}'), ("a comment", '{/* x */"name": "a"}'),
        ("a NaN", '{"name": NaN}'), ("a leading zero", '{"name": 01}'), ("a bad escape", '{"name": "\\x"}'),
        ("a raw control character", '{"name": "a\nb"}'), ("more after it", '{"name": "a", "config": {}} x'),
        ("two objects", '{"name": "a"} {"name": "b"}'), ("a byte order mark", '\ufeff{"name": "a", "config": {}}'),
    )],
    *[Step(f"config of {name}", "PUT", "/connectors/a/config", raw=raw) for name, raw in (
        ("nothing", ""), ("null", "null"), ("a string", '"x"'), ("an empty string", '""'), ("a number", "1"),
        ("a boolean", "false"), ("a list", "[]"), ("an empty object", "{}"), ("an object value", '{"a": {}}'),
        ("a list value", '{"a": []}'), ("a wrong word", '{"a": nil}'), ("a null value", '{"a": null}'),
    )],
    Step("patch of a list", "PATCH", "/connectors/a/config", raw="[]"),
    *[Step(f"offsets of {name}", "PATCH", "/connectors/a/offsets", raw=raw) for name, raw in (
        ("nothing", ""), ("null", "null"), ("an empty object", "{}"), ("null offsets", '{"offsets": null}'),
        ("no offsets", '{"offsets": []}'), ("an object", '{"offsets": {}}'), ("a string", '{"offsets": "x"}'),
        ("an unknown field", '{"offsets": [], "x": 1}'), ("a list", "[]"), ("a null item", '{"offsets": [null]}'),
        ("a number as item", '{"offsets": [1]}'), ("an unknown field of an item", '{"offsets": [{"x": 1}]}'),
        ("a string as partition", '{"offsets": [{"partition": "x", "offset": {}}]}'),
        ("an empty item", '{"offsets": [{}]}'),
        ("a list as offset", '{"offsets": [{"partition": {}, "offset": []}]}'),
    )],
    Step("pause with a body", "PUT", "/connectors/a/pause", raw="nonsense"),
]

OFFSETS = [
    create("src", source()),
    running("src"),
    Step("source offsets", "GET", "/connectors/src/offsets"),
    Step("alter while running", "PATCH", "/connectors/src/offsets",
         {"offsets": [{"partition": {"filename": "/dev/null"}, "offset": {"position": 0}}]}),
    Step("reset while running", "DELETE", "/connectors/src/offsets"),
    Step("stop source", "PUT", "/connectors/src/stop"),
    Step("source stopped", "GET", "/connectors/src/status", until={"connector": {"state": "STOPPED"}, "tasks": []}),
    Step("reset none", "DELETE", "/connectors/src/offsets"),
    Step("alter source", "PATCH", "/connectors/src/offsets",
         {"offsets": [{"partition": {"filename": "/dev/null"}, "offset": {"position": 5}}]}),
    Step("altered source", "GET", "/connectors/src/offsets"),
    Step("alter source to what it refuses", "PATCH", "/connectors/src/offsets",
         {"offsets": [{"partition": {"filename": "/dev/null"}, "offset": {"position": "x"}}]}),
    Step("reset one", "PATCH", "/connectors/src/offsets",
         {"offsets": [{"partition": {"filename": "/dev/null"}, "offset": None}]}),
    Step("reset source", "DELETE", "/connectors/src/offsets"),
    Step("no source offsets", "GET", "/connectors/src/offsets"),
    create("snk", sink(), initial_state="STOPPED"),
    Step("sink stopped", "GET", "/connectors/snk/status", until={"connector": {"state": "STOPPED"}}),
    Step("sink offsets", "GET", "/connectors/snk/offsets"),
    Step("sink partition missing", "PATCH", "/connectors/snk/offsets", {"offsets": [{"offset": {"kafka_offset": 1}}]}),
    Step("sink partition null", "PATCH", "/connectors/snk/offsets",
         {"offsets": [{"partition": None, "offset": {"kafka_offset": 1}}]}),
    Step("sink partition without topic", "PATCH", "/connectors/snk/offsets",
         {"offsets": [{"partition": {"kafka_partition": 0}, "offset": {"kafka_offset": 1}}]}),
    Step("sink topic null", "PATCH", "/connectors/snk/offsets",
         {"offsets": [{"partition": {"kafka_topic": None, "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]}),
    Step("sink partition no number", "PATCH", "/connectors/snk/offsets",
         {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": "x"}, "offset": {"kafka_offset": 1}}]}),
    Step("sink offset no number", "PATCH", "/connectors/snk/offsets",
         {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": "x"}}]}),
    Step("sink offset without key", "PATCH", "/connectors/snk/offsets",
         {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"x": 1}}]}),
    Step("reset no sink offsets", "DELETE", "/connectors/snk/offsets"),
    delete("src"), gone("src"), delete("snk"), gone("snk"),
]

INITIAL_OFFSETS = [
    create("io-source", source(), initial_state="STOPPED",
           initial_offsets=[{"partition": {"filename": "/dev/null"}, "offset": {"position": 7}}]),
    create("io-empty", source(), initial_state="STOPPED", initial_offsets=[]),
    create("io-null", source(), initial_state="STOPPED", initial_offsets=None),
    create("io-object", source(), initial_state="STOPPED", initial_offsets={}),
]

TOPICS = [
    create("src", source()),
    running("src"),
    Step("no topics yet", "GET", "/connectors/src/topics"),
    Step("reset topics", "PUT", "/connectors/src/topics/reset"),
    Step("topics of a post", "POST", "/connectors/src/topics", {}),
    delete("src"), gone("src"),
]

PLUGINS = [
    Step("connector plugins", "GET", "/connector-plugins"),
    Step("connector plugins, said so", "GET", "/connector-plugins?connectorsOnly=true"),
    Step("connector plugins, trailing slash", "GET", "/connector-plugins/"),
    Step("connectorsOnly is empty", "GET", "/connector-plugins?connectorsOnly="),
    Step("connectorsOnly has no value", "GET", "/connector-plugins?connectorsOnly"),
    Step("connectorsOnly is no boolean", "GET", "/connector-plugins?connectorsOnly=maybe"),
    Step("all plugins", "GET", "/connector-plugins?connectorsOnly=false"),
    Step("post", "POST", "/connector-plugins", {}),
    Step("a plugin alone", "GET", "/connector-plugins/FileStreamSource"),
    Step("config of a source", "GET", f"/connector-plugins/{SOURCE}/config"),
    Step("config by alias", "GET", "/connector-plugins/FileStreamSink/config"),
    Step("config of a version", "GET", "/connector-plugins/FileStreamSink/config?version=4.3.1"),
    Step("config of an unknown version", "GET", "/connector-plugins/FileStreamSink/config?version=0.0.1"),
    Step("config of a converter", "GET", "/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config"),
    Step("config of an unknown plugin", "GET", "/connector-plugins/Nope/config"),
    Step("validate source", "PUT", f"/connector-plugins/{SOURCE}/config/validate", source(name="v")),
    Step("validate by alias", "PUT", "/connector-plugins/FileStreamSource/config/validate", source(name="v")),
    Step("validate by simple name", "PUT", "/connector-plugins/FileStreamSourceConnector/config/validate",
         source(name="v", tasks_max="0")),
    Step("validate another type", "PUT", "/connector-plugins/FileStreamSink/config/validate", source(name="v")),
    Step("validate without a class", "PUT", "/connector-plugins/FileStreamSink/config/validate", {"name": "v"}),
    Step("validate an unknown class", "PUT", "/connector-plugins/Nope/config/validate", {"connector.class": "Nope"}),
    Step("validate null", "PUT", "/connector-plugins/FileStreamSink/config/validate", raw="null"),
    Step("validate nothing", "PUT", "/connector-plugins/FileStreamSink/config/validate", raw=""),
    Step("validate a list", "PUT", "/connector-plugins/FileStreamSink/config/validate", raw="[]"),
    Step("validate a null value", "PUT", "/connector-plugins/FileStreamSource/config/validate", source(file=None)),
    Step("get validate", "GET", "/connector-plugins/FileStreamSink/config/validate"),
]

LOGGERS = [
    Step("loggers", "GET", "/admin/loggers"),
    Step("unknown logger", "GET", "/admin/loggers/no.such.logger"),
    Step("no level", "PUT", "/admin/loggers/golden.log", {}),
    Step("null level", "PUT", "/admin/loggers/golden.log", {"level": None}),
    Step("bad level", "PUT", "/admin/loggers/golden.log", {"level": "LOUD"}),
    Step("empty level", "PUT", "/admin/loggers/golden.log", {"level": ""}),
    Step("level is an object", "PUT", "/admin/loggers/golden.log", {"level": {}}),
    Step("level is a number", "PUT", "/admin/loggers/golden.log", {"level": 3}),
    Step("null body", "PUT", "/admin/loggers/golden.log", raw="null"),
    Step("no body", "PUT", "/admin/loggers/golden.log", raw=""),
    Step("list body", "PUT", "/admin/loggers/golden.log", raw="[]"),
    Step("set", "PUT", "/admin/loggers/golden.log", {"level": "debug"}),
    Step("the set logger", "GET", "/admin/loggers/golden.log"),
    Step("level with spaces around", "PUT", "/admin/loggers/golden.log", {"level": " debug "}),
    Step("set a child", "PUT", "/admin/loggers/golden.log.child", {"level": "WARN", "more": "x"}),
    Step("set both", "PUT", "/admin/loggers/golden.log", {"level": "ERROR"}),
    Step("the child now", "GET", "/admin/loggers/golden.log.child"),
    Step("set again", "PUT", "/admin/loggers/golden.log", {"level": "error"}),
    Step("worker scope", "PUT", "/admin/loggers/golden.log?scope=worker", {"level": "INFO"}),
    Step("unknown scope", "PUT", "/admin/loggers/golden.log?scope=galaxy", {"level": "INFO"}),
    Step("cluster scope", "PUT", "/admin/loggers/golden.cluster?scope=CLUSTER", {"level": "TRACE"}),
    Step("cluster scope took effect", "GET", "/admin/loggers/golden.cluster", until={"level": "TRACE"}),
    Step("cluster scope, bad level", "PUT", "/admin/loggers/golden.cluster?scope=cluster", {"level": "LOUD"}),
    Step("level off", "PUT", "/admin/loggers/golden.off", {"level": "OFF"}),
    Step("level all", "PUT", "/admin/loggers/golden.off", {"level": "all"}),
    Step("level fatal", "PUT", "/admin/loggers/golden.off", {"level": "FATAL"}),
    Step("delete a logger", "DELETE", "/admin/loggers/golden.log"),
    Step("put all loggers", "PUT", "/admin/loggers", {"level": "INFO"}),
]

INTERNAL = [
    create("src", source()),
    running("src"),
    Step("tasks unsigned", "POST", "/connectors/src/tasks", []),
    Step("tasks of a missing connector unsigned", "POST", "/connectors/a/tasks", []),
    Step("fence unsigned", "PUT", "/connectors/src/fence"),
    Step("fence of a missing connector unsigned", "PUT", "/connectors/a/fence"),
    Step("tasks forged", "POST", "/connectors/src/tasks", [], signature=FORGED),
    Step("fence forged", "PUT", "/connectors/src/fence", signature=FORGED),
    Step("only the algorithm", "POST", "/connectors/src/tasks", [],
         headers={"X-Connect-Request-Signature-Algorithm": "HmacSHA256"}),
    Step("only the signature", "POST", "/connectors/src/tasks", [], headers={"X-Connect-Authorization": "AAAA"}),
    Step("unknown algorithm", "POST", "/connectors/src/tasks", [], headers={
        "X-Connect-Authorization": "AAAA", "X-Connect-Request-Signature-Algorithm": "Rot13"}),
    Step("known algorithm, not allowed", "POST", "/connectors/src/tasks", [], headers={
        "X-Connect-Authorization": "AAAA", "X-Connect-Request-Signature-Algorithm": "HmacSHA512"}),
    Step("signature not base64", "POST", "/connectors/src/tasks", [], headers={
        "X-Connect-Authorization": "!!", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}),
    Step("bad body", "POST", "/connectors/src/tasks", raw="nonsense"),
    Step("object body", "POST", "/connectors/src/tasks", raw="{}"),
    Step("null body", "POST", "/connectors/src/tasks", raw="null"),
    Step("no body", "POST", "/connectors/src/tasks", raw=""),
    Step("strings in the list", "POST", "/connectors/src/tasks", raw='["x"]'),
    Step("tasks of a missing connector signed", "POST", "/connectors/a/tasks", [], signature=SIGNED),
    Step("fence of a missing connector signed", "PUT", "/connectors/a/fence", signature=SIGNED),
    Step("fence signed", "PUT", "/connectors/src/fence", signature=SIGNED),
    Step("tasks signed", "POST", "/connectors/src/tasks", [{"task.class": "x", "file": "/dev/null"}], signature=SIGNED),
    Step("tasks without a content type", "POST", "/connectors/src/tasks", raw="[]", headers={"Content-Type": ""}),
    Step("tasks as text", "POST", "/connectors/src/tasks", raw="[]", headers={"Content-Type": "text/plain"}),
    Step("fence as text", "PUT", "/connectors/src/fence", raw="x", headers={"Content-Type": "text/plain"}),
    delete("src"), gone("src"),
]

SCENARIOS = {
    "root": ROOT, "missing": MISSING, "life": LIFE, "create": CREATE, "bodies": BODIES, "offsets": OFFSETS,
    "initial_offsets": INITIAL_OFFSETS, "topics": TOPICS, "plugins": PLUGINS, "loggers": LOGGERS, "internal": INTERNAL,
}
