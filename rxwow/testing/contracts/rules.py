"""The rules of Reactive Streams (JVM 1.0.4) §1-§3: what each says, and which test checks it or why none can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        number: section and number, as the specification counts them: `"1.1"`.
        text: what it says, with RxPY's method names.
        tested_by: the tests that check it, each as class and method.
        untested: why no test can check it; empty if there is a test.
    """

    number: str
    text: str
    tested_by: tuple[str, ...] = ()
    untested: str = ""


def _publisher(number: str, text: str, *tests: str) -> Rule:
    return Rule(number, text, tuple(f"PublisherContract.{test}" for test in tests))


def _subscriber(number: str, text: str, *tests: str) -> Rule:
    return Rule(number, text, tuple(f"SubscriberContract.{test}" for test in tests))


_SECTION_1: Final = (
    _publisher(
        "1.1",
        "a publisher never gives a subscriber more items than that subscriber has requested",
        "test_1_01_emits_at_most_what_was_requested",
    ),
    _publisher(
        "1.2",
        "it may give fewer, and end with on_completed or on_error",
        "test_1_02_ends_when_more_is_requested_than_there_is",
    ),
    _publisher("1.3", "signals come one after another, never two at a time", "test_1_03_signals_one_at_a_time"),
    _publisher("1.4", "a publisher that fails calls on_error", "test_1_04_failure_is_signalled"),
    _publisher("1.5", "a publisher that reaches its end calls on_completed", "test_1_05_end_is_signalled"),
    _publisher(
        "1.6",
        "after on_error or on_completed the subscription counts as cancelled",
        "test_1_06_ended_subscription_is_cancelled",
    ),
    _publisher("1.7", "after on_error or on_completed no further signal comes", "test_1_07_nothing_after_the_end"),
    _publisher(
        "1.8",
        "a subscriber that has cancelled eventually gets no more signals",
        "test_1_08_stops_when_cancelled_inside_a_signal",
    ),
    _publisher(
        "1.9",
        "subscribe calls on_subscribe before any other signal, and doesn't raise; also a refusal comes by on_error",
        "test_1_09_calls_on_subscribe_first",
    ),
    _publisher(
        "1.10",
        "subscribe may be called any number of times, with another subscriber each time",
        "test_1_10_each_subscriber_is_answered",
    ),
    _publisher(
        "1.11",
        "a publisher may serve several subscribers, and decides whether each gets all items or a part of them",
        "test_1_11_subscribers_do_not_disturb_each_other",
    ),
)

_SECTION_2: Final = (
    _subscriber("2.1", "a subscriber asks for items with request(n)", "test_2_01_requests_items"),
    Rule(
        "2.2",
        "a subscriber that takes long should do its work elsewhere and not hold the publisher up",
        untested="it is a recommendation, and what counts as long is known to the application alone",
    ),
    _subscriber(
        "2.3",
        "on_completed and on_error call neither the subscription nor the publisher",
        "test_2_03_end_calls_nothing_on_the_subscription",
    ),
    _subscriber(
        "2.4",
        "after on_completed or on_error a subscriber counts its subscription as cancelled",
        "test_2_04_ended_subscription_is_left_alone",
    ),
    _subscriber(
        "2.5",
        "a subscriber that has a subscription cancels a second one",
        "test_2_05_second_subscription_is_cancelled",
    ),
    _subscriber("2.6", "a subscriber that needs no more items cancels", "test_2_06_cancels_what_is_no_longer_needed"),
    _subscriber(
        "2.7",
        "a subscriber calls request and cancel one after another",
        "test_2_07_calls_the_subscription_one_at_a_time",
    ),
    _subscriber(
        "2.8",
        "a subscriber copes with items that come after its cancel, if they were requested",
        "test_2_08_takes_items_after_its_cancel",
    ),
    _subscriber("2.9", "a subscriber copes with on_completed without a request", "test_2_09_takes_an_early_end"),
    _subscriber("2.10", "a subscriber copes with on_error without a request", "test_2_10_takes_an_early_error"),
    Rule(
        "2.11",
        "a signal happens before the subscriber's processing of it",
        untested="only the subscriber knows where its processing begins; a test sees the calls alone",
    ),
    _publisher(
        "2.12",
        "on_subscribe is called at most once for each subscriber",
        "test_2_12_calls_on_subscribe_once",
    ),
    Rule(
        "2.13",
        "a subscriber's methods don't raise; one that does counts as cancelled, and the error is told to somebody",
        (
            "SubscriberContract.test_2_13_signals_return_normally",
            "PublisherContract.test_2_13_subscriber_that_raises_counts_as_cancelled",
        ),
    ),
)

_SECTION_3: Final = (
    Rule(
        "3.1",
        "request and cancel are called by the subscriber that the subscription was given to",
        untested="nothing in a call tells on whose behalf it is made",
    ),
    _publisher(
        "3.2",
        "request may be called inside on_subscribe and on_next",
        "test_3_02_request_works_inside_signals",
    ),
    _publisher(
        "3.3",
        "the depth to which request and on_next call each other on one stack is bounded",
        "test_3_03_stack_stays_flat",
    ),
    _publisher("3.4", "request doesn't hold up its caller", "test_3_04_request_comes_back"),
    _publisher(
        "3.5",
        "cancel doesn't hold up its caller, can be repeated, and may be called by several threads",
        "test_3_05_cancel_comes_back_on_any_thread",
    ),
    _publisher("3.6", "request does nothing after a cancel", "test_3_06_request_after_cancel_does_nothing"),
    _publisher("3.7", "cancel does nothing after a cancel", "test_3_07_cancel_after_cancel_does_nothing"),
    _publisher("3.8", "requests add up", "test_3_08_requests_add_up", "test_3_08_requests_of_threads_add_up"),
    Rule(
        "3.9",
        "request(n) with n < 1 ends the stream with on_error, here an InvalidRequestError",
        (
            "PublisherContract.test_3_09_invalid_request_ends_with_an_error",
            "PublisherContract.test_3_09_invalid_request_inside_a_signal_ends_with_an_error",
            "SubscriberContract.test_3_09_requests_at_least_one",
        ),
    ),
    Rule(
        "3.10",
        "request may call on_next before it returns",
        (
            "PublisherContract.test_3_10_request_emits_before_it_returns",
            "SubscriberContract.test_3_10_takes_items_inside_request",
        ),
    ),
    Rule(
        "3.11",
        "request may call on_completed or on_error before it returns",
        (
            "PublisherContract.test_3_11_request_ends_before_it_returns",
            "SubscriberContract.test_3_11_takes_an_end_inside_request",
        ),
    ),
    _publisher(
        "3.12",
        "cancel makes the publisher eventually stop",
        "test_3_12_stops_when_cancelled_from_outside",
    ),
    _publisher(
        "3.13",
        "after a cancel the publisher eventually lets go of the subscriber",
        "test_3_13_lets_go_of_a_subscriber_that_cancelled",
        "test_3_13_lets_go_of_a_subscriber_after_the_end",
    ),
    Rule(
        "3.14", "a publisher may shut down when its last subscriber cancels", untested="it permits and demands nothing"
    ),
    _publisher("3.15", "cancel doesn't raise", "test_3_15_cancel_returns_normally"),
    _publisher("3.16", "request doesn't raise", "test_3_16_request_returns_normally"),
    _publisher(
        "3.17",
        "any number of requests, and a demand up to UNBOUNDED; more than that may count as everything",
        "test_3_17_demand_reaches_unbounded",
        "test_3_17_many_requests_are_served",
    ),
)

RULES: Final[dict[str, Rule]] = {rule.number: rule for rule in (*_SECTION_1, *_SECTION_2, *_SECTION_3)}
"""All rules of §1-§3 by number."""
