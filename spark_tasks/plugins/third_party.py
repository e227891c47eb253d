"""Tells third parties' Python code from heeler's own, which is known to return, and calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from typing_extensions import override

from spark_tasks import spaces

_OURS: Final = ("spark_tasks", "heeler")  # classes of heeler.java_host represent Java's, which run in a host



def is_third_party(code: Any) -> bool:
    """Returns whether a class, a function or the class of an object is not heeler's own."""
    module = str(getattr(code, "__module__", None) or type(code).__module__)
    return spaces.is_in_a_space(module) or module.partition(".")[0] not in _OURS


class Calls(Protocol):
    """Calls functions of third parties where they cannot harm the worker. `kill` may be called on any thread."""

    def call(self, plugin: type[Any], function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what the function, which runs code of the plugin, returns, or raises what it raises."""

    def kill(self) -> None:
        """Ends a call in progress, which raises a ConnectError, and so do later ones."""


class CallsHere(Calls):
    """Calls them on the worker, where a call cannot be ended."""

    def __init__(self, connector: str) -> None:
        """`connector`: as for MakeCalls."""

    @override
    def call(self, plugin: type[Any], function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    @override
    def kill(self) -> None:
        """Nothing."""


MakeCalls = Callable[[str], Calls]
"""Creates the Calls for one connector, by its name."""
