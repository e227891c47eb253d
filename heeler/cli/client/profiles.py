"""The cluster that a command talks to, from options, the environment, or a file of profiles."""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from heeler.errors import SetupError

DEFAULT_URL: Final = "http://localhost:8083"
_KEYS: Final = ("url", "user", "password", "password-file", "ca", "cert", "key", "insecure")

_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}  # YAML's words


@dataclass(frozen=True, slots=True)
class Profile:
    """URLs that are tried in turn, user and password (HTTP basic authentication), and PEM files for https."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    insecure: bool = False  # accepts any certificate

    def headers(self) -> dict[str, str]:
        """The headers that authenticate requests. Raises SetupError if the file with the password cannot be read."""
        if self.user is None:
            return {}
        password = self.password or ""
        if self.password_file is not None:
            try:
                password = self.password_file.read_text(encoding="utf-8-sig").strip()
            except (OSError, ValueError) as error:
                raise SetupError(f"The password file {self.password_file} cannot be read: {error}") from error
        return {"Authorization": f"Basic {base64.b64encode(f'{self.user}:{password}'.encode()).decode()}"}

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings; None if no URL is https. Raises SetupError for files that cannot be used."""
        if not any(url.startswith("https:") for url in self.urls):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca and str(self.ca))
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            names = ", ".join(str(f) for f in (self.ca, self.cert, self.key) if f is not None)
            raise SetupError(f"Cannot read certificates and keys in PEM from {names}: {error}") from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def profile_of(urls: Sequence[str], name: str | None, environ: Mapping[str, str]) -> Profile:
    """The first of: --url; --profile; HEELER_URL; HEELER_PROFILE; the default profile of the file; localhost:8083.

    Raises SetupError for a missing or invalid profile.
    """
    if urls:
        return _with_urls(urls, "--url")
    if name is None and environ.get("HEELER_URL", "").strip():
        return _with_urls([environ["HEELER_URL"]], "HEELER_URL")
    file = profiles_file(environ)
    wanted = name or environ.get("HEELER_PROFILE")
    if not file.exists():
        if wanted:
            raise SetupError(f"There is no profile {wanted}: {file} does not exist")
        if environ.get("HEELER_PROFILES"):
            raise SetupError(f"{file}, which HEELER_PROFILES names, does not exist")
        return Profile((DEFAULT_URL,))
    return parse_profiles(_read(file), wanted, str(file))


def profiles_file(environ: Mapping[str, str]) -> Path:
    """HEELER_PROFILES, or heeler/profiles.yaml in the user's folder of configurations."""
    if environ.get("HEELER_PROFILES"):
        return Path(environ["HEELER_PROFILES"])
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or _at_home("~")) / ".config"
    return Path(base) / "heeler" / "profiles.yaml"


def parse_profiles(text: str, wanted: str | None, file: str) -> Profile:
    """The wanted profile, or the default one, of a file's text. Raises SetupError."""
    import yaml

    try:
        content = yaml.load(text, yaml.BaseLoader) or {}  # noqa: S506 - creates only strings, lists and mappings
    except (yaml.YAMLError, RecursionError) as error:
        from heeler.cli.configs.config_files import why_unreadable

        raise SetupError(f"{file}: {why_unreadable(error)}") from error
    profiles = content.get("profiles", {}) if isinstance(content, dict) else None
    if not isinstance(profiles, dict) or content.keys() - {"profiles", "default"}:
        raise SetupError(f"{file} must map names to profiles under the key profiles; default may name one")
    name = wanted or content.get("default")
    if name is None:
        return Profile((DEFAULT_URL,))
    if not isinstance(name, str) or name not in profiles:
        available = ", ".join(map(str, profiles)) or "none"
        raise SetupError(f"There is no profile {name} in {file}; available: {available}")
    return _profile(profiles[name], f"Profile {name} in {file}")


def _profile(fields: Any, where: str) -> Profile:
    if not isinstance(fields, dict):
        raise SetupError(f"{where} must have keys and values")
    unknown = sorted(map(str, fields.keys() - set(_KEYS)))
    if unknown:
        raise SetupError(f"{where} has the unknown key {unknown[0]}; known: {', '.join(_KEYS)}")
    urls = fields.get("url", DEFAULT_URL)
    texts = {key: value for key, value in fields.items() if key != "url"}
    if any(not isinstance(value, str) for value in [*texts.values(), *(urls if isinstance(urls, list) else [urls])]):
        raise SetupError(f"{where}: each value must be a string; url may be a list of strings")
    files = {key.replace("-", "_"): Path(_at_home(texts[key])) for key in ("password-file", "ca", "cert", "key")
             if key in texts}
    base = _with_urls(urls if isinstance(urls, list) else [urls], where)
    insecure = _BOOLEANS.get(texts.get("insecure", "false").lower())
    if insecure is None:
        raise SetupError(f"{where}: insecure must be true or false, not {texts['insecure']}")
    return Profile(base.urls, texts.get("user", base.user), texts.get("password", base.password), **files,
                   insecure=insecure)


def _with_urls(given: Sequence[str], where: str) -> Profile:
    """A profile with these URLs, each of which may be several, separated by commas; user and password, in which
    special characters are percent-encoded, are removed from them.
    """
    urls, user, password = [], None, None
    for url in (part for text in given for part in text.replace(",", " ").split()):
        full = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(full)
            port = f":{parts.port}" if parts.port else ""
            wrong = parts.scheme not in ("http", "https") or not parts.hostname or bool(parts.query or parts.fragment)
        except ValueError:
            wrong = True
        if wrong:
            shown = re.sub("//.*@", "//", full)  # without its password
            raise SetupError(f"{where}: {shown} is not the address of a worker, such as {DEFAULT_URL}")
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        urls.append(f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}")
    if not urls:
        raise SetupError(f"{where} has no worker address")
    return Profile(tuple(urls), user, password)


def _at_home(path: str) -> str:
    """The path with the home folder in place of ~; unchanged if there is no such user."""
    return os.path.expanduser(path)  # noqa: PTH111 - Path's raises RuntimeError


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise SetupError(f"The profiles in {file} cannot be read: {error}") from error
