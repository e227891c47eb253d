"""Checks the responses of a registry before its client uses and caches them: a proxy or another service may have sent
them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

MAX_BYTES: Final = 64 * 2**20  # of a response; a registry stores schemas as records of Kafka, which are smaller
_TYPES: Final = {"subject": str, "version": int, "id": int, "guid": str, "schemaType": str, "schema": str,
                 "references": list}  # fmt: skip
_REFERENCE: Final = {"name": str, "subject": str, "version": int}
_WORDS: Final = {str: "a text", int: "a whole number", list: "a list"}


class ForeignResponseError(ValueError):
    """A response that does not come from a schema registry."""


def checked(response: Any, required: tuple[str, ...]) -> dict[str, Any]:
    """Returns the members of a response with a schema that heeler uses. Raises ForeignResponseError."""
    members = _members(response, _TYPES, required)
    for reference in members.get("references", ()):
        _members(reference, _REFERENCE, tuple(_REFERENCE))
    if not -(2**31) <= members.get("id", 0) < 2**31:
        raise ForeignResponseError(f"the id {members['id']} has more than 32 bits")
    try:
        uuid.UUID(members.get("guid", "0" * 32))
    except ValueError as error:
        raise ForeignResponseError(f"the member guid is not a UUID: {members['guid'][:100]!r}") from error
    return members


def _members(value: Any, types: Mapping[str, type], required: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ForeignResponseError(f"it has {str(value)[:100]!r} where a JSON object is expected")
    members = {key: value[key] for key in types if value.get(key) is not None}
    for key in required:
        if key not in members:
            raise ForeignResponseError(f"the member {key} is missing")
    for key, member in members.items():
        if not isinstance(member, types[key]) or isinstance(member, bool):
            raise ForeignResponseError(f"the member {key} is not {_WORDS[types[key]]}")
    return members


def read_body(response: Any, seconds: float) -> None:
    """Reads the body of a response (httpx2) that may be endless. Raises ForeignResponseError if it is too large, and
    TimeoutError if it has not arrived after these seconds.
    """
    body, end = bytearray(), time.monotonic() + seconds
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ForeignResponseError(f"it has more than {MAX_BYTES} bytes")
        if time.monotonic() > end:
            raise TimeoutError(f"the response has not arrived completely after {seconds:g} s")
    response._content = bytes(body)  # noqa: SLF001 - where the client's HTTP library looks for it
