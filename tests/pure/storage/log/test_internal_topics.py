"""What a worker does if its internal topics cannot be created at once."""

from __future__ import annotations

import kafka.errors
import pytest

import storage.log.internal_topics
from heeler.worker.keys.worker import STORAGE_KEYS
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from storage.ids import TopicName
from storage.log.internal_topics import connector_offsets, ensure_topics

GIVEN = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
TOPIC = connector_offsets(STORAGE_KEYS.parse(GIVEN), GIVEN, TopicName("own"))
TOO_FEW = kafka.errors.InvalidReplicationFactorError("only 1 broker(s) are registered.")


class Admin:
    """Answers to the creation of topics, one after the other; None: it is made."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def create_topics(self, topics, raise_errors):
        assert not raise_errors
        answer = self.answers.pop(0)
        code, text = (0, None) if answer is None else (answer.errno, str(answer.args[0]))
        return {"topics": [{"name": name, "error_code": code, "error_message": text} for name in topics]}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(storage.log.internal_topics, "BACKOFF_S", 0)


def test_the_client_waits_for_brokers_that_are_starting(caplog):
    admin = Admin(TOO_FEW, TOO_FEW, kafka.errors.RequestTimedOutError("slow"), None)
    ensure_topics(KafkaAdmin(admin), [TOPIC], timeout_s=60)
    assert admin.answers == []
    [reported] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "only 1 broker(s)" in reported
    assert "'offset.storage.replication.factor' (now 3)" in reported


def test_too_few_brokers_are_an_error_for_the_user():
    with pytest.raises(ConfigError, match=r"'own'.*'offsets\.storage\.topic' property.*set 'offset\.storage\.replic"):
        ensure_topics(KafkaAdmin(Admin(TOO_FEW)), [TOPIC])


def test_permanent_errors_are_reported_at_once():
    with pytest.raises(ConnectError, match="no such setting"):
        ensure_topics(KafkaAdmin(Admin(kafka.errors.InvalidConfigurationError("no such setting"))), [TOPIC],
                      timeout_s=60)


def test_what_may_not_be_created_may_exist_unless_the_login_is_refused():
    admin = Admin(kafka.errors.ClusterAuthorizationFailedError("no"))
    admin.describe_configs = lambda *_, **__: {}
    ensure_topics(KafkaAdmin(admin), [TOPIC])
    refused = Admin(kafka.errors.SaslAuthenticationFailedError("wrong password"))
    with pytest.raises(ConnectError, match=r"Unable to create .*wrong password"):
        ensure_topics(KafkaAdmin(refused), [TOPIC])
