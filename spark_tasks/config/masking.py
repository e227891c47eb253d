"""Hides secrets in logs, errors and responses: passwords, and the values of config providers.

A process has one `Secrets` (`process_secrets`), as it has one log and one standard error. A secret is recognized as it
is, and in its usual quoted and encoded forms (see `forms` and `codes`). Each line of a secret with several lines counts
as a secret, too.

To hide a secret of one or two letters would make a log unreadable and protect nothing. So it depends on the length:
- values of at least 8 characters are hidden everywhere, even inside a word;
- values of at least 4 characters are hidden if no letter or digit is next to them;
- shorter values, and true, false, null and none, are hidden only in the validation result of the configuration that
  contains them (`Secrets.of`), down to one letter or digit.
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
VALUES_EACH: Final = 1000  # per owner; some values expire within minutes, and clients may validate any number of them
_PIECE: Final = 16_384  # characters of a text that are examined at a time
_WORD = re.compile(r"[^\W_]")
# A password inside a value such as sasl.jaas.config.
_QUOTED = re.compile(
    r"""(?:password|secret|token)\w*\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", re.IGNORECASE
)
# Passwords in a URL, which may contain an @, and in its parameters, as in JDBC's URLs.
_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s]+)@")
_PARAMETER = re.compile(
    r"[?&;][\w.-]*(?:password|passwd|pwd|passphrase|secret|token)=(?!\$\{)([^&;\s]+)", re.IGNORECASE
)
_NAMES = re.compile(
    r"password|secret|jaas|token|passphrase|credential(?!s\.source$)|user\.info$|\.key$|private", re.IGNORECASE
)

# A form of a secret, and a function that returns its (start, end) positions in a text that contains it.
Finder = tuple[str, Callable[[str], Iterable[tuple[int, int]]]]


def secret_name(key: str) -> bool:
    """Returns whether a key is that of a secret, according to its name."""
    return _NAMES.search(key) is not None


def passwords(config: Mapping[str, Any], more: Iterable[str] = ()) -> list[str]:
    """Returns the secrets of a configuration: the values of keys with a secret's name and of the keys `more`, quoted
    passwords in those values (as in sasl.jaas.config), and passwords in user:password (of *.user.info, and in the URLs
    of any value) and in parameters of URLs.
    """
    values = [config[key] for key in {*more, *filter(secret_name, config)} if isinstance(config.get(key), str)]
    inner = [re.sub(r"\\(.)", r"\1", m[1] or m[2] or "") for text in values for m in _QUOTED.finditer(text)]
    pairs = [str(value).partition(":")[2] for key, value in config.items() if key.endswith("user.info")]
    urls = [m[1] for value in config.values() if isinstance(value, str) for kind in (_IN_URL, _PARAMETER)
            for m in kind.finditer(value)]
    return [*values, *inner, *filter(None, pairs), *urls]


def hide_passwords(connector: str, config: Mapping[str, Any], plugin: type[Any]) -> None:
    """Makes this process hide the passwords of a connector. `plugin`: its class, whose config_def has the types of its
    keys.
    """
    keys = getattr(getattr(plugin, "config_def", None), "keys", {})
    own = [name for name, key in keys.items() if key.type is Type.PASSWORD]
    process_secrets().add(connector, passwords(config, own))


def forms(value: str) -> set[str]:
    """Returns the forms in which a value may appear in texts: as it is, quoted once or twice by Python or JSON, and
    encoded for a URL.
    """
    raw = value.encode(errors="surrogatepass")
    bare = {value, repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1], json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1], value.replace("\\", "\\\\")}
    quoted = {*bare, *(repr(form)[1:-1] for form in bare), *(json.dumps(form)[1:-1] for form in bare)}
    # Which quotes are escaped depends on the text around the value.
    quoted |= {form.replace(mark, "\\" + mark) for form in quoted for mark in "'\"" if "\\" + mark not in form}
    for url in (quote(raw, ""), quote(raw), quote_plus(raw)):
        quoted |= {url, re.sub("%..", lambda m: m[0].lower(), url)}
    return quoted


def codes(value: str) -> set[str]:
    """Returns for each of the three alignments of a value in Base64 the part that does not depend on the bytes around
    the value.
    """
    raw, found = value.encode(errors="surrogatepass"), set()
    for offset in range(3):  # the number of bytes before it, modulo 3
        code = base64.b64encode(b"\0" * offset + raw).decode()[-(-8 * offset // 6) : 8 * (len(raw) + offset) // 6]
        if len(code) >= ALONE:
            found |= {code, code.replace("+", "-").replace("/", "_")}
    return found


class Secrets:
    """Stores secrets and hides them in texts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[str | None, OrderedDict[str, None]] = OrderedDict()
        self._index = _Index()

    @classmethod
    def of(cls, values: Iterable[str]) -> Secrets:
        """Returns an instance for these values alone, which also hides values that are too short to hide elsewhere."""
        made = cls()
        made._index = _Index(values, alone=1)
        return made

    def add(self, owner: str | None, values: Iterable[str]) -> None:
        """Hides these values from now on. Keeps at least the 900 newest values of each owner. `owner`: the name of a
        connector, "" for the worker, None for configurations that are only validated.
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
        """Returns the text with `[hidden]` in place of each secret."""
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
        """Returns the error itself if its message contains no secret, otherwise a copy with a masked message and
        without causes.
        """
        text = str(error)
        hidden = self.mask(text)
        if hidden == text:
            return error
        try:
            copy = type(error)(hidden)
        except Exception:  # noqa: BLE001 - the constructor of a plugin's class may require other arguments
            copy = Exception(hidden)
        copy = copy if str(copy) == hidden else Exception(f"{type(error).__name__}: {hidden}")
        return copy.with_traceback(error.__traceback__)


@cache
def process_secrets() -> Secrets:
    """Returns the secrets of this process."""
    return Secrets()


class _Index:
    """The forms of secrets by their first characters, so that one pass over a text finds any of thousands."""

    def __init__(self, values: Iterable[str] = (), alone: int = ALONE) -> None:
        self._alone = alone
        self._finders: dict[str, tuple[Finder, ...]] = {}
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Adds secrets. Call it on one thread at a time; other threads may call `spans` at the same time."""
        for value in values:
            for find in _finders_of(value, self._alone):
                start = find[0][: self._alone]
                known = self._finders.get(start, ())
                if find not in known:
                    self._finders[start] = (*known, find)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yields start and end of each secret in the text. They may overlap."""
        if self._finders:
            starts: set[str] = set()
            for first in range(0, len(text), _PIECE):  # a set of all parts of a long text would take 60 times its size
                parts = {text[at : at + self._alone] for at in range(first, min(first + _PIECE, len(text)))}
                starts.update(filter(self._finders.__contains__, parts))
            for start in starts:
                for form, find in self._finders[start]:
                    if form in text:
                        yield from find(text)


def _shortened(known: OrderedDict[Any, Any], limit: int) -> bool:
    """Removes the oldest tenth if there are more than `limit` entries, so that this is rarely necessary. Returns
    whether entries were removed.
    """
    if len(known) <= limit:
        return False
    for _ in range(max(1, limit // 10)):
        known.popitem(last=False)
    return True


@lru_cache(maxsize=OWNERS)  # when a worker starts, thousands of connectors add their values one after the other
def _finders_of(value: str, alone: int) -> tuple[Finder, ...]:
    finders: dict[str, Finder] = {}
    lines = [line.strip() for line in value.splitlines()]
    for part in dict.fromkeys([value.strip(), *(line for line in lines if not line.startswith("-----"))]):
        if len(part) < alone or part in MASK or (alone > 1 and part.lower() in _PLAIN):
            continue
        if len(part) < ALONE and not _WORD.search(part):
            continue
        for form in forms(part):
            finders[form] = (form, _find_anywhere(form) if len(part) >= ANYWHERE else _find_word(form))
        finders |= {code: (code, _find_anywhere(code)) for code in codes(part)}
    return tuple(finders.values())


def _find_anywhere(form: str) -> Callable[[str], Iterable[tuple[int, int]]]:
    def find(text: str) -> Iterator[tuple[int, int]]:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = text.find(form, at + 1)

    return find


def _find_word(form: str) -> Callable[[str], Iterable[tuple[int, int]]]:
    before = r"(?:(?<![^\W_])|(?<=\\[nrt]))" if _WORD.match(form) else ""
    after = r"(?![^\W_])" if _WORD.match(form[-1]) else ""
    pattern = re.compile(f"{before}{re.escape(form)}{after}")
    return lambda text: (match.span() for match in pattern.finditer(text))
