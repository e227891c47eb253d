from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import zipfile
from functools import partial

import pytest

from spark_tasks.errors import ConfigError
from spark_tasks.plugins import Kind, PluginNotFoundError, Plugins, PluginVersionError
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.plugins.discovery import Found

CONNECTOR = """
    from spark_tasks.plugins.api import SourceConnector
    from spark_tasks.config.definition import ConfigDef

    class {name}(SourceConnector):
        version = "1.2"
        config_def = ConfigDef()
        aliases = ("com.acme.{name}",)

        def task_configs(self, max_tasks):
            return [{{}}]

        @classmethod
        def data_source(cls, options):
            raise NotImplementedError
"""


def source(name, text=CONNECTOR):
    return textwrap.dedent(text).format(name=name)


@pytest.fixture
def folder(tmp_path):
    """A plugin folder."""
    return tmp_path


def registry(folder, installed=()):
    return Plugins([str(folder)], installed=installed)


def test_a_module_in_a_folder_is_found_by_all_its_names(folder):
    (folder / "acme_one.py").write_text(source("OneSourceConnector"))
    plugins = registry(folder)
    cls = plugins.connector("acme_one.OneSourceConnector")
    assert issubclass(cls, SourceConnector)
    for name in ("OneSourceConnector", "OneSource", "acme_one:OneSourceConnector", "com.acme.OneSourceConnector"):
        assert plugins.connector(name) is cls, name
    assert [(i.class_name, i.kind, i.version, i.location) for i in plugins.all()] == [
        ("acme_one.OneSourceConnector", "source", "1.2", str(folder))]


def test_plugins_are_not_imported_before_they_are_requested(folder):
    (folder / "acme_lazy.py").write_text("raise SystemError('imported')\n" + source("LazyConnector"))
    plugins = registry(folder)
    assert plugins.names(Kind.CONNECTOR) == ["acme_lazy.LazyConnector"]
    assert not any(name.endswith("acme_lazy") for name in sys.modules)


def test_packages_subfolders_and_wheels_are_searched_for_plugins(folder):
    package = folder / "acme_pack" / "inner"
    package.mkdir(parents=True)
    (folder / "acme_pack" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text(source("DeepConnector"))
    (folder / "some-plugin").mkdir()
    (folder / "some-plugin" / "acme_below.py").write_text(source("BelowConnector"))
    (folder / "no_package").mkdir()
    (folder / "no_package" / "acme_plain.py").write_text(source("PlainConnector"))
    with zipfile.ZipFile(folder / "acme_whl-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("acme_whl.py", source("WheelConnector"))
        wheel.writestr("acme_whl-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme-whl\nVersion: 1\n")
        wheel.writestr("acme_whl-1.dist-info/entry_points.txt",
                       "[heeler.connectors]\nacme-wheel = acme_whl:WheelConnector\n")
    plugins = registry(folder)
    assert plugins.names(Kind.CONNECTOR) == [
        "acme_below.BelowConnector", "acme_pack.inner.deep.DeepConnector", "acme_plain.PlainConnector",
        "acme_whl.WheelConnector"]
    assert plugins.connector("acme-wheel").__name__ == "WheelConnector"
    assert plugins.connector("Deep").__name__ == "DeepConnector"
    assert plugins.connector("Below").__name__ == "BelowConnector"


def test_entry_points_of_a_folder_take_precedence_over_its_source(folder):
    (folder / "acme_dist.py").write_text(source("PublicConnector") + source("InternalConnector"))
    info = folder / "acme-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "RECORD").write_text("acme_dist.py,,\nacme-1.dist-info/METADATA,,\n")
    (info / "entry_points.txt").write_text("[heeler.connectors]\ncom.acme.Shown = acme_dist:PublicConnector\n")
    plugins = registry(folder)
    assert plugins.names(Kind.CONNECTOR) == ["com.acme.Shown"]
    assert plugins.connector("Shown") is plugins.connector("com.acme.Shown")
    assert plugins.connector("acme_dist.PublicConnector") is plugins.connector("Shown")


def test_a_plugin_that_cannot_be_imported_breaks_no_other(folder, caplog):
    (folder / "acme_bad.py").write_text("import no_such_module_at_all\n" + source("BadConnector"))
    (folder / "acme_good.py").write_text(source("GoodConnector"))
    (folder / "acme_garbage.py").write_text("class (:\n")
    plugins = registry(folder)
    assert [i.class_name for i in plugins.all()] == ["acme_good.GoodConnector"]
    assert [i.class_name for i in plugins.all()] == ["acme_good.GoodConnector"]
    warnings = [r.getMessage() for r in caplog.records]
    assert sum("acme_bad.BadConnector" in w and "no_such_module_at_all" in w for w in warnings) == 1
    assert any("acme_garbage.py" in w for w in warnings)
    with pytest.raises(PluginNotFoundError, match=r"cannot be imported: .*no_such_module_at_all"):
        plugins.connector("acme_bad.BadConnector")


def test_a_missing_folder_is_a_warning(tmp_path, caplog):
    assert registry(tmp_path / "nowhere").all() == []
    assert "is not a folder" in caplog.text


@pytest.fixture
def versions(folder):
    """Of one connector: 1.2, 1.10 and one that does not say which it is; 2.0 cannot be imported."""
    for place, version in (("a", '"1.2"'), ("b", '"1.10"'), ("c", "None"), ("d", "1 / 0")):
        (folder / place).mkdir()
        (folder / place / "acme_many.py").write_text(source("ManyConnector").replace('"1.2"', version))
    return registry(folder)


@pytest.mark.parametrize(("asked", "version"), [
    (None, "1.10"), ("", "1.10"), ("latest", "1.10"), ("1.2", "1.2"), ("[1.0,1.10)", "1.2"), ("(1.2,)", "1.10"),
])
def test_the_newest_matching_version_is_used(versions, asked, version):
    found = versions.find(Kind.CONNECTOR, "ManyConnector", asked)
    assert found.version == version
    assert versions.connector_of({"connector.class": "Many", "connector.plugin.version": asked}) == found
    assert versions.get(Kind.CONNECTOR, "com.acme.ManyConnector", asked).version == version


def test_a_missing_version_is_reported(versions):
    text = r"^Plugin acme_many.ManyConnector not found that matches the version range \[2.0,2.0\], available versions: "
    with pytest.raises(PluginVersionError, match=text + r"\[undefined, 1.2, 1.10\]$"):
        versions.find(Kind.CONNECTOR, "Many", "2.0")
    with pytest.raises(ConfigError, match="Invalid version range"):
        versions.find(Kind.CONNECTOR, "Many", "[2.0")
    assert versions.connector_type({"connector.class": "Many", "connector.plugin.version": "[2.0"}) == "unknown"


def test_each_version_is_listed(versions):
    assert [info.version for info in versions.of_kind(Kind.CONNECTOR)] == [None, "1.2", "1.10"]


def test_an_ambiguous_simple_name_is_reported(folder):
    (folder / "acme_a.py").write_text(source("TwinConnector"))
    (folder / "acme_b.py").write_text(source("TwinConnector"))
    plugins = registry(folder)
    with pytest.raises(PluginNotFoundError, match=r"^More than one connector matches alias Twin. Please use full"):
        plugins.connector("Twin")
    assert plugins.connector("acme_b.TwinConnector").__module__.endswith(".acme_b")


@pytest.mark.parametrize("name", ["elsewhere.ElsewhereConnector", "elsewhere:ElsewhereConnector",
                                  "elsewhere.Anything", "tests.rigs.task_plugins.NumbersConnector", "antigravity.x"])
def test_modules_named_as_plugins_are_not_imported(folder, monkeypatch, name):
    (folder / "elsewhere.py").write_text(f"import pathlib; pathlib.Path({str(folder / 'ran')!r}).touch()\n"
                                         + source("ElsewhereConnector"))
    monkeypatch.syspath_prepend(folder)
    plugins = Plugins()
    for kind in Kind:
        with pytest.raises(PluginNotFoundError):
            plugins.find(kind, name)
        assert not plugins.exists(kind, name)
    assert plugins.search(name) is None
    assert not (folder / "ran").exists()


AT_START = "The worker finds plugins when it starts, in installed packages and the folders of plugin.path: restart "


def test_only_the_names_of_connectors_have_to_be_exact():
    """As in Kafka Connect, where `connector.class` is a string, and all others are classes."""
    plugins = Plugins()
    assert plugins.find(Kind.CONVERTER, " JsonConverter\t")
    assert plugins.exists(Kind.CONVERTER, " JsonConverter\t")
    assert not plugins.exists(Kind.CONNECTOR, "FileStreamSource ")


def test_an_unknown_class_lists_the_known_ones(folder):
    (folder / "acme_known.py").write_text(source("KnownConnector") + source("OtherSinkConnector"))
    with pytest.raises(PluginNotFoundError) as caught:
        registry(folder).connector("Nope")
    assert str(caught.value) == (
        "Failed to find any class that implements Connector and which name matches Nope, available connectors are: "
        "acme_known.KnownConnector, acme_known.OtherSinkConnector\n"
        f"{AT_START}the worker if this one was installed later.")


SMT = "org.apache.kafka.connect.transforms."
FILE, JAVA = "org.apache.kafka.connect.file.FileStream", "of Java Kafka Connect is not built in"


@pytest.mark.parametrize(("kind", "name", "help_"), [
    (Kind.CONNECTOR, "FileStreamSorce", "Did you mean FileStreamSource or FilesSource or FileStreamSink?"),
    (Kind.CONNECTOR, f"{FILE}SorceConnector", "Did you mean FileStreamSourceConnector or Files"),
    (Kind.CONNECTOR, "datagn", "Did you mean datagen?"),
    (Kind.TRANSFORMATION, "InsertField$Value", f"Did you mean {SMT}InsertField$Value?"),
    (Kind.TRANSFORMATION, f"{SMT}InsertFeild$Value", f"Did you mean {SMT}InsertField$Value or {SMT}HoistField$Value"),
    (Kind.TRANSFORMATION, "Cast", f"Did you mean {SMT}Cast$Value or {SMT}Cast$Key?"),
    (Kind.TRANSFORMATION, f"{SMT}MaskField", f"Did you mean {SMT}MaskField$Value or {SMT}MaskField$Key?"),
    (Kind.CONVERTER, "JsonConvertor", "Did you mean JsonConverter or LongConverter or JsonSchemaConverter?"),
    (Kind.CONNECTOR, " FileStreamSource ", "Did you mean FileStreamSource or"),
    (Kind.CONNECTOR, "Nothing like it", ""),
    (Kind.CONNECTOR, "", ""),
    (Kind.CONNECTOR, "x" * 10_000, ""),
    (Kind.CONNECTOR, "StringConverter",
     "org.apache.kafka.connect.storage.StringConverter is a Converter, not a Connector."),
    (Kind.CONNECTOR, "io.debezium.connector.mysql.MySqlConnector",
     f"io.debezium.connector.mysql.MySqlConnector {JAVA}. Its jars run unchanged"),
    (Kind.CONNECTOR, "io.confluent.connect.jdbc.JdbcSourceConnector",
     f"io.confluent.connect.jdbc.JdbcSourceConnector {JAVA}: `pyspark-source` can run a PySpark"),
    (Kind.CONNECTOR, "JdbcSink", f"JdbcSink {JAVA}: `pyspark-sink` can run a PySpark"),
    (Kind.CONNECTOR, "io.confluent.kafka.connect.datagen.DatagenConnector",
     f"io.confluent.kafka.connect.datagen.DatagenConnector {JAVA}: use `datagen`"),
    (Kind.CONNECTOR, "S3SinkConnector", f"S3SinkConnector {JAVA}: `parquet` writes files into a folder"),
    (Kind.CONVERTER, "io.apicurio.registry.utils.converter.ProtobufConverter",
     f"io.apicurio.registry.utils.converter.ProtobufConverter {JAVA}: use `io.confluent.connect.protobuf"),
    (Kind.TRANSFORMATION, "io.debezium.transforms.ExtractNewRecordState",
     f"io.debezium.transforms.ExtractNewRecordState {JAVA}. Its jars run unchanged"),
])
def test_the_error_for_an_unknown_class_helps(kind, name, help_):
    with pytest.raises(PluginNotFoundError) as caught:
        Plugins().find(kind, name)
    first, *more = str(caught.value).splitlines()
    assert first.startswith(f"Failed to find any class that implements {kind.interface} and which name matches {name}")
    assert "PluginDesc" not in first
    assert len(more) == (2 if help_ else 1)
    assert more[0].startswith(help_)
    assert more[-1].startswith(AT_START)


@pytest.mark.parametrize("name", ["InsertField$Value", "InsertField", "RegexRoutr", "insertfield$value"])
def test_suggested_names_work(name):
    plugins = Plugins()
    line = plugins.advice(Kind.TRANSFORMATION, name).splitlines()[0]
    for suggested in line.removeprefix("Did you mean ").removesuffix("?").split(" or "):
        assert plugins.find(Kind.TRANSFORMATION, suggested)


def test_the_connector_type_follows_from_the_config(folder):
    (folder / "acme_typed.py").write_text(source("TypedConnector"))
    plugins = registry(folder)
    assert plugins.connector_type({"connector.class": "Typed"}) == "source"
    assert plugins.connector_type({"connector.class": "Nope"}) == "unknown"
    assert plugins.connector_type({"connector.class": "Typed", "connector.plugin.version": "1" * 5000}) == "unknown"
    assert plugins.connector_type({}) == "unknown"
    assert plugins.connector_type(None) == "unknown"


def test_the_registry_can_be_pickled_for_executors(folder):
    (folder / "acme_far.py").write_text(source("FarConnector"))
    copy = pickle.loads(pickle.dumps(registry(folder)))
    assert copy.plugin_path == (str(folder),)
    assert copy.connector("Far").__name__ == "FarConnector"


def test_nested_java_classes_have_no_short_names():
    found = [Found("org.x.Cast$Value", Kind.TRANSFORMATION, "pathlib:Path", "classpath"),
             Found("org.x.Cast$Key", Kind.TRANSFORMATION, "pathlib:PurePath", "classpath")]
    plugins = Plugins(installed=found)
    assert plugins.find(Kind.TRANSFORMATION, "org.x.Cast$Key").name == "org.x.Cast$Key"
    with pytest.raises(PluginNotFoundError):
        plugins.find(Kind.TRANSFORMATION, "Cast$Key")


def test_two_names_may_refer_to_one_class():
    names = ["org.x.Cast$Key", "org.x.Cast$Value"]
    plugins = Plugins(installed=[Found(n, Kind.TRANSFORMATION, "pathlib:Path", "classpath") for n in names])
    assert [plugins.find(Kind.TRANSFORMATION, n).name for n in names] == names


def test_importing_the_registry_is_cheap():
    """Neither PySpark nor any plugin: executors and the command line import it too."""
    code = ("import sys, spark_tasks.plugins as p; known = p.Plugins().names(p.Kind.CONNECTOR); "
            "print([m for m in sys.modules if m in ('pyspark', 'numba', 'pyarrow', 'pandas')])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_error_for_an_unknown_plugin_lists_what_cannot_be_read(folder):
    (folder / "acme_typo.py").write_text(source("TypoConnector").replace("(SourceConnector):", "(SourceConnector)"))
    plugins = Plugins([str(folder), str(folder / "gone")], installed=())
    with pytest.raises(PluginNotFoundError, match=r"^Failed to find any class that implements Connector ") as caught:
        plugins.connector("TypoConnector")
    assert f"could not read {folder}/acme_typo.py: expected ':' (acme_typo.py, line 5)" in str(caught.value)
    assert f"{folder}/gone is not a folder" in str(caught.value)


def test_the_error_for_a_source_without_columns_says_so(folder):
    (folder / "acme_bare.py").write_text(
        "from heeler import source\n\n@source\ndef Bare(options, start):\n    return [], {}\n")
    with pytest.raises(PluginNotFoundError, match=r"acme_bare\.Bare .* cannot be imported: @source needs the schema"):
        registry(folder).connector("Bare")


@pytest.mark.parametrize("function", [
    "def Odd(options, start):\n    yield 1\n", "async def Odd(options, start):\n    return [], {}\n",
    "async def Odd(options, start):\n    yield 1\n",
])  # fmt: skip
def test_the_error_for_a_source_that_returns_no_two_values_says_so(folder, function):
    (folder / "acme_odd.py").write_text(f"from heeler import source\n\n@source('n int')\n{function}")
    with pytest.raises(PluginNotFoundError, match=r"acme_odd\.Odd .* cannot be imported: @source: Odd must return two"):
        registry(folder).connector("Odd")


def test_the_error_for_a_module_that_exits_names_its_line(folder):
    (folder / "acme_exit.py").write_text("import sys\n\nsys.exit(7)\n" + source("ExitConnector"))
    with pytest.raises(PluginNotFoundError, match=r"the plugin raised SystemExit: 7 \(acme_exit\.py, line 3\)$"):
        registry(folder).connector("ExitConnector")


MISTAKES = """
    from heeler import ConfigDef, ConfigKey, SinkConnector, SourceConnector, Type, source
    from spark_tasks.pipeline.transforms.base import Transform

    class DefaultConnector(SourceConnector):
        config_def = ConfigDef(ConfigKey("n", Type.INT, default="soon"))

    class TypeTransform(Transform):
        config_def = ConfigDef(ConfigKey("n", "int"))

    class TwiceConnector(SourceConnector):
        config_def = ConfigDef(ConfigKey("n", Type.INT), ConfigKey("n", Type.INT))

    class ShapeConnector(SinkConnector):
        accepts = "row"
        config_def = ConfigDef()

    class NoneTransform(Transform):
        aliases = None

    class TextTransform(Transform):
        aliases = "com.acme.Foo"

    class MixedTransform(Transform):
        aliases = ("com.acme.Mixed", 1)

    class LongTransform(Transform):
        version = "1" * 5000

    class RaisingTransform(Transform):
        version = type("Version", (), {"__str__": lambda self: 1 / 0})()

    @source("name strin")
    def Schema(options, start):
        return [], {}

    class GoodConnector(SourceConnector):
        config_def = ConfigDef()

        @classmethod
        def data_source(cls, options):
            raise NotImplementedError
"""


WRONG_N = "the definition of configuration n is wrong:"


@pytest.mark.parametrize(("kind", "name", "message"), [
    (Kind.CONNECTOR, "DefaultConnector", f"{WRONG_N} Invalid value soon for configuration n: Not a number of type INT"),
    (Kind.TRANSFORMATION, "TypeTransform",
     f"{WRONG_N} its type is 'int'; it must be a member of Type, such as Type.STRING"),
    (Kind.CONNECTOR, "TwiceConnector", "Configuration n is defined twice."),
    (Kind.CONNECTOR, "ShapeConnector", """ShapeConnector.accepts is 'row'; it must be "records" or "rows\""""),
    (Kind.TRANSFORMATION, "NoneTransform", "NoneTransform.aliases is None; it must be a tuple of strings"),
    (Kind.TRANSFORMATION, "TextTransform", "TextTransform.aliases is 'com.acme.Foo'; it must be a tuple of strings"),
    (Kind.TRANSFORMATION, "MixedTransform",
     "MixedTransform.aliases is ('com.acme.Mixed', 1); it must be a tuple of strings"),
    (Kind.TRANSFORMATION, "LongTransform",
     "Invalid version '11111111111111111111...': a number in it has more than 100 digits"),
    (Kind.TRANSFORMATION, "RaisingTransform", "ZeroDivisionError: division by zero (acme_many.py, line 31)"),
    (Kind.CONNECTOR, "Schema",
     "@source: the schema 'name strin' cannot be parsed near 'name strin': unknown type strin"),
])
def test_one_class_with_a_mistake_hides_no_other_of_its_module(folder, kind, name, message):
    (folder / "acme_many.py").write_text(textwrap.dedent(MISTAKES))
    plugins = registry(folder)
    assert [i.class_name for i in plugins.all()] == ["acme_many.GoodConnector"]
    with pytest.raises(PluginNotFoundError) as caught:
        plugins.find(kind, name)
    assert str(caught.value) == f"Plugin acme_many.{name} (acme_many:{name}) cannot be imported: {message}"
    assert plugins.get(kind, "com.acme.Fo") is None, "which asks for the aliases of all"


def test_a_java_plugin_with_an_absurd_version_hides_no_other():
    java = {Found(name, Kind.CONNECTOR, f"java:{name}", "plugin.path"): partial(type, name, (), {"version": version})
            for name, version in (("com.acme.Bad", "1" * 5000), ("com.acme.Good", "1.0"))}
    plugins = Plugins(installed=(), others=java)
    assert [i.class_name for i in plugins.all()] == ["com.acme.Good"]
    with pytest.raises(PluginNotFoundError, match=r"cannot be imported: Invalid version '1{20}\."):
        plugins.connector("com.acme.Bad")


def test_the_error_for_a_module_that_raises_names_its_line(folder):
    (folder / "acme_inner.py").write_text("\n\ndef check():\n    raise ValueError('soon')\n")
    (folder / "acme_raises.py").write_text("import acme_inner\nacme_inner.check()\n" + source("RaisesConnector"))
    with pytest.raises(PluginNotFoundError) as caught:
        registry(folder).connector("Raises")
    assert str(caught.value) == ("Plugin acme_raises.RaisesConnector (acme_raises:RaisesConnector) cannot be imported: "
                                 "ValueError: soon (acme_inner.py, line 4)")


def test_a_module_that_exits_hides_no_other(folder):
    """Otherwise a list of the plugins would end the worker's REST server, which takes it as a request to stop."""
    (folder / "acme_script.py").write_text(source("ScriptConnector") + "\nimport sys\nsys.exit(3)\n")
    (folder / "acme_good.py").write_text(source("GoodConnector"))
    plugins = registry(folder)
    assert [i.class_name for i in plugins.all()] == ["acme_good.GoodConnector"]
    with pytest.raises(PluginNotFoundError, match="cannot be imported: the plugin raised SystemExit: 3"):
        plugins.connector("Script")
