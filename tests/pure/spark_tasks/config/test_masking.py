"""Values are hidden in texts, regardless of quoting and encoding, and other text is not changed."""

from __future__ import annotations

import base64
import json
import random
import threading
import tracemalloc
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config import masking
from spark_tasks.config.masking import MASK, Secrets, passwords
from spark_tasks.errors import ConfigError

ODD = "s3cr3t 'é\" \\ &\n%x/\u202e+"


def knowing(*values: str) -> Secrets:
    secrets = Secrets()
    secrets.add("c", values)
    return secrets


@pytest.mark.parametrize("written", [
    lambda v: v, repr, ascii, lambda v: repr({"a": v}), lambda v: repr(repr({"a": v})), lambda v: str(v.encode()),
    json.dumps, lambda v: json.dumps({"a": [v]}, ensure_ascii=False), lambda v: json.dumps(json.dumps(v)),
    lambda v: repr([v, '"']), lambda v: repr([v, "'"]), lambda v: f"'{v}'".replace("'", "\\'"),
    quote, quote_plus, lambda v: quote(v, safe=""), lambda v: quote(v, safe="").lower(),
    *(lambda v, n=n: base64.b64encode(b"user:"[:n] + v.encode() + b"more").decode() for n in range(6)),
    lambda v: base64.urlsafe_b64encode(v.encode()).decode(),
])  # fmt: skip
def test_a_value_is_hidden_in_every_notation(written):
    for value in (ODD, "pässword>>>???~~~", "plain-old-password", "short"):
        hidden = knowing(value).mask(f"<{written(value)}>")
        assert MASK in hidden, value
        assert written(value) not in hidden
        assert "s3cr3t" not in hidden
        assert hidden[0] + hidden[-1] == "<>", value


PRINTABLE = st.characters(exclude_categories=("C", "Z")) | st.just(" ")  # as str.isprintable has it


@given(st.text(PRINTABLE, min_size=8).filter(lambda s: len(s.strip()) >= 8 and s.strip() not in MASK),
       st.text(), st.text())
def test_long_values_are_hidden_anywhere(value, before, after):
    assert value.strip() not in knowing(value).mask(before + value + after)


@given(st.lists(st.text("ab", min_size=8, max_size=12), max_size=4), st.text("abc ", max_size=60))
def test_overlapping_values_are_hidden(values, text):
    hidden = knowing(*values).mask(text)
    assert not any(value in hidden for value in values)
    assert "".join(hidden.split(MASK)) == "".join(c for c in hidden.replace(MASK, ""))
    if not any(value in text for value in values):
        assert hidden == text


@given(st.text())
def test_a_text_without_secrets_is_unchanged(text):
    assert Secrets().mask(text) is text
    assert knowing("\0never\0there\0").mask(text) == text


@pytest.mark.parametrize(("value", "text", "hidden"), [
    ("prod", "the product of prod", f"the product of {MASK}"),
    ("5432", "at db:5432, 54321 times", f"at db:{MASK}, 54321 times"),
    ("prod", r"'a\nprod\n'", rf"'a\n{MASK}\n'"),
    ("s3cr3t", repr(b"\0user\0s3cr3t"), rf"b'\x00user\x00{MASK}'"),  # a login's bytes in kafka-python's lines at DEBUG
    ("s3cr3t", "x00s3cr3t", "x00s3cr3t"),
    ("abc", "abc abc", "abc abc"),
    ("true", "it is true", "it is true"),
    ("", "all", "all"),
    ("    \n", "a    b", "a    b"),
    ("hidden", f"{MASK} hidden", f"{MASK} hidden"),
    ("password\n", "has password here", f"has {MASK} here"),
    ("-----BEGIN KEY-----\nMIIEfirst\nsecondline\n-----END KEY-----", "MIIEfirst and secondline -----BEGIN KEY-----",
     f"{MASK} and {MASK} -----BEGIN KEY-----"),
])  # fmt: skip
def test_short_and_common_values_do_not_destroy_texts(value, text, hidden):
    assert knowing(value).mask(text) == hidden


def test_short_values_are_hidden_in_texts_about_their_own_configuration():
    secrets = Secrets.of(["x1", "7", "true", "."])
    assert secrets.mask("Invalid value 7 for x: true, x17. x1") == f"Invalid value {MASK} for x: {MASK}, x17. {MASK}"


def test_values_of_an_owner_are_kept_regardless_of_other_owners(monkeypatch):
    monkeypatch.setattr(masking, "VALUES_EACH", 20)
    secrets = knowing("of-the-connector")
    for n in range(50):
        secrets.add(None, [f"validated-{n}-"])
    assert secrets.mask("of-the-connector validated-49- validated-1-") == f"{MASK} {MASK} validated-1-"
    monkeypatch.setattr(masking, "OWNERS", 3)
    for n in range(5):
        secrets.add(f"c{n}", [f"of-another-{n}-"])
    assert secrets.mask("of-the-connector of-another-4-") == f"of-the-connector {MASK}"


class OddError(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(("error", "kind"), [
    (ConfigError("no secret-value"), ConfigError), (OddError("x", "secret-value"), Exception),
    (KeyError("secret-value"), Exception),
])
def test_secrets_are_masked_in_errors(error, kind):
    hidden = knowing("secret-value").masked(error)
    assert type(hidden) is kind
    assert MASK in str(hidden)
    assert "secret-value" not in str(hidden)
    assert Secrets().masked(error) is error


def test_passwords_of_a_configuration_are_found():
    config = {"ssl.key.password": "p1", "sasl.jaas.config": 'M required username="u" password="a\\"b";', "topic": "t",
              "pin": "1234", "oauth.client.secret": None}
    assert sorted(passwords(config, ["pin"])) == sorted(["p1", config["sasl.jaas.config"], "1234", 'a"b'])


@pytest.mark.parametrize("key", ["db.passwd", "smtp.pwd", "apikey", "search.api_key", "http.Api-Key"])
def test_other_names_of_secrets(key):
    assert passwords({key: "hunter2", "message.key.field": "id", "keyspace": "k"}) == ["hunter2"]


@pytest.mark.parametrize(("option", "found"), [
    ("password=hunter2", ["hunter2"]), ("password = 'a b'", ["a b"]), ("clientSecret=x1y2", ["x1y2"]),
    ("password=${env:PW}", []),
])
def test_passwords_of_a_login_may_be_unquoted(option, found):
    login = f"M required username=u {option};"
    assert passwords({"sasl.jaas.config": login}) == [login, *found]


def test_the_password_of_a_schema_registry():
    assert sorted(passwords({
        "value.converter.basic.auth.user.info": "me:pw1", "value.converter.basic.auth.credentials.source": "USER_INFO",
        "key.converter.schema.registry.url": "https://you:pw2@host:8081,http://other:8081/a:b@c",
    })) == ["me:pw1", "pw1", "pw2"]


@pytest.mark.parametrize(("url", "found"), [
    ("jdbc:postgresql://h/db?user=u&password=pw1&ssl=true", ["pw1"]),
    ("jdbc:sqlserver://h;user=u;Password=p;x=y", ["p"]),
    ("jdbc:x://h/db?sslPassword=a&ssl.key_token=b", ["a", "b"]), ("jdbc:x://h/db?password=${env:PW}", []),
    ("https://h/?tokenizer=standard&passwords=2", []), ("jdbc:x://u:p@ss@h/a@b", ["p@ss"]),
    ("http://u:one@h:1,http://u:two@h:2", ["one", "two"]),
])
def test_the_passwords_in_a_url(url, found):
    assert passwords({"connection.url": url}) == found


def test_a_long_text_is_masked_within_little_memory():
    """An error may quote a record of megabytes."""
    text = base64.b64encode(random.Random(7).randbytes(90_000)).decode()
    secrets = knowing("hunter2-hunter2")
    secrets.mask(text)  # the first long text imports numpy
    tracemalloc.start()
    try:
        assert secrets.mask(text) == text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * len(text), "a set of all its parts takes more than 60 times its size"
    for at in range(16_360, 16_400):  # where the text may be divided
        before, after = text[:at], text[at:20_000]
        assert secrets.mask(f"{before}hunter2-hunter2{after}") == f"{before}{MASK}{after}"


def test_a_large_secret_takes_little_memory():
    """Any key may have the name of a secret."""
    numbers = random.Random(7)
    lines = [f"{numbers.randbytes(11).hex()}'\"" for _ in range(45_000)]
    value = "\n".join(lines)
    secrets = Secrets()
    tracemalloc.start()
    try:
        secrets.add(None, [value])
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(value) > 1_000_000
    assert kept < 10_000_000, "all forms of all lines take 250 MB"
    assert peak < 15_000_000
    for written in (value, repr(value)[1:-1], json.dumps(value)[1:-1]):
        assert secrets.mask(f"<{written}>") == f"<{MASK}>"
    for line in lines[:500]:
        assert secrets.mask(f"{line}, {base64.b64encode(line.encode()).decode()}") == f"{MASK}, {MASK}"


def test_secrets_of_some_kilobytes_are_hidden_in_every_notation():
    numbers = random.Random(7)
    body = [base64.b64encode(numbers.randbytes(48)).decode() for _ in range(480)]
    for value in ("\n".join(["-----BEGIN KEY-----", *body, "-----END KEY-----"]), json.dumps({"key": "\n".join(body)})):
        secrets = knowing(value)
        for written in (repr(repr(value)), json.dumps(json.dumps(value)), quote(value, ""),
                        base64.b64encode(value.encode()).decode()):
            hidden = secrets.mask(written)
            assert MASK in hidden
            assert len(hidden) < 20


@pytest.mark.parametrize("at_once", [False, True])
def test_the_forms_of_an_owners_secrets_are_limited(monkeypatch, at_once):
    monkeypatch.setattr(masking, "SIZE_EACH", 200_000)
    values = ["\n".join(f"line-{m}-of-{n:02}" for m in range(30)) for n in range(20)]
    encoded = [base64.b64encode(value.encode()).decode() for value in values]
    secrets = knowing("of-the-connector")
    for some in [values] if at_once else [[value] for value in values]:
        secrets.add(None, some)
    assert secrets.mask("of-the-connector") == MASK
    hidden = [secrets.mask(value) == MASK for value in values]
    assert hidden == sorted(hidden), "the newest are kept"
    assert hidden[-1]
    assert all(hidden) == at_once
    assert 0 < sum(len(secrets.mask(code)) < 20 for code in encoded) < 15


def test_nobody_waits_while_the_forms_of_a_secret_are_made():
    secrets, threads = Secrets(), []

    class Slow(str):
        __slots__ = ()

        def strip(self, _chars=None):
            threads.append(threading.Thread(target=secrets.add, args=("other", ["of-another"]), daemon=True))
            threads[-1].start()
            threads[-1].join(2.0)
            assert not threads[-1].is_alive()
            return str(self)

    secrets.add("c", [Slow("of-the-first")])
    assert threads
    assert secrets.mask("of-another of-the-first") == f"{MASK} {MASK}"
