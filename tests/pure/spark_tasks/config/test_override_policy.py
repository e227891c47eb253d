"""Which settings of clients a connector may override."""

from __future__ import annotations

import pickle

import pytest

from spark_tasks.config.override_policy import OverridePolicy
from spark_tasks.errors import ConfigError

PREFIX = "connector.client.config.override."
JAVA = "org.apache.kafka.connect.connector.policy."


@pytest.mark.parametrize(("policy", "name", "allowed", "refused"), [
    (None, "All", ("acks", "sasl.mechanism"), ()), ("all", "All", ("acks",), ()), (" None ", "None", (), ("acks",)),
    ("Principal", "Principal", ("sasl.jaas.config", "sasl.mechanism", "security.protocol"), ("acks",)),
    ("Allowlist", "Allowlist", ("acks", "linger.ms"), ("sasl.mechanism",)),
    ("NoneConnectorClientConfigOverridePolicy", "None", (), ("acks",)),
    (f"{JAVA}PrincipalConnectorClientConfigOverridePolicy", "Principal", ("sasl.mechanism",), ("acks",)),
])
def test_a_policy_says_what_may_be_overridden(
    policy: str | None, name: str, allowed: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    worker = {f"{PREFIX}allowlist": "acks, linger.ms", **({} if policy is None else {f"{PREFIX}policy": policy})}
    found = OverridePolicy.of(worker)
    assert pickle.loads(pickle.dumps(found)) == found
    assert [key for key in allowed if found.refusal(key)] == []
    for key in refused:
        assert found.refusal(key) == (
            f"The '{name}' policy does not allow '{key}' to be overridden in the connector configuration.")


def test_a_policy_of_ones_own_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value com\.example\.Mine for configuration .*\.policy: heeler"):
        OverridePolicy.of({f"{PREFIX}policy": "com.example.Mine"})
