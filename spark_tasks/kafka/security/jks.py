"""Converts key and trust stores in Java's old JKS format to PKCS12, with Java's keytool."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final

from spark_tasks.errors import ConfigError

_MAGIC: Final = b"\xfe\xed\xfe\xed"
MAX_KEYTOOL_S: Final = 60  # keytool takes a second on an idle machine
_KEYS = re.compile(r"^Alias name: (.*)\n.*\nEntry type: PrivateKeyEntry$", re.MULTILINE)
_ERROR = re.compile(r"^keytool error: (?:[\w.$]+: )?(.*)$", re.MULTILINE)
_conversion = Lock()  # a hundred tasks that start at the same time with the same store wait for one keytool


def is_jks(content: bytes) -> bool:
    """Returns whether a store has the JKS format, Java's default before PKCS12."""
    return content.startswith(_MAGIC)


def to_pkcs12(content: bytes, password: str | None, key_password: str | None) -> tuple[bytes, str]:
    """Returns the store in PKCS12 format and its new password. Cached. As in Java, `password` None skips the integrity
    check of the store. `key_password`: that of the private key, if it differs. Raises ConfigError.
    """
    with _conversion:
        return converted(content, password, key_password)


@lru_cache(maxsize=32)
def converted(content: bytes, password: str | None, key_password: str | None) -> tuple[bytes, str]:
    """The cached part of `to_pkcs12`."""
    keytool, new_password = _find_keytool(), secrets.token_urlsafe()
    given = {"HEELER_OLD": password, "HEELER_KEY": key_password, "HEELER_NEW": new_password}
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}  # English messages; passwords need not be ASCII
    environment |= {name: value for name, value in given.items() if value is not None}

    def run(*arguments: str) -> str:
        return _run([keytool, *arguments], environment)

    with TemporaryDirectory(prefix="heeler-jks-") as folder:  # readable by this user only
        old, new = Path(folder, "old.jks"), Path(folder, "new.p12")
        old.write_bytes(content)
        known = password is not None
        options = ["-srcstorepass:env", "HEELER_OLD"] if known else []
        if key_password not in (None, password):  # keytool accepts a key's password only with the key's alias
            listed = run("-list", "-v", "-keystore", str(old), *(["-storepass:env", "HEELER_OLD"] if known else []))
            if key := _KEYS.search(listed):
                options += ["-srcalias", key[1], "-srckeypass:env", "HEELER_KEY"]
        run("-importkeystore", "-noprompt", "-srckeystore", str(old), "-srcstoretype", "jks", *options,
            "-destkeystore", str(new), "-deststoretype", "pkcs12", "-deststorepass:env", "HEELER_NEW")
        return new.read_bytes(), new_password


def _find_keytool() -> str:
    """Returns the keytool of the Java that runs Spark and Kafka: in JAVA_HOME, otherwise on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    keytool = java and shutil.which("keytool", path=str(Path(java).resolve().parent))
    if not keytool:
        where = f"next to {java}" if java else f"in JAVA_HOME ({home})" if home else "as there is no java on the PATH"
        raise ConfigError(f"there is no keytool {where}, but JKS stores need it: install a complete Java runtime, or "
                          "convert the store elsewhere (keytool -importkeystore -srckeystore OLD -destkeystore NEW "
                          "-deststoretype pkcs12)")
    return keytool


def _run(command: list[str], environment: dict[str, str]) -> str:
    """Runs keytool and returns its output. Its standard input is empty, so that it cannot wait for a password."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            command, env=environment, input="", capture_output=True, encoding="utf-8", errors="replace",
            timeout=MAX_KEYTOOL_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"cannot convert a JKS store, as {command[0]} does not work: {error}") from None
    if done.returncode:
        match = _ERROR.search(done.stdout)
        reason = match[1] if match else (done.stdout + done.stderr).strip()[-200:]
        raise ConfigError(f"keytool cannot read this JKS store ({reason}): check the store's password, the key's "
                          "password (ssl.key.password), and that the file is complete")
    return done.stdout
