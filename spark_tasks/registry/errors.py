"""Errors about a schema: all records that have it are bad."""

from __future__ import annotations

from spark_tasks.errors import DataError


class UnknownSchemaError(DataError):
    """The registry has no such schema."""


class RefusedSchemaError(DataError):
    """The registry does not accept a schema: it is incompatible or invalid."""


class UnusableSchemaError(DataError):
    """No record with this schema can be read or written here."""
