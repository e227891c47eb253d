"""The bodies of requests, as marshmallow schemas that are as strict as Kafka Connect's parser, with its messages.

Clients and tests look for `Cannot deserialize value`, `Cannot construct instance` and `Unrecognized field`. A body of
the wrong shape is 500, as in Kafka Connect. Values of config maps are strings: numbers and booleans are kept as they
were written, null stays null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn

from marshmallow import Schema, ValidationError, fields
from typing_extensions import override

from rest.errors import HttpError
from rest.json_text import UnusableJsonError, loads, plain
from storage.ids import TargetState

ENTITIES = "org.apache.kafka.connect.runtime.rest.entities"
STRING_MAP = "java.util.LinkedHashMap<java.lang.String,java.lang.String>"
OBJECT_MAP = "java.util.LinkedHashMap<java.lang.String,java.lang.Object>"

INITIAL_STATES = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


def _kind(value: Any) -> str:
    """Jackson's description of a JSON value."""
    match value:
        case dict():
            return "Object value (token `JsonToken.START_OBJECT`)"
        case list():
            return "Array value (token `JsonToken.START_ARRAY`)"
        case bool():
            return f"Boolean value (token `JsonToken.VALUE_{str(value).upper()}`)"
        case int():
            return "Integer value (token `JsonToken.VALUE_NUMBER_INT`)"
        case float():
            return "Floating-point value (token `JsonToken.VALUE_NUMBER_FLOAT`)"
        case _:
            return "String value (token `JsonToken.VALUE_STRING`)"


def _refuse(java_type: str, value: Any) -> NoReturn:
    raise ValidationError(f"Cannot deserialize value of type `{java_type}` from {_kind(value)}")


def _no_creator(java_class: str, value: Any) -> NoReturn:
    match value:
        case bool():
            kind, shown = "boolean/Boolean", f"boolean value ({_text(value)})"
        case int():
            kind, shown = "int/Int", f"Number value ({value})"
        case float():
            kind, shown = "double/Double", f"Number value ({value})"
        case _:
            kind, shown = "String", f"String value ('{value}')"
    raise ValidationError(f"Cannot construct instance of `{java_class}` (although at least one Creator exists): "
                          f"no {kind}-argument constructor/factory method to deserialize from {shown}")


def _text(value: Any) -> str:
    """A scalar as Jackson converts it to a string."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Text(fields.Field[str]):
    """A string; other scalars are kept as they were written."""

    java_type = "java.lang.String"

    @override
    def _deserialize(self, value: Any, *_args: Any, **_kwargs: Any) -> str:
        if isinstance(value, dict | list):
            _refuse(self.java_type, value)
        return _text(value)


class _Map(fields.Field[dict[str, Any]], ABC):
    """An object with any keys."""

    java_type: ClassVar[str]

    @override
    def _deserialize(self, value: Any, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
        if value == "":
            raise ValidationError('Cannot coerce empty String ("") to element of `java.util.LinkedHashMap` (but could '
                                  "if coercion was enabled using `CoercionConfig`)")
        if isinstance(value, str):
            _no_creator("java.util.LinkedHashMap", value)
        if not isinstance(value, dict):
            _refuse(self.java_type, value)
        return {key: self.convert(item) for key, item in value.items()}

    @abstractmethod
    def convert(self, item: Any) -> Any:
        """Converts one of the values."""


class StringMap(_Map):
    """A config: its values are strings or null."""

    java_type = STRING_MAP
    _item = Text()

    @override
    def convert(self, item: Any) -> str | None:
        """The value as text; None for null."""
        return None if item is None else self._item.deserialize(item)


class ObjectMap(_Map):
    """A source partition or offset: any JSON."""

    java_type = OBJECT_MAP

    @override
    def convert(self, item: Any) -> Any:
        """The value with ordinary numbers."""
        return plain(item)


class ListOf(fields.Field[list[Any]]):
    """A JSON array. `java_item`: the Java type of its items, for messages."""

    def __init__(self, item: fields.Field[Any], java_item: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item
        self.java_type = f"java.util.ArrayList<{java_item}>"

    @override
    def _deserialize(self, value: Any, *_args: Any, **_kwargs: Any) -> list[Any]:
        if not isinstance(value, list):
            _refuse(self.java_type, value)
        return [None if item is None else self.item.deserialize(item) for item in value]


class InitialState(fields.Field[TargetState]):
    """The state that a new connector starts in (KIP-980)."""

    java_type = f"{ENTITIES}.CreateConnectorRequest$InitialState"

    @override
    def _deserialize(self, value: Any, *_args: Any, **_kwargs: Any) -> TargetState:
        if isinstance(value, dict | list):
            _refuse(self.java_type, value)
        name = _text(value).upper()
        if name not in INITIAL_STATES:
            raise ValidationError(f"Cannot construct instance of `{self.java_type}`, problem: No enum constant "
                                  f"{self.java_type.replace('$', '.')}.{name}")
        return INITIAL_STATES[name]


class _Body(Schema):
    """An object with known fields, all optional."""

    java_class: ClassVar[str]


class Entity(fields.Field[dict[str, Any]]):
    """An object with a schema."""

    def __init__(self, schema: _Body, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.schema = schema

    @override
    def _deserialize(self, value: Any, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
        if isinstance(value, list):
            _refuse(self.schema.java_class, value)
        if not isinstance(value, dict):
            _no_creator(self.schema.java_class, value)
        for name in value:
            if name not in self.schema.fields:
                raise ValidationError(self._unknown(name))
        loaded: dict[str, Any] = self.schema.load(value)
        return {**dict.fromkeys(self.schema.fields), **loaded}

    def _unknown(self, name: str) -> str:
        known = list(self.schema.fields)
        count = "one known property" if len(known) == 1 else f"{len(known)} known properties"
        names = ", ".join(f'"{k}"' for k in known)
        return (f'Unrecognized field "{name}" (class {self.schema.java_class}), not marked as ignorable '
                f"({count}: {names})")


class OffsetBody(_Body):
    """One partition with its offset (KIP-875)."""

    java_class = f"{ENTITIES}.ConnectorOffset"
    partition = ObjectMap(allow_none=True)
    offset = ObjectMap(allow_none=True)


class OffsetsBody(_Body):
    """Offsets to alter (KIP-875)."""

    java_class = f"{ENTITIES}.ConnectorOffsets"
    offsets = ListOf(Entity(OffsetBody()), OffsetBody.java_class, allow_none=True)


class CreateBody(_Body):
    """A connector to create. Like Kafka Connect 4.3.1, it refuses `initial_offsets` (KIP-995) as unknown."""

    java_class = f"{ENTITIES}.CreateConnectorRequest"
    config = StringMap(allow_none=True)
    name = Text(allow_none=True)
    initial_state = InitialState(allow_none=True)


class TrialBody(_Body):
    """A configuration to try, an extension of heeler. `records` and `limit` are checked where they are used."""

    java_class = f"{ENTITIES}.TrialRequest"
    config = StringMap(allow_none=True)
    records = fields.Raw(allow_none=True)
    limit = fields.Raw(allow_none=True)


CREATE = Entity(CreateBody())
TRIAL = Entity(TrialBody())
ANYTHING = fields.Raw(allow_none=True)
OFFSETS = Entity(OffsetsBody())
CONFIG = StringMap()
TASK_CONFIGS = ListOf(StringMap(), "java.util.Map<java.lang.String,java.lang.String>")


def parse(body: bytes, shape: fields.Field[Any], wrong: int = 500) -> Any:
    """Parses a body of a shape; None for an empty body and for `null`.

    Raises HttpError for the first error: with status `wrong` (500, as in Kafka Connect), or with 400 for valid JSON
    that cannot be used.
    """
    try:
        value = loads(body)
        return None if value is None else shape.deserialize(value)
    except ValidationError as error:
        raise HttpError(wrong, _first(error.messages)) from None
    except UnusableJsonError as error:
        raise HttpError(400, f"Cannot parse the request's body as JSON: {error}") from None
    except ValueError as error:
        raise HttpError(wrong, f"Cannot parse the request's body as JSON: {error}") from None


def _first(messages: Any) -> str:
    while not isinstance(messages, str):
        messages = next(iter(messages.values() if isinstance(messages, dict) else messages))
    return messages
