"""The fluent methods: those that rxwow has operators of its own for, and those of RxPY that don't go through `pipe`.

Their types, and those of all the others, are in `fluent.pyi`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

from reactivex import Observable
from reactivex import operators as ops

from rxwow.streams.piped import Piped

__all__ = ["Fluent"]

T_co = TypeVar("T_co", covariant=True)


class Fluent(Piped[T_co]):
    """An Observable whose methods keep its demand.

    A method that has the name of an operator in `rxwow.operators` is that operator; it takes RxPY's arguments as well.
    """

    # rxwow's own.

    def flat_map(self, mapper: Any = None, **options: Any) -> Any:
        from rxwow.streams.flat_mapping import flat_map

        return self.pipe(flat_map(_itself if mapper is None else mapper, **options))

    def concat_map(self, project: Any, **options: Any) -> Any:
        from rxwow.streams.concat_mapping import concat_map

        return self.pipe(concat_map(project, **options))

    def merge(self, *sources: Observable[Any], max_concurrent: int | None = None, **options: Any) -> Any:
        from rxwow.streams.merging import merge

        return self.pipe(merge(*sources, max_concurrency=max_concurrent, **options))

    def concat(self, *sources: Observable[Any]) -> Any:
        from rxwow.streams.concatenation import concat

        return self.pipe(concat(*sources))

    def zip(self, *sources: Any, **options: Any) -> Any:
        from rxwow.streams.zipping import zip as zip_

        return self.pipe(zip_(*sources, **options))

    def group_by(self, key_mapper: Any, element_mapper: Any = None, subject_mapper: Any = None, **options: Any) -> Any:
        if subject_mapper is not None:
            # Subjects of the user's know no demand, so these groups are RxPY's.
            return self.pipe(ops.group_by(key_mapper, element_mapper, subject_mapper))
        from rxwow.streams.grouping import group_by

        return self.pipe(group_by(key_mapper, element_mapper, **options))

    def observe_on(self, scheduler: Any, **options: Any) -> Any:
        from rxwow.streams.boundary import observe_on

        return self.pipe(observe_on(scheduler, **options))

    def subscribe_on(self, scheduler: Any) -> Any:
        from rxwow.streams.subscribing import subscribe_on

        return self.pipe(subscribe_on(scheduler))

    def share(self) -> Any:
        from rxwow.streams.sharing import share

        return self.pipe(share())

    def timeout(self, duetime: Any, other: Any = None, scheduler: Any = None) -> Any:
        if isinstance(duetime, datetime):
            # A time of day is for the whole stream, and RxPY's to watch.
            return self.pipe(ops.timeout(duetime, other, scheduler))
        from rxwow.streams.timing import timeout

        seconds = duetime.total_seconds() if isinstance(duetime, timedelta) else duetime
        return self.pipe(timeout(seconds, other=other, scheduler=scheduler))

    def retry(self, retry_count: int | None = None, **options: Any) -> Any:
        from rxwow.streams.retrying import retry

        return self.pipe(retry(retry_count, **options))

    def limit_rate(self, n: int) -> Any:
        from rxwow.streams.boundary import limit_rate

        return self.pipe(limit_rate(n))

    def map_async(self, func: Any, **options: Any) -> Any:
        from rxwow.streams.map_async import map_async

        return self.pipe(map_async(func, **options))

    def on_backpressure_buffer(self, *arguments: Any, **options: Any) -> Any:
        from rxwow.streams.backpressure import on_backpressure_buffer

        return self.pipe(on_backpressure_buffer(*arguments, **options))

    def on_backpressure_drop(self, on_dropped: Any = None) -> Any:
        from rxwow.streams.backpressure import on_backpressure_drop

        return self.pipe(on_backpressure_drop(on_dropped))

    def on_backpressure_latest(self) -> Any:
        from rxwow.streams.backpressure import on_backpressure_latest

        return self.pipe(on_backpressure_latest())

    def on_backpressure_error(self) -> Any:
        from rxwow.streams.backpressure import on_backpressure_error

        return self.pipe(on_backpressure_error())

    # RxPY's, which would come out without demand.

    def __add__(self, other: Observable[Any]) -> Any:
        return self.concat(other)

    def __iadd__(self, other: Observable[Any]) -> Any:
        return self.concat(other)

    def dematerialize(self) -> Any:
        return _untyped(self).pipe(ops.dematerialize())

    def exclusive(self) -> Any:
        return _untyped(self).pipe(ops.exclusive())

    def pluck(self, key: Any) -> Any:
        return _untyped(self).pipe(ops.pluck(key))

    def sum(self, key_mapper: Any = None) -> Any:
        return _untyped(self).pipe(ops.sum() if key_mapper is None else ops.sum(key_mapper))

    def switch_latest(self) -> Any:
        return _untyped(self).pipe(ops.switch_latest())


def _itself(item: Any) -> Any:
    return item


def _untyped(flowable: Any) -> Any:
    # The type of a method can't ask for items of a certain type, as RxPY's operators do.
    return flowable
