"""Tests that the observer of a core passes each event to all reports, and that an exception in one
report does not affect other reports."""

from __future__ import annotations

from typing import Any

from broker.cores.observer import Observer, at_any_time
from broker.loop.internal_errors import InternalErrors
from tests.broker.mock_time import MockTime


def fails(*_: object) -> None:
    raise RuntimeError("a bug in a report")


def test_observer_calls_each_report_function_with_the_events_in_order_and_their_time() -> None:
    time, seen, ends = MockTime(), [], []
    now = time.now()
    reports = [lambda event, at: seen.append((1, event, at)), lambda *what: seen.append((2, *what))]
    observer = Observer(time, InternalErrors(), reports, [lambda: ends.append(len(seen))])
    observer.observe(["a", "b"])
    assert seen == [(1, "a", now), (2, "a", now), (1, "b", now), (2, "b", now)]
    assert ends == [4], "once for an outcome"


def test_exception_in_one_event_report_does_not_affect_other_reports() -> None:
    seen: list[Any] = []
    ends: list[int] = []
    errors = InternalErrors()
    reports = [fails, lambda event, _: seen.append(event)]
    observer = Observer(MockTime(), errors, reports, [fails, lambda: ends.append(1)])
    observer.observe(["a", "b"])
    assert seen == ["a", "b"]
    assert errors.counts["observer"] == 3
    assert ends == [1]


def test_function_registered_for_an_event_type_gets_only_events_of_this_type() -> None:
    seen: list[Any] = []
    observer = Observer(MockTime(), InternalErrors(), [at_any_time(seen.append, int)])
    observer.observe(["a", 1, 2.0])
    assert seen == [1]
