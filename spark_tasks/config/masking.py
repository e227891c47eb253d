"""Hides secrets in logs, errors and responses: passwords, and the values of config providers.

A process has one `Secrets` (`process_secrets`), as it has one log and one standard error. A secret is recognized as it
is, and in its usual quoted and encoded forms (see `forms` and `codes`). Each line of a secret with several lines counts
as a secret, too. Of a large one, which would have some hundred times its size in forms, only the first lines do.

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
from collections.abc import Collection, Iterable, Mapping
from functools import cache
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
SIZE_EACH: Final = 64 << 20  # bytes of the forms of these values
_FORM_BYTES: Final = 400  # that Occurrences adds to the length of each
LARGE: Final = 65_536  # characters; a secret with more, or with more than so many lines, is a large one
LINES: Final = 500
_Forms = tuple[tuple[str, bool], ...]  # texts to hide, and whether also inside words
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
        self._values: OrderedDict[str | None, OrderedDict[str, int]] = OrderedDict()  # with the size of their forms
        self._forms: dict[str, _Forms] = {}  # of all these values; thousands of connectors may have the same ones
        self._index = Occurrences()

    @classmethod
    def of(cls, values: Iterable[str]) -> Secrets:
        """Returns an instance for these values alone, which also hides values that are too short to hide elsewhere."""
        made = cls()
        made._index = _index(_forms_of_each(set(values), {}, alone=1))
        return made

    def add(self, owner: str | None, values: Iterable[str]) -> None:
        """Hides these values from now on. Keeps at least the 900 newest values of each owner, or fewer if some are
        large. `owner`: the name of a connector, "" for the worker, None for configurations that are only validated.
        """
        new = dict.fromkeys(value for value in values if len(value) >= ALONE)
        if not new:
            return
        forms = _forms_of_each(new, self._forms)  # takes long for large values: others do not wait for it
        with self._lock:
            known = self._values.setdefault(owner, OrderedDict())
            self._values.move_to_end(owner)
            for value in new:
                if value not in self._forms:
                    self._forms[value] = forms[value]
                    _add(self._index, forms[value])
                known[value] = _size(forms[value])
                known.move_to_end(value)
            if any([_evict_oldest(known, len(new)), _shortened(known, VALUES_EACH), _shortened(self._values, OWNERS)]):
                self._forms = {value: self._forms[value] for values in self._values.values() for value in values}
                self._index = _index(self._forms)

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


def _evict_oldest(known: OrderedDict[str, int], newest: int) -> bool:
    """Removes the oldest values if the forms of all have more than SIZE_EACH bytes, but not the `newest`. Returns
    whether values were removed.
    """
    size, before = sum(known.values()), len(known)
    if size > SIZE_EACH:
        while size > 0.9 * SIZE_EACH and len(known) > newest:
            size -= known.popitem(last=False)[1]
    return len(known) < before


def _index(forms: Mapping[str, _Forms]) -> Occurrences:
    made = Occurrences()
    for each in forms.values():
        _add(made, each)
    return made


def _add(index: Occurrences, forms: _Forms) -> None:
    for form, anywhere in forms:
        index.add(form, anywhere=anywhere)


def _size(forms: _Forms) -> int:
    return sum(len(form) + _FORM_BYTES for form, _ in forms)


def _forms_of_each(values: Collection[str], known: Mapping[str, _Forms], alone: int = ALONE) -> dict[str, _Forms]:
    """Returns the forms of each value; of the longest values only the values themselves, if all forms have more than
    SIZE_EACH bytes. `known`: forms that need not be made.
    """
    made: dict[str, _Forms] = {}
    left = SIZE_EACH
    for value in sorted(values, key=len):
        made[value] = known.get(value) or _forms_of(value, alone, bare=left < 0)
        left -= _size(made[value])
    return made


def _forms_of(value: str, alone: int, *, bare: bool) -> _Forms:
    """`bare`: only the value as it is."""
    found: dict[str, bool] = {}
    whole, lines = value.strip(), value[:LARGE].splitlines()
    large = len(value) > LARGE or len(lines) > LINES
    stripped = [] if bare else [line.strip() for line in lines[:LINES]]
    for part in dict.fromkeys([whole, *(line for line in stripped if not line.startswith("-----"))]):
        if len(part) < alone or part in MASK or (alone > 1 and part.lower() in _PLAIN):
            continue
        if len(part) < ALONE and not _WORD.search(part):
            continue
        texts, encoded = {part}, set[str]()
        if part is not whole or not (bare or large):
            texts, encoded = forms(part), codes(part)
        elif large and not bare:
            texts |= {repr(part)[1:-1], json.dumps(part)[1:-1]}
        for form in texts:
            found[form] = found.get(form, False) or len(part) >= ANYWHERE
        found |= dict.fromkeys(encoded, True)
    return tuple(found.items())
