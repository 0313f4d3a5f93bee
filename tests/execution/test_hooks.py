"""Hooks hear what can't be raised, and can't break a run."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import InvalidArgumentError
from rxwow.execution import ExecutionHook


class Heard(ExecutionHook):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def message_skipped(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
        self.events.append(("skipped", dispatch, key, item, type(error)))

    def message_failed(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
        self.events.append(("failed", dispatch, key, item, type(error)))

    def message_retried(self, dispatch: str, key: Hashable, item: Any, error: Exception, delay: float) -> None:
        self.events.append(("retried", dispatch, key, item, delay))


def refuse(number: int) -> int:
    if number % 2:
        raise ValueError(number)
    return number


def test_a_hook_hears_of_skipped_failed_and_retried_messages() -> None:
    hook = Heard()
    retried: set[int] = set()

    def decide(number: int, _: Exception) -> Any:
        if number == 3 and number not in retried:
            retried.add(number)
            return Retry(0)
        return SKIP if number < 5 else FAIL

    with KeyedExecutor(workers=1) as executor:
        executor.add_hook(hook)
        dispatch = keyed_dispatch(lambda _: "k", refuse, executor=executor, on_failure=decide, name="refusing")
        with pytest.raises(ValueError, match="5"):
            Flowable.from_iterable(range(6)).pipe(dispatch).run()
    assert hook.events == [
        ("skipped", "refusing", "k", 1, ValueError),
        ("retried", "refusing", "k", 3, 0),
        ("skipped", "refusing", "k", 3, ValueError),
        ("failed", "refusing", "k", 5, ValueError),
    ]


def test_a_hook_that_raises_is_logged_and_taken_out(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ExecutionHook):
        calls = 0

        def message_skipped(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
            self.calls += 1
            raise RuntimeError("broken hook")

    broken, heard = Broken(), Heard()
    with KeyedExecutor(workers=1) as executor:
        executor.add_hook(broken)
        executor.add_hook(heard)
        dispatch = keyed_dispatch(lambda _: "k", refuse, executor=executor, on_failure=SKIP)
        assert Flowable.from_iterable(range(6)).pipe(dispatch).to_list().run() == [0, 2, 4]
    assert broken.calls == 1
    assert len(heard.events) == 3
    assert [record.levelname for record in caplog.records if "the hook is taken out" in record.message] == ["ERROR"]


def test_a_hook_that_was_removed_hears_nothing() -> None:
    hook = Heard()
    with KeyedExecutor(workers=1) as executor:
        executor.add_hook(hook)
        executor.remove_hook(hook)
        dispatch = keyed_dispatch(lambda _: "k", refuse, executor=executor, on_failure=SKIP)
        Flowable.from_iterable(range(6)).pipe(dispatch).run()
    assert hook.events == []


def test_only_a_hook_is_a_hook() -> None:
    with pytest.raises(InvalidArgumentError, match="hook must be an ExecutionHook"):
        KeyedExecutor(workers=1).add_hook(print)  # type: ignore[arg-type]
