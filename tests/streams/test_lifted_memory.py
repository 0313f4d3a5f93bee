"""A pipe of lifted operators takes the same memory however many items go through it."""

import subprocess
import sys
from pathlib import Path

import pytest

import dev

pytest.importorskip(
    "resource", reason="the peak of the memory is asked of the operating system, which has to be a Unix"
)

GROWTH_KIB = 16 * 1024
"""Far more than an allocator's moods, far less than the items of a hundredth of the pipe."""

PIPE_OF_SIX = """
import resource, sys
from reactivex import operators as ops
from rxwow.streams import BatchSubscriber, Flowable

class Window(BatchSubscriber):
    def __init__(self, demand):
        self.demand, self.taken, self.ended = demand, 0, False
    def on_subscribe(self, subscription):
        self.subscription = subscription
        subscription.request(self.demand)
    def on_next(self, value):
        self.on_next_batch((value,))
    def on_next_batch(self, items):
        self.taken += len(items)
        self.subscription.request(len(items))
    def on_error(self, error):
        raise error
    def on_completed(self):
        self.ended = True

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)

def look(pair):
    if pair[0][0] == length // 10:
        peaks.append(peak())

length, demand = map(int, sys.argv[1:])
peaks = []
window = Window(demand)
Flowable.from_iterable(range(length)).pipe(
    ops.map(lambda number: (number, bytearray(1000))),
    ops.filter(lambda item: item[0] % 7),
    ops.pairwise(),
    ops.do_action(look),
    ops.distinct_until_changed(lambda pair: pair[0][0] // 2),
    ops.buffer_with_count(10),
).subscribe(window)
assert window.ended and len(peaks) == 1
print(window.taken, peak() - peaks[0])
"""


@pytest.mark.parametrize("demand", [1, 256])
def test_ten_million_items_through_six_operators_in_constant_memory(demand: int, soak: bool) -> None:
    length = 10_000_000 if soak else 300_000
    done = subprocess.run(
        [sys.executable, "-c", PIPE_OF_SIX, str(length), str(demand)],
        cwd=Path(dev.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    batches, growth_kib = map(int, done.stdout.split())
    assert batches > length // 30
    assert growth_kib < GROWTH_KIB
