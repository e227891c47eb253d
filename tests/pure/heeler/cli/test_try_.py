"""`heeler try`: records after each stage, without Kafka."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from heeler.cli.support.records_text import record_line

LINES = "org.apache.kafka.connect.file.FileStream{}Connector"
TRANSFORMS = """
transforms: route,hoist
transforms.route.type: org.apache.kafka.connect.transforms.RegexRouter
transforms.route.regex: (.*)
transforms.route.replacement: new-$1
transforms.hoist.type: org.apache.kafka.connect.transforms.HoistField$Value
transforms.hoist.field: line
transforms.hoist.predicate: old
transforms.hoist.negate: true
predicates: old
predicates.old.type: org.apache.kafka.connect.transforms.predicates.TopicNameMatches
predicates.old.pattern: old.*
"""


def run(file, *words, code=0):
    done = CliRunner().invoke(main, ["try", str(file), *map(str, words)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    assert logging.getLogger().isEnabledFor(logging.WARNING), "as before"
    return done


def stages(file, *words, code=0):
    return json.loads(run(file, *words, "-o", "json", code=code).stdout)["stages"]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"line {n}\n" for n in range(100)))
    file = tmp_path / "in.yaml"
    file.write_text(f"name: in\nconnector.class: {LINES.format('Source')}\ntopic: t\nfile: {tmp_path / 'in.txt'}\n"
                    f"value.converter: org.apache.kafka.connect.storage.StringConverter\n{TRANSFORMS}")
    return file


def test_a_source_stage_by_stage(source, tmp_path):
    before = sorted(tmp_path.iterdir())
    read, route, hoist, converted = stages(source, "--limit", "3")
    assert [len(stage["records"]) for stage in (read, route, hoist, converted)] == [3, 3, 3, 3]
    assert [(s["stage"], s["plugin"].rpartition(".")[2]) for s in (read, route, hoist)] == [
        ("read", "FileStreamSourceConnector"), ("transforms.route", "RegexRouter"),
        ("transforms.hoist", "HoistField$Value")]
    assert read["records"][0]["value"] == "line 0"
    assert route["records"][0]["topic"] == "new-t"
    assert "accepted" not in route
    assert (hoist["accepted"], hoist["records"][2]["value"]) == ([True] * 3, {"line": "line 2"})
    assert converted["stage"] == "converter"
    assert (converted["records"][1]["topic"], converted["records"][1]["value"]) == ("new-t", "Struct{line=line 1}")
    assert sorted(tmp_path.iterdir()) == before
    shown = run(source, "--limit", "1").stdout
    assert "its predicate accepted 1 of 1: yes" in shown


def test_a_predicate_leaves_records_as_they_are(source):
    source.write_text(source.read_text().replace("new-$1", "old-$1"))
    hoist = stages(source, "--limit", "2")[2]
    assert (hoist["accepted"], hoist["records"][0]["value"]) == ([False, False], "line 0")


def test_a_stage_that_fails_ends_the_trial(source):
    source.write_text(source.read_text().replace("HoistField$Value", "ExtractField$Value"))
    seen = stages(source, code=1)
    assert [stage["stage"] for stage in seen] == ["read", "transforms.route", "transforms.hoist"]
    assert "transforms.hoist" in seen[-1]["error"]
    assert "transforms.hoist" in run(source, code=1).stdout


def test_a_predicate_that_raises_is_the_error_of_its_transform(source, tmp_path):
    """It is found in a folder that only the connector's configuration names."""
    (tmp_path / "moody.py").write_text(
        "import heeler\n"
        "class Moody(heeler.Predicate):\n"
        "    def configure(self, configs): pass\n"
        "    def test(self, batch): raise ValueError('not today')\n")
    text = source.read_text().replace("predicates.old.pattern: old.*\n", f"plugin.path: {tmp_path}\n")
    source.write_text(text.replace("org.apache.kafka.connect.transforms.predicates.TopicNameMatches", "Moody"))
    seen = stages(source, code=1)
    assert [stage["stage"] for stage in seen] == ["read", "transforms.route", "transforms.hoist"]
    assert seen[-1]["error"].endswith(
        "HoistField$Value) cannot transform record new-t: ValueError: not today"), seen[-1]["error"]


def test_a_configuration_that_a_worker_would_refuse_is_refused(source, tmp_path):
    """All errors are reported before anything runs, including those of the plugin's own `validate`. A name is not
    needed.
    """
    source.write_text(source.read_text().replace("name: in\n", "").replace("topic: t\n", "tasks.max: none\n"))
    said = run(source, code=2).stderr
    assert said.startswith("heeler: The configuration is invalid:\n  ")
    for words in ("Invalid value none for configuration tasks.max", 'Missing required configuration "topic"'):
        assert words in said
    (tmp_path / "strict.py").write_text(
        "from spark_tasks.connectors.file_stream.source import FileStreamSourceConnector\n"
        "class Strict(FileStreamSourceConnector):\n"
        "    aliases = ()\n"
        "    @classmethod\n"
        "    def validate(cls, config):\n"
        "        return {'file': ['the file has moved']}\n")
    source.write_text(f"connector.class: Strict\nplugin.path: {tmp_path}\ntopic: t\nfile: {tmp_path / 'in.txt'}\n")
    assert run(source, code=2).stderr == "heeler: The configuration is invalid:\n  the file has moved\n"


def test_a_sink_gets_records_from_a_file_and_writes_nothing(tmp_path):
    out, records, file = tmp_path / "out.txt", tmp_path / "records", tmp_path / "out.properties"
    file.write_text(f"name=out\nconnector.class={LINES.format('Sink')}\ntopics=t\nfile={out}\n"
                    "value.converter.schemas.enable=false\n"
                    "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
                    "transforms=one\ntransforms.one.type=org.apache.kafka.connect.transforms.ExtractField$Value\n"
                    "transforms.one.field=a\n")
    records.write_text('{"value": {"a": 1, "b": "\\u001b[2J"}, "key": null}\n{"value": "{\\"a\\": 2}", "topic": "u"}\n')
    read, converted, one, write = stages(file, "--records", records)
    assert [record["topic"] for record in read["records"]] == ["t", "u"]
    assert converted["records"][0]["value"] == {"a": 1, "b": "\x1b[2J"}
    assert [record["value"] for record in one["records"]] == [1, 2]
    assert [(r["topic"], r["value"]) for r in write["records"]] == [("t", 1), ("u", 2)]
    assert "\x1b[2J" not in run(file, "--records", records).stdout
    assert not out.exists()
    records.write_text('{"value": {"a": "1\u2028\x85\x0c2"}}\r\n'.replace("\x0c", "\\f"), encoding="utf-8")
    assert [record["value"] for record in stages(file, "--records", records)[-1]["records"]] == ["1\u2028\x85\x0c2"]
    records.write_text('{"value": "{"}\n')
    [_, failed] = stages(file, "--records", records, code=1)
    assert "cannot be read by JsonConverter" in failed["error"]
    for wrong, words in (
            ("[1]", "not a JSON object"), ("{", "JSON object in each line"), ('{"value": 1, "offset": "x"}', "invalid"),
            ('{"value": 1, "headers": [1]}', "headers must be"), ('{"value": 1, "timestamp": "noon"}', "noon"),
            ('{"value": 1, "partition": 99999999999999999999}', "too large"), ("{}", "has no keys"),
            ('{"valeu": 1}', "record 1 has the keys valeu; allowed are value and, optionally, key, topic")):
        records.write_text(f"{wrong}\n")
        assert words in run(file, "--records", records, code=2).stderr


def test_a_sink_accepts_the_output_of_other_commands(tmp_path):
    """The output of `heeler topics read` and of `heeler run` for a source, including headers."""
    records, file = tmp_path / "records", tmp_path / "out.yaml"
    file.write_text(f"name: out\nconnector.class: {LINES.format('Sink')}\ntopics: t\nfile: {tmp_path / 'out.txt'}\n"
                    + "".join(f"{part}.converter: org.apache.kafka.connect.storage.StringConverter\n"
                              for part in ("key", "value")))
    at, milliseconds = "2026-11-22T18:00:00.123Z", 1795370400123
    read = record_line(1, {"offset": 5, "timestamp": milliseconds, "key": b"k", "value": b"v",
                           "headers": [{"key": "h", "value": b"1"}]})
    assert at in read
    run_ = {"topic": "t", "key": "k", "value": "v", "timestamp": milliseconds, "headers": [{"key": "h", "value": "1"}]}
    by_hand = {"value": "v", "key": "k", "timestamp": milliseconds, "headers": {"h": 1}}
    no_time = record_line(0, {"offset": 0, "timestamp": -1, "key": None, "value": b"v", "headers": None})
    records.write_text("".join(f"{line}\n" for line in (read, json.dumps(run_), json.dumps(by_hand), no_time)))
    given = stages(file, "--records", records)[0]["records"]
    assert [(r["key"], r["value"], r["timestamp"], r["headers"]) for r in given[:3]] == [
        ("k", "v", milliseconds, [{"key": "h", "value": "1"}])] * 3
    assert (given[0]["partition"], given[0]["offset"], given[3]["timestamp"]) == (1, 5, -1)


@pytest.mark.parametrize("command", ["try", "run"])
def test_plugin_folders_named_in_the_file_are_used(tmp_path, command):
    """They are added to those in the worker's file; files that cannot be read are named."""
    folder, file = tmp_path / "plugins", tmp_path / "c.yaml"
    folder.mkdir()
    (folder / "wrong.py").write_text("def x(:\n")
    (folder / "wrong.jar").write_bytes(b"PK, or not")
    (folder / "few.py").write_text("from heeler import source\n\n\n@source('n bigint')\ndef Few(options, start):\n"
                                   "    return [] if start else [(7,)], {'n': 1}\n")
    file.write_text(f"name: c\nconnector.class: NoSuchConnector\ntopic: t\nplugin.path: {folder}\n")
    runner = CliRunner()
    wrong = runner.invoke(main, [command, str(file)], catch_exceptions=False)
    assert wrong.exit_code == 2
    assert f"could not read {folder}/wrong.py: " in wrong.stderr
    assert f"could not read {folder}/wrong.jar: " in wrong.stderr
    assert "Plugins are looked for in installed packages, and in the folders of plugin.path" in wrong.stderr
    assert "restart the worker" not in wrong.stderr
    file.write_text(file.read_text().replace("NoSuchConnector", "Few"))
    done = runner.invoke(main, [command, str(file), *(["--once"] if command == "run" else [])], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert '"payload' in done.stdout.replace("\\", "")


TALKATIVE = """
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from heeler import ConfigDef, ConfigKey, SourceConnector, Type


class Reader(SimpleDataSourceStreamReader):
    def __init__(self, options):
        self.options = options

    def initialOffset(self):
        return {"n": 0}

    def read(self, start):
        if start["n"]:
            return iter([]), start
        print("logging in with", self.options["pin"], self.options["api.key"])
        if self.options["fails"]:
            raise ZeroDivisionError(f"no login with {self.options['pin']} or {self.options['api.key']}")
        return iter([(7,)]), {"n": 1}


class Talk(DataSource):
    def schema(self):
        return "n bigint"

    def simpleStreamReader(self, schema):
        return Reader(self.options)


class TalkativeSourceConnector(SourceConnector):
    yields = "rows"
    config_def = ConfigDef(ConfigKey("pin", Type.PASSWORD), ConfigKey("topic", Type.STRING))

    @classmethod
    def data_source(cls, options):
        return Talk(options)
"""


@pytest.mark.parametrize("command", ["try", "run"])
@pytest.mark.parametrize("fails", ["", "yes"])
def test_a_plugins_output_is_separate_and_without_secrets(tmp_path, command, fails):
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    file = tmp_path / "c.yaml"
    file.write_text(f"name: c\nconnector.class: TalkativeSource\ntopic: t\nplugin.path: {tmp_path}\npin: '97531864'\n"
                    f"api.key: hunter2hunter2\nfails: '{fails}'\n")
    words = ["-o", "json"] if command == "try" else ["--once"]
    done = CliRunner().invoke(main, [command, str(file), *words], catch_exceptions=False)
    assert done.exit_code == (1 if fails else 0)
    assert "logging in with [hidden] [hidden]\n" in done.stderr
    assert "97531864" not in done.output
    assert "hunter2" not in done.output
    if fails:
        where = done.stdout if command == "try" else done.stderr
        assert "no login with [hidden] or [hidden]" in where
    if command == "try" or not fails:
        json.loads(done.stdout)  # one document, or one record


def test_an_unknown_class_or_several_connectors_cannot_be_tried(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("name: c\nconnector.class: NoSuchConnector\n")
    assert "NoSuchConnector" in run(file, code=2).stderr
    file.write_text("- {name: a, connector.class: X}\n- {name: b, connector.class: X}\n")
    assert "one at a time" in run(file, code=2).stderr


@pytest.mark.parametrize("command", ["try", "run"])
@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise GeneratorExit"])
def test_a_source_that_ends_the_process_is_an_error_with_its_trace(tmp_path, command, ending):
    (tmp_path / "quits.py").write_text("import sys\nfrom heeler import source\n\n\n@source('n bigint')\n"
                                       f"def Quits(options, start):\n    {ending}\n")
    file = tmp_path / "c.yaml"
    file.write_text(f"name: c\nconnector.class: Quits\ntopic: t\nplugin.path: {tmp_path}\n")
    done = CliRunner().invoke(main, [command, str(file)])
    assert done.exit_code == 1
    assert f"    {ending}\n" in done.output
    assert "PluginExitError: the plugin raised " in done.output


THREADS = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from heeler import source

threading.Thread(target=time.sleep, args=(1e6,)).start()
ThreadPoolExecutor(1).submit(time.sleep, 1e6)

@source("n bigint")
def Watching(options, start):
    return [] if start else [(7,)], {"n": 1}
"""


@pytest.mark.integration  # processes of their own, which wait for five seconds
@pytest.mark.parametrize("words", [["try"], ["run", "--once"]])
def test_a_command_ends_though_threads_of_a_plugin_do_not(tmp_path, words):
    (tmp_path / "watching.py").write_text(THREADS)
    file = tmp_path / "c.yaml"
    file.write_text(f"name: c\nconnector.class: Watching\ntopic: t\nplugin.path: {tmp_path}\n")
    done = subprocess.run([sys.executable, "-m", "heeler", *words, str(file)], capture_output=True, text=True,
                          timeout=120, check=True)
    assert '"payload' in done.stdout.replace("\\", "")
