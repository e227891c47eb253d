from __future__ import annotations

import threading

import pytest

from spark_tasks.errors import StartCancelledError
from spark_tasks.plugin_processes.call_limit import CallLimit


class Mine:
    pass


class Yours:
    pass


def test_calls_of_a_plugin_wait_for_each_other_and_those_of_another_one_do_not() -> None:
    limit, begun = CallLimit(2), threading.Event()

    def wait_for_a_turn() -> None:
        with limit.take(Mine, lambda: False):
            begun.set()

    waiting = threading.Thread(target=wait_for_a_turn)
    with limit.take(Mine, lambda: False), limit.take(Yours, lambda: False):
        with limit.take(Mine, lambda: False):
            waiting.start()
            with pytest.raises(StartCancelledError, match="2 other calls of Mine have not returned"), \
                    limit.take(Mine, lambda: True):
                raise AssertionError
            assert not begun.is_set()
        assert begun.wait(10)
    waiting.join()
