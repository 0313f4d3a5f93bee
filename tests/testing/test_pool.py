"""The pool of controlled threads: an executor as concurrent.futures has them."""

from concurrent.futures import CancelledError

import pytest

from rxwow.testing import ControlledPlatform, ControlledThreadPool, explore, run


def test_runs_so_many_calls_side_by_side() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        pool = ControlledThreadPool(platform, max_workers=2)
        futures = [pool.submit(platform.sleep, seconds=1) for _ in range(5)]
        for future in futures:
            assert future.result() is None
        assert platform.monotonic() == 3
        pool.shutdown()

    explore(scenario, range(20))


def test_a_result_is_waited_for_in_virtual_time() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        with ControlledThreadPool(platform) as pool:
            future = pool.submit(platform.sleep, 10)
            with pytest.raises(TimeoutError):
                future.result(timeout=1)
            assert platform.monotonic() == 1
            assert future.exception() is None
            assert platform.monotonic() == 10

    explore(scenario, range(20))


def test_whatever_a_call_raises_is_its_outcome() -> None:
    def leave() -> None:
        raise SystemExit

    def scenario(platform: ControlledPlatform) -> None:
        with ControlledThreadPool(platform, max_workers=1) as pool:
            future = pool.submit(leave)
            assert isinstance(future.exception(), SystemExit)
            assert pool.submit(lambda: 1).result() == 1

    run(scenario)


def test_a_shut_pool_takes_no_calls_and_may_cancel_those_queued() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        pool = ControlledThreadPool(platform, max_workers=1)
        running = pool.submit(platform.sleep, 1)
        queued = pool.submit(platform.sleep, 1)
        platform.sleep(0.5)
        pool.shutdown(cancel_futures=True)
        assert platform.monotonic() == 1
        assert running.done()
        with pytest.raises(CancelledError):
            queued.result()
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(print)

    explore(scenario, range(20))
