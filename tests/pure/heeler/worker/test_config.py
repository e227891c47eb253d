"""A worker's configuration: keys, sources, clients."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heeler.worker.config import WorkerConfig, from_environment, load_worker_config
from heeler.worker.keys.worker import WORKER_KEYS
from heeler.worker.part_settings import executor_settings
from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.config_providers import ConfigTransformer
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.worker_configs import BASE, with_


def make(**changes):
    return WorkerConfig.of(BASE | {k.replace("_", "."): v for k, v in changes.items()})


def test_defaults_are_kafka_connects():
    config = make()
    expected = {
        "session.timeout.ms": 10000, "heartbeat.interval.ms": 3000, "rebalance.timeout.ms": 60000,
        "worker.sync.timeout.ms": 3000, "worker.unsync.backoff.ms": 300000, "config.storage.replication.factor": 3,
        "offset.storage.partitions": 25, "status.storage.partitions": 5, "connect.protocol": "sessioned",
        "scheduled.rebalance.max.delay.ms": 300000, "inter.worker.key.ttl.ms": 3600000,
        "inter.worker.verification.algorithms": ["HmacSHA256"], "inter.worker.key.size": None,
        "exactly.once.source.support": "disabled", "task.shutdown.graceful.timeout.ms": 5000,
        "offset.flush.interval.ms": 60000, "offset.flush.timeout.ms": 5000, "plugin.path": None,
        "connector.client.config.override.policy": "All", "topic.creation.enable": True,
        "listeners": ["http://:8083"], "admin.listeners": None, "request.timeout.ms": 40000,
        "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    }
    assert {k: config[k] for k in expected} == expected
    assert config.bootstrap_servers == "b1:9092,b2:9092"
    assert (config.exactly_once, config.transactional_leader) == (False, False)


def test_every_key_is_explained():
    assert [k.name for k in WORKER_KEYS.keys.values() if len(k.doc) < 10] == []


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("session.timeout.ms", "soon", "INT"),
        ("session.timeout.ms", "0", "at least 1"),
        ("heartbeat.interval.ms", "10000", "lower than session.timeout.ms (10000)"),
        ("offset.storage.partitions", "0", "a positive number, or -1"),
        ("config.storage.replication.factor", "-2", "a positive number up to the number of brokers, or -1"),
        ("connect.protocol", "lazy", "eager, compatible, sessioned"),
        ("exactly.once.source.support", "maybe", "DISABLED, PREPARING, ENABLED"),
        ("listeners", "ftp://h:1", "http://HOST:PORT"),
        ("listeners", "http://h", "http://HOST:PORT"),
        ("listeners", "http://h:70000", "at most 65535"),
        ("listeners", "", "one or more of"),
        ("admin.listeners", "h:1", "empty (none)"),
        ("rest.advertised.port", "99999", "from 1 to 65535"),
        ("rest.advertised.listener", "ftp", "http or https"),
        ("response.http.headers.config", "remove X:1", "set|add|setDate|addDate"),
        ("response.http.headers.config", "setDate X: soon", "milliseconds from now"),
        ("access.control.allow.origin", "(", "patterns"),
        ("inter.worker.signature.algorithm", "Rot13", "HmacSHA256"),
        ("inter.worker.signature.algorithm", "HmacSHA512", "inter.worker.verification.algorithms"),
        ("inter.worker.verification.algorithms", "HmacNone", "one or more of"),
        ("topic.creation.enable", "yes", "either true or false"),
        ("security.protocol", "TLS", "SASL_SSL"),
        ("group.id", "", "a name"),
        ("heeler.log.level", "LOUD", "DEBUG"),
        ("spark.master", "sc://h:15002", "unset, local, local[N], spark://HOST:PORT, k8s://URL or yarn"),
        ("spark.master", "spark://h", "spark://HOST:PORT"),
        ("spark.master", "spark://h:7077", "set spark.authenticate=false if nobody else"),
        ("ssl.client.auth", "never", "required, requested, none"),
        ("connector.client.config.override.policy", "com.acme.Mine", "does not support custom policy classes"),
    ],
)
def test_a_bad_value_names_key_value_and_what_is_allowed(key, value, allowed):
    with pytest.raises(ConfigError) as error:
        with_({key: value})
    message = str(error.value)
    assert key in message
    assert value in message
    assert allowed in message


def test_all_errors_are_reported_together_without_secrets():
    with pytest.raises(ConfigError) as error:
        WorkerConfig.of({"session.timeout.ms": "x", "offset.flush.timeout.ms": "y"})
    message = str(error.value)
    assert all(k in message for k in ("group.id", "session.timeout.ms", "offset.flush.timeout.ms", "key.converter"))


def test_the_workers_own_clients_get_unknown_settings():
    config = with_({
        "security.protocol": "SASL_SSL", "sasl.jaas.config": "j", "client.id": "w", "retry.backoff.ms": "7",
        "producer.linger.ms": "5", "admin.listeners": "http://:1", "max.request.size": "99",
    })
    assert config.client() == {
        "bootstrap.servers": "b1:9092,b2:9092", "security.protocol": "SASL_SSL", "sasl.jaas.config": "j",
        "retry.backoff.ms": "7", "client.id": "w", "max.request.size": "99",
    }


def test_overrides_precede_the_environment_and_the_file(tmp_path):
    file = tmp_path / "w.properties"
    lines = [f"{k} = {v}" for k, v in BASE.items()]
    file.write_text("\n".join([*lines, "! comment", "spark.app.name=f\\u00fcr \\", "  alle", "retry.backoff.ms=1"]))
    env = {"CONNECT_RETRY_BACKOFF_MS": "2", "CONNECT_GROUP_ID": "env", "PATH": "x"}
    config = load_worker_config(file, ["group.id=cli", "producer.a=b=c"], env)
    assert config.prefixed("spark.") == {"app.name": "für alle"}
    assert (config.group_id, config["retry.backoff.ms"]) == ("cli", 2)
    assert config.originals["producer.a"] == "b=c"
    for bad in ("group.id", "=x"):
        with pytest.raises(ConfigError, match="must be KEY=VALUE"):
            load_worker_config(file, [bad])
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_worker_config(tmp_path / "none")


def test_a_file_may_be_latin_1_or_utf_8(tmp_path):
    lines = "\n".join([*(f"{k}={v}" for k, v in BASE.items()), "spark.app.name=caf\u00e9"])
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        file = tmp_path / encoding
        file.write_text(lines, encoding=encoding)
        assert load_worker_config(file).prefixed("spark.") == {"app.name": "caf\u00e9"}


def test_errors_name_the_file_and_the_misspelled_key(tmp_path):
    file = tmp_path / "w.properties"
    file.write_text("\n".join(f"{k}={v}" for k, v in BASE.items()).replace("group.id", "gruop.id"))
    with pytest.raises(ConfigError, match=r"w\.properties has invalid settings:\nMissing required configuration "
                                          r"\"group\.id\" which has no default value\. Did you mean gruop\.id\?$"):
        load_worker_config(file)


def test_environment_variables_become_settings():
    env = {
        "CONNECT_GROUP_ID": "g", "CONNECT_CONFIG_PROVIDERS_FILE_PARAM_ALLOWED__PATHS": "p", "CONNECT_A___B": "d",
        "CONNECT_LOG4J_ROOT_LOGLEVEL": "WARN", "CONNECT_LOG4J_LOGGERS": "org.x=DEBUG, storage=ERROR",
        "CONNECT_LOG4J_APPENDER_STDOUT_LAYOUT_CONVERSIONPATTERN": "%m", "XCONNECT_A": "n", "CONNECT": "n",
    }
    assert from_environment(env) == {
        "group.id": "g", "config.providers.file.param.allowed_paths": "p", "a-b": "d", "heeler.log.level": "WARN",
        "heeler.log.level.org.x": "DEBUG", "heeler.log.level.storage": "ERROR",
    }


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("._-"), min_size=1))
def test_every_setting_has_an_environment_variable(words, separators):
    key = "".join(w + s for w, s in zip(words, separators, strict=False)) + "z"
    name = "CONNECT_" + "".join({".": "_", "_": "__", "-": "___"}.get(c, c.upper()) for c in key)
    assert from_environment({name: "v"}) == {key: "v"}


def test_config_providers_in_the_worker_file(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HEELER_TEST_PASSWORD", "s3cret")
    config = with_(
        {
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "ssl.key.password": "${env:HEELER_TEST_PASSWORD}",
            "plugin.path": "${env:HEELER_TEST_PASSWORD}",
        }
    )
    assert config["ssl.key.password"].value == "s3cret"
    assert config["plugin.path"] == ["${env:HEELER_TEST_PASSWORD}"]
    assert "plugin.path" in caplog.text
    assert ConfigTransformer(config.providers).transform({"p": "${env:HEELER_TEST_PASSWORD}"}) == {"p": "s3cret"}


@pytest.mark.parametrize("name", ["my.Vault", "org.apache.kafka.connect.json.JsonConverter"])
def test_a_missing_config_provider_is_named(name):
    with pytest.raises(ConfigError, match=f"Invalid value {re.escape(name)} for the class of a config provider"):
        with_({"config.providers": "v", "config.providers.v.class": name})


def test_provided_values_of_the_worker_file_are_hidden(tmp_path):
    """They are left out of errors about bad values, and always hidden if they are passwords or the key is unknown."""
    file = tmp_path / "s.properties"
    file.write_text("wrong=s3cr3t-number\npassword=s3cr3t-password\nserver=broker-of-the-test:9092\n")
    provider = {"config.providers": "f", "config.providers.f.class": "FileConfigProvider"}

    def at(key):
        return f"${{f:{file}:{key}}}"

    with pytest.raises(ConfigError, match=r"Invalid value \[hidden\] for configuration session\.timeout\.ms") as error:
        with_({**provider, "session.timeout.ms": at("wrong")})
    assert "s3cr3t" not in str(error.value)
    with_({
        **provider, "bootstrap.servers": at("server"), "sasl.jaas.config": f'M required password="{at("password")}";',
        "spark.hadoop.fs.s3a.access": at("wrong"), "ssl.keystore.password": "in-the-file-itself",
    })
    said = "s3cr3t-password s3cr3t-number in-the-file-itself broker-of-the-test:9092"
    assert process_secrets().mask(said) == "[hidden] [hidden] [hidden] broker-of-the-test:9092"


def test_unknown_keys_are_named_with_the_likely_one(caplog):
    config = with_({"sesion.timeout.ms": "1", "key.converter.schemas.enable": "false", "spark.x": "1"})
    assert config.unknown_keys() == ["sesion.timeout.ms"]
    assert "did you mean session.timeout.ms?" in caplog.text


def test_keys_of_kafkas_clients_are_known_and_passed_on(caplog):
    """A worker's file configures its clients, also with keys that the worker does not define."""
    given = {"default.api.timeout.ms": "5000", "max.request.size": "1000"}
    config = with_(given)
    assert config.unknown_keys() == []
    assert "not a known worker setting" not in caplog.text
    assert given.items() <= config.client().items()


@pytest.mark.parametrize("master", [
    "local", "local[*]", "local[4, 2]", "spark://h:7077", "spark://h:7077,[::1]:7077", "k8s://https://h:6443", "yarn",
])
def test_every_kind_of_spark_master_is_accepted(master):
    own = {"spark.master": master, "spark.authenticate.secret": "s"}
    assert with_(own).originals["spark.master"] == master


@pytest.mark.parametrize(("changed", "message"), [
    ({"group.id": None}, 'Missing required configuration "group.id"'),
    ({"rest.extension.classes": "com.example.BasicAuth"}, "let the proxy do this work"),
    ({"producer.security.protocol": "SSL", "producer.ssl.engine.factory.class": "com.example.Pins"},
     "Invalid value com.example.Pins for configuration producer.ssl.engine.factory.class: heeler cannot"),
    ({"spark.master": "spark://127.0.0.1:7077"}, '"spark.authenticate.secret"'),
])
def test_a_file_that_heeler_cannot_honor_is_refused_with_its_name(tmp_path, changed, message):
    """The worker does not start; it prints this message."""
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{k}={v}\n" for k, v in {**BASE, **changed}.items() if v is not None))
    with pytest.raises(ConfigError) as refused:
        load_worker_config(file, (), {})
    assert str(file) in str(refused.value)
    assert message in str(refused.value)


def test_a_warning_about_a_spark_that_anybody_can_use(caplog):
    with_({"spark.master": "spark://h:7077", "spark.authenticate": "false"})
    assert "spark.authenticate=false: anybody who can reach a port of Spark" in caplog.text


def test_exactly_once_support_may_be_preparing_or_enabled():
    preparing, enabled = (with_({"exactly.once.source.support": s}) for s in ("PREPARING", "enabled"))
    assert (preparing.exactly_once, preparing.transactional_leader) == (False, True)
    assert (enabled.exactly_once, enabled.transactional_leader) == (True, True)


def test_executor_settings_are_the_workers():
    defaults = executor_settings(make())
    assert defaults == ExecutorSettings()
    found = executor_settings(with_({
        "heeler.executors.max": "3", "heeler.executors.running.max": "9", "heeler.executors.slow.ms": "1500",
        "heeler.executors.port": "7777", "heeler.executors.mode": "batch", "heeler.spark.start.delay.ms": "20"}))
    assert found == ExecutorSettings(3, 3, slow_s=1.5, port=7777, spark_delay_s=0.02, mode="batch")


@pytest.mark.parametrize("largest", [1 << 20, 256 << 20, 2_000_000_000])
def test_a_result_has_room_for_the_largest_record_as_it_was_read_and_after_the_chain(largest):
    found = executor_settings(with_({"heeler.max.record.bytes": str(largest)}))
    assert found.max_result_bytes > max(2 * largest, 255 << 20)
