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
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

from spark_tasks.config.occurrences import Occurrences
from spark_tasks.config.types import Type

MASK: Final = "[hidden]"
ALONE: Final = 4
ANYWHERE: Final = 8
_PLAIN: Final = ("true", "false", "null", "none")
OWNERS: Final = 10_000
VALUES_EACH: Final = 1000  # per owner; some values expire within minutes, and clients may validate any number of them
_WORD = re.compile(r"[^\W_]")
# A password inside a value such as sasl.jaas.config.
_INNER = re.compile(
    r"""(?<!\w)(?>\w*?(?:password|secret|token))\w*+\s*+=\s*+"""
    r"""(?:"((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'|(?!\$\{)([^\s;"']+))""",
    re.IGNORECASE,
)
# Passwords in a URL, which may contain an @, and in its parameters, as in JDBC's URLs.
_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s]+)@")
_PARAMETER = re.compile(
    r"[?&;][\w.-]*(?:password|passwd|pwd|passphrase|secret|token)=(?!\$\{)([^&;\s]+)", re.IGNORECASE
)
_NAMES = re.compile(
    r"password|passwd|pwd|secret|jaas|token|passphrase|credential(?!s\.source$)|user\.info$|\.key$|api[._-]?key|private",
    re.IGNORECASE,
)


def secret_name(key: str) -> bool:
    """Returns whether a key is that of a secret, according to its name."""
    return _NAMES.search(key) is not None


def passwords(config: Mapping[str, Any], more: Iterable[str] = ()) -> list[str]:
    """Returns the secrets of a configuration: the values of keys with a secret's name and of the keys `more`,
    passwords in those values (as in sasl.jaas.config), and passwords in user:password (of *.user.info, and in the URLs
    of any value) and in parameters of URLs.
    """
    values = [config[key] for key in {*more, *filter(secret_name, config)} if isinstance(config.get(key), str)]
    inner = [m[3] or re.sub(r"\\(.)", r"\1", m[1] or m[2] or "") for text in values for m in _INNER.finditer(text)]
    pairs = [str(value).partition(":")[2] for key, value in config.items() if key.endswith("user.info")]
    urls = [m[1] for value in config.values() if isinstance(value, str) for kind in (_IN_URL, _PARAMETER)
            for m in kind.finditer(value)]
    return [*values, *inner, *filter(None, pairs), *urls]


def hide_passwords(connector: str | None, config: Mapping[str, Any], plugin: type[Any]) -> None:
    """Makes this process hide the passwords of a connector (None: of one that is only validated). `plugin`: its class,
    whose config_def has the types of its keys.
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
        self._index = Occurrences()

    @classmethod
    def of(cls, values: Iterable[str]) -> Secrets:
        """Returns an instance for these values alone, which also hides values that are too short to hide elsewhere."""
        made = cls()
        made._index = _index(values, alone=1)
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
            _add(self._index, (value for value in new if value not in known))
            for value in new:
                known[value] = None
                known.move_to_end(value)
            if _shortened(known, VALUES_EACH) or _shortened(self._values, OWNERS):
                self._index = _index({value for values in self._values.values() for value in values})

    def of_connector(self, connector: str) -> tuple[str, ...]:
        """Returns the known secrets of a connector and of the worker."""
        with self._lock:
            return (*self._values.get("", ()), *self._values.get(connector, ()))

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


def _shortened(known: OrderedDict[Any, Any], limit: int) -> bool:
    """Removes the oldest tenth if there are more than `limit` entries, so that this is rarely necessary. Returns
    whether entries were removed.
    """
    if len(known) <= limit:
        return False
    for _ in range(max(1, limit // 10)):
        known.popitem(last=False)
    return True


def _index(values: Iterable[str], alone: int = ALONE) -> Occurrences:
    made = Occurrences()
    _add(made, values, alone)
    return made


def _add(index: Occurrences, values: Iterable[str], alone: int = ALONE) -> None:
    for value in values:
        for form, anywhere in _forms_of(value, alone):
            index.add(form, anywhere=anywhere)


@lru_cache(maxsize=OWNERS)  # when a worker starts, thousands of connectors add their values one after the other
def _forms_of(value: str, alone: int) -> tuple[tuple[str, bool], ...]:
    """The texts to hide, and whether also inside words."""
    found: dict[str, bool] = {}
    lines = [line.strip() for line in value.splitlines()]
    for part in dict.fromkeys([value.strip(), *(line for line in lines if not line.startswith("-----"))]):
        if len(part) < alone or part in MASK or (alone > 1 and part.lower() in _PLAIN):
            continue
        if len(part) < ALONE and not _WORD.search(part):
            continue
        for form in forms(part):
            found[form] = found.get(form, False) or len(part) >= ANYWHERE
        found |= dict.fromkeys(codes(part), True)
    return tuple(found.items())
