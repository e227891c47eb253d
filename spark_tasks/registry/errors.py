"""What a registry says of a schema: the records that have it are bad, and all of them."""

from __future__ import annotations

from spark_tasks.errors import DataError


class UnknownSchemaError(DataError):
    """The registry has no such schema."""


class RefusedSchemaError(DataError):
    """The registry does not take a schema: it is not compatible, or no schema at all."""


class UnusableSchemaError(DataError):
    """No record with this schema can be read or written here."""
