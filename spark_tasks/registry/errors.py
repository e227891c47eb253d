"""Errors of a schema, which concern all records that have it."""

from __future__ import annotations

from spark_tasks.errors import DataError


class UnknownSchemaError(DataError):
    """The registry has no such schema."""


class RefusedSchemaError(DataError):
    """The registry rejects a schema because it is incompatible or invalid."""


class UnusableSchemaError(DataError):
    """The converter supports no record with this schema."""
