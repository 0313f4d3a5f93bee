"""grouped_dispatch: keys that share a group wait for each other, and with keyed_dispatch they do not."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow import SKIP, Backoff, Flowable, KeyedExecutor, KeyedScheduler, keyed_dispatch
from rxwow.errors import InvalidArgumentError, InvalidKeyError
from rxwow.execution import ExecutionHook, MessageParallelism, available_cpus, grouped_dispatch
from rxwow.execution.stable_hash import stable_hash
from rxwow.testing import DeterministicExecutor
from tests.execution.handlers import OrderWatch

Message = tuple[str, int]

HOT = "hot"
GROUPS = 4
COLD_TOGETHER = next(f"cold-{n}" for n in range(99) if stable_hash(f"cold-{n}") % GROUPS == stable_hash(HOT) % GROUPS)
COLD_APART = next(f"cold-{n}" for n in range(99) if stable_hash(f"cold-{n}") % GROUPS != stable_hash(HOT) % GROUPS)


def key_of(message: Message) -> str:
    return message[0]


def grouped(handler: Callable[[Message], Any], executor: KeyedExecutor, **options: Any) -> Any:
    return grouped_dispatch(key_of, handler, parallelism=GROUPS, scheduler=KeyedScheduler(executor), **options)


def keyed(handler: Callable[[Message], Any], executor: KeyedExecutor, **options: Any) -> Any:
    return keyed_dispatch(key_of, handler, executor=executor, **options)


def skewed() -> list[Message]:
    """Nine of ten messages on one key, the rest on one that shares its group and one that doesn't."""
    return [(HOT if number % 10 else (COLD_TOGETHER, COLD_APART)[number // 10 % 2], number) for number in range(100)]


def times_of(make: Callable[..., Any], handler: Callable[[Message], Any], **options: Any) -> dict[str, list[float]]:
    """Run the skewed messages on virtual time; return when the messages of each key had finished."""
    finished: dict[str, list[float]] = defaultdict(list)

    with DeterministicExecutor(workers=2) as executor:

        def note(message: Any) -> None:
            finished[message[0]].append(executor.platform.monotonic())

        results: Any = Flowable.from_iterable(skewed()).pipe(make(handler, executor, **options)).do_action(note)
        Flowable.from_observable(results).run()
    return finished


async def take_a_second(message: Message) -> Message:
    await asyncio.sleep(1)
    return message


def test_keys_that_share_a_group_wait_for_each_other_and_mailboxes_do_not() -> None:
    in_groups, in_mailboxes = times_of(grouped, take_a_second), times_of(keyed, take_a_second)
    # Five messages of a cold key take five seconds, if nothing else is in their way.
    assert in_mailboxes[COLD_TOGETHER][-1] == in_mailboxes[COLD_APART][-1] == in_groups[COLD_APART][-1] == 5
    assert in_groups[COLD_TOGETHER][-1] > 60
    assert in_groups[HOT][-1] > in_mailboxes[HOT][-1] == 90


def test_a_retry_blocks_its_group_and_with_mailboxes_its_key_alone() -> None:
    def fail_once() -> Callable[[Message], Message]:
        failed: set[Message] = set()

        def handle(message: Message) -> Message:
            if message[0] == HOT and message not in failed:
                failed.add(message)
                raise ValueError(message)
            return message

        return handle

    backoff = Backoff(attempts=2, delay=1.0)
    in_groups = times_of(grouped, fail_once(), on_failure=backoff)
    in_mailboxes = times_of(keyed, fail_once(), on_failure=backoff)
    assert in_mailboxes[COLD_TOGETHER][-1] == in_mailboxes[COLD_APART][-1] == in_groups[COLD_APART][-1] == 0
    assert in_groups[COLD_TOGETHER][-1] > 60


@given(
    messages=st.lists(st.tuples(st.sampled_from("abcdef"), st.none()), max_size=60),
    parallelism=st.integers(1, 8),
    window=st.integers(1, 20),
)
def test_the_results_are_those_of_keyed_dispatch(
    messages: list[tuple[str, None]], parallelism: int, window: int
) -> None:
    numbered = [(key, number) for number, (key, _) in enumerate(messages)]
    watch = OrderWatch(("plain", "async"))
    with KeyedExecutor(2) as executor:
        dispatch = grouped_dispatch(
            lambda message: message[0],
            watch,
            parallelism=parallelism,
            scheduler=KeyedScheduler(executor),
            max_in_flight=window,
        )
        results: Any = Flowable.from_iterable(numbered).pipe(dispatch).to_list()
        handled = Flowable.from_observable(results).run()
    assert watch.breaches == []
    assert sorted(handled, key=lambda message: message[1]) == numbered


def test_messages_of_one_group_are_one_at_a_time() -> None:
    running: set[int] = set()

    async def handle(message: Message) -> None:
        group = stable_hash(message[0]) % GROUPS
        assert group not in running
        running.add(group)
        await asyncio.sleep(1)
        running.discard(group)

    with DeterministicExecutor() as executor:
        Flowable.from_iterable([(f"key-{n}", n) for n in range(20)]).pipe(grouped(handle, executor)).run()


def test_a_key_that_has_no_stable_hash_fails_its_message() -> None:
    skipped: list[tuple[Any, Exception]] = []

    class Skipped(ExecutionHook):
        def message_skipped(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
            skipped.append((item, error))

    with KeyedExecutor(1) as executor:
        executor.add_hook(Skipped())
        dispatch: Any = grouped_dispatch(
            lambda item: item, str, scheduler=KeyedScheduler(executor), on_failure=SKIP, parallelism=2
        )
        results: Any = Flowable.from_iterable([1, 2.5, "a"]).pipe(dispatch).to_list()
        assert sorted(Flowable.from_observable(results).run()) == ["1", "a"]
    assert [(item, type(error)) for item, error in skipped] == [(2.5, InvalidKeyError)]
    assert "must be a str, bytes, int, UUID" in str(skipped[0][1])


def test_there_are_sixty_four_groups_for_each_cpu_by_default() -> None:
    assert 64 * available_cpus() == MessageParallelism.DEFAULT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": 3}, "key must be"),
        ({"parallelism": 0}, "parallelism must be"),
        ({"scheduler": 3}, "scheduler must be"),
        ({"handler": 3}, "handler must be"),
        ({"max_in_flight": 0}, "max_in_flight must be"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    arguments: Any = {"key": str, "handler": str, **options}
    with pytest.raises(InvalidArgumentError, match=message):
        grouped_dispatch(**arguments)
