"""Names, versions and offers of the protocols."""

import pytest

from actors.assignment.protocol import Protocol


def test_offered_protocols_follow_connect_protocol():
    assert Protocol.SESSIONED.offers == (Protocol.SESSIONED, Protocol.COMPATIBLE, Protocol.EAGER)
    assert Protocol.COMPATIBLE.offers == (Protocol.COMPATIBLE, Protocol.EAGER)
    assert Protocol.EAGER.offers == (Protocol.EAGER,)


def test_protocols_are_configured_by_name():
    assert [(Protocol.configured(name).value, Protocol.configured(name).version) for name in
            ("sessioned", "Compatible", "EAGER")] == [("sessioned", 2), ("compatible", 1), ("default", 0)]
    with pytest.raises(ValueError, match=r"connect\.protocol.*default.*sessioned, compatible, eager"):
        Protocol.configured("default")
