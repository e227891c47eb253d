"""Values that must not leave the worker in a text: those that config providers gave, and passwords.

A process has one `Secrets` (`process_secrets`), because log and standard error are a process's. What a value is found
as: itself, as quoted or encoded by what usually writes texts (see `forms` and `codes`); of several lines each one.

How short may a value be? One of a letter or two would hide half of a log, and so protects nothing:
- from 8 characters on a value is hidden wherever it occurs, also inside a word;
- from 4 characters on where it stands alone: neither letter nor digit is beside it;
- shorter ones, and true, false, null and none, are hidden only in what validation says of the configuration that they
  stand in (`Secrets.of`), down to one letter or digit.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

from spark_tasks.config.types import Type

MASK: Final = "[hidden]"
ALONE: Final = 4
ANYWHERE: Final = 8
_PLAIN: Final = ("true", "false", "null", "none")
OWNERS: Final = 10_000
VALUES_EACH: Final = 1000  # values of an owner: some live for minutes only, and clients may validate what they like
_WORD = re.compile(r"[^\W_]")
# A password inside a value such as a login of sasl.jaas.config.
_QUOTED = re.compile(
    r"""(?:password|secret|token)\w*\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", re.IGNORECASE
)
_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_NAMES = re.compile(
    r"password|secret|jaas|token|passphrase|credential(?!s\.source$)|user\.info$|\.key$|private", re.IGNORECASE
)

Find = tuple[str, Callable[[str], Iterable[tuple[int, int]]]]  # a form, and its places in a text that has it


def secret_name(key: str) -> bool:
    """Whether a configuration's key is by its name one of a password."""
    return _NAMES.search(key) is not None


def passwords(config: Mapping[str, Any], more: Iterable[str] = ()) -> list[str]:
    """The values of the keys that are secret by their name, and of `more` keys; also what is quoted in a login, and
    the password in user:password (*.user.info, and before the host of a URL under any key).
    """
    found = [config[key] for key in {*more, *filter(secret_name, config)} if isinstance(config.get(key), str)]
    inner = [re.sub(r"\\(.)", r"\1", m[1] or m[2] or "") for text in found for m in _QUOTED.finditer(text)]
    pairs = [str(value).partition(":")[2] for key, value in config.items() if key.endswith("user.info")]
    urls = [m[1] for value in config.values() if isinstance(value, str) for m in _IN_URL.finditer(value)]
    return [*found, *inner, *filter(None, pairs), *urls]


def hide_passwords(connector: str, config: Mapping[str, Any], plugin: type[Any]) -> None:
    """Have the process hide the passwords of a connector that is to run, wherever they come from. `plugin`: its class,
    whose config_def knows its own ones.
    """
    keys = getattr(getattr(plugin, "config_def", None), "keys", {})
    own = [name for name, key in keys.items() if key.type is Type.PASSWORD]
    process_secrets().learn(connector, passwords(config, own))


def forms(value: str) -> set[str]:
    """What a value looks like in texts: quoted by Python or JSON, once or twice, and in a URL."""
    raw = value.encode(errors="surrogatepass")
    bare = {value, repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1], json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1], value.replace("\\", "\\\\")}
    found = {*bare, *(repr(form)[1:-1] for form in bare), *(json.dumps(form)[1:-1] for form in bare)}
    # Which quotes are escaped depends on what stands around the value.
    found |= {form.replace(mark, "\\" + mark) for form in found for mark in "'\"" if "\\" + mark not in form}
    for url in (quote(raw, ""), quote(raw), quote_plus(raw)):
        found |= {url, re.sub("%..", lambda m: m[0].lower(), url)}
    return found


def codes(value: str) -> set[str]:
    """What all base64 texts that a value is in have in common, wherever it stands in what is encoded."""
    raw, found = value.encode(errors="surrogatepass"), set()
    for offset in range(3):  # what stands before it moves the bits
        code = base64.b64encode(b"\0" * offset + raw).decode()[-(-8 * offset // 6) : 8 * (len(raw) + offset) // 6]
        if len(code) >= ALONE:
            found |= {code, code.replace("+", "-").replace("/", "_")}
    return found


class Secrets:
    """Learns values and hides them. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[str | None, OrderedDict[str, None]] = OrderedDict()
        self._index = _Index()

    @classmethod
    def of(cls, values: Iterable[str]) -> Secrets:
        """Of these values, for the texts about them: also of values that are too short to be hidden everywhere."""
        made = cls()
        made._index = _Index(values, alone=1)
        return made

    def learn(self, owner: str | None, values: Iterable[str]) -> None:
        """Hide these from now on: the last 900 or more of an owner, which is a connector, "" for the worker itself, or
        None for what belongs to nobody yet (a validation).
        """
        new = [value for value in values if len(value) >= ALONE]
        if not new:
            return
        with self._lock:
            known = self._values.setdefault(owner, OrderedDict())
            self._values.move_to_end(owner)
            self._index.add(value for value in new if value not in known)
            for value in new:
                known[value] = None
                known.move_to_end(value)
            if _shortened(known, VALUES_EACH) or _shortened(self._values, OWNERS):
                self._index = _Index({value for values in self._values.values() for value in values})

    def mask(self, text: str) -> str:
        """The text with `[hidden]` in the place of each value."""
        spans = sorted(self._index.spans(text))
        if not spans:
            return text
        parts, at = [], 0
        for start, end in spans:  # two values may overlap
            if start >= at:
                parts += [text[at:start], MASK]
            at = max(at, end)
        return "".join([*parts, text[at:]])

    def masked(self, error: Exception) -> Exception:
        """The error, where its text has nothing to hide; else one whose text has not, without its causes."""
        text = str(error)
        hidden = self.mask(text)
        if hidden == text:
            return error
        try:
            copy = type(error)(hidden)
        except Exception:  # noqa: BLE001 - a plugin's class, whose constructor takes whatever it likes
            copy = Exception(hidden)
        copy = copy if str(copy) == hidden else Exception(f"{type(error).__name__}: {hidden}")
        return copy.with_traceback(error.__traceback__)


@cache
def process_secrets() -> Secrets:
    """Those of this process."""
    return Secrets()


class _Index:
    """Forms by how they begin: a text is compared with thousands of values in one pass."""

    def __init__(self, values: Iterable[str] = (), alone: int = ALONE) -> None:
        self._alone = alone
        self._finders: dict[str, tuple[Find, ...]] = {}
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """One thread at a time; `spans` may be called meanwhile."""
        for value in values:
            for find in _finders_of(value, self._alone):
                start = find[0][: self._alone]
                known = self._finders.get(start, ())
                if find not in known:
                    self._finders[start] = (*known, find)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the values are, from and to; they may overlap."""
        if self._finders:
            starts = {text[at : at + self._alone] for at in range(len(text))}
            for start in filter(self._finders.__contains__, starts):
                for form, find in self._finders[start]:
                    if form in text:
                        yield from find(text)


def _shortened(known: OrderedDict[Any, Any], limit: int) -> bool:
    """Whether there were too many; the oldest tenth goes then, so that it is seldom so."""
    if len(known) <= limit:
        return False
    for _ in range(max(1, limit // 10)):
        known.popitem(last=False)
    return True


@lru_cache(maxsize=OWNERS)  # a thousand connectors that start bring their values one after the other
def _finders_of(value: str, alone: int) -> tuple[Find, ...]:
    found: dict[str, Find] = {}
    lines = [line.strip() for line in value.splitlines()]
    for part in dict.fromkeys([value.strip(), *(line for line in lines if not line.startswith("-----"))]):
        if len(part) < alone or part in MASK or (alone > 1 and part.lower() in _PLAIN):
            continue
        if len(part) < ALONE and not _WORD.search(part):
            continue
        for form in forms(part):
            found[form] = (form, _anywhere(form) if len(part) >= ANYWHERE else _standing_alone(form))
        found |= {code: (code, _anywhere(code)) for code in codes(part)}
    return tuple(found.values())


def _anywhere(form: str) -> Callable[[str], Iterable[tuple[int, int]]]:
    def find(text: str) -> Iterator[tuple[int, int]]:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = text.find(form, at + 1)

    return find


def _standing_alone(form: str) -> Callable[[str], Iterable[tuple[int, int]]]:
    before = r"(?:(?<![^\W_])|(?<=\\[nrt]))" if _WORD.match(form) else ""
    after = r"(?![^\W_])" if _WORD.match(form[-1]) else ""
    pattern = re.compile(f"{before}{re.escape(form)}{after}")
    return lambda text: (match.span() for match in pattern.finditer(text))
