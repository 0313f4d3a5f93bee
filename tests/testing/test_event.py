"""Controlled events: waits in virtual time."""

from rxwow.testing import ControlledPlatform, explore, run


def test_a_wait_takes_virtual_time() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        event = platform.event()
        assert not event.wait(timeout=86_400)
        assert platform.monotonic() == 86_400
        assert not event.wait(timeout=0)
        assert platform.monotonic() == 86_400

    run(scenario)


def test_a_set_event_lets_everyone_pass_until_it_is_cleared() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        event = platform.event()
        passed: list[bool] = []
        threads = [platform.thread(lambda: passed.append(event.wait()), name) for name in "abc"]
        for thread in threads:
            thread.start()
        event.set()
        for thread in threads:
            thread.join()
        assert passed == [True, True, True]
        assert event.is_set()
        assert event.wait(timeout=1)
        event.clear()
        assert not event.is_set()
        assert not event.wait(timeout=1)

    explore(scenario, range(50))


def test_an_event_set_when_the_time_is_up_may_come_early_or_late() -> None:
    outcomes: set[bool] = set()

    def scenario(platform: ControlledPlatform) -> None:
        event = platform.event()

        def set_later() -> None:
            platform.sleep(1)
            event.set()

        thread = platform.thread(set_later, "setter")
        thread.start()
        outcomes.add(event.wait(timeout=1))
        thread.join()
        assert event.wait(timeout=1)
        assert platform.monotonic() == 1

    explore(scenario, range(100))
    assert outcomes == {False, True}
