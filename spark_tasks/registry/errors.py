"""Errors of a schema, which concern all records that have it."""

from __future__ import annotations

from collections.abc import Iterable

from spark_tasks.errors import DataError


class UnknownSchemaError(DataError):
    """The registry has no such schema."""


class RefusedSchemaError(DataError):
    """The registry rejects a schema because it is incompatible or invalid."""


class UnusableSchemaError(DataError):
    """The converter supports no record with this schema."""


def recursive(what: str, path: Iterable[str]) -> UnusableSchemaError:
    """Returns the error for a type that contains itself. `path`: the names of the fields that lead back to it."""
    where = ".".join(path)
    place = f", in the field {where[:200]}" if where else ""
    return UnusableSchemaError(f"{what} contains itself{place}. Arrow has no recursive types; use a schema that "
                               "repeats the type to a fixed depth, or ByteArrayConverter, which does not read records")
