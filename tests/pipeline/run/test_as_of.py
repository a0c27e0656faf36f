"""Tests of the as-of time of a run: the requested time, or else the end of the selected time
span."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.run.as_of import Span, end_of_history, params_of
from tests.pipeline.history import History
from tests.pipeline.relations import feed, ms, stretch

pytestmark = pytest.mark.pipeline


@pytest.mark.parametrize(
    ("span", "as_of"),
    [
        (Span(), 500),
        (Span(until_ms=ms(300)), 300),
        (Span(until_ms=ms(900)), 500),
        (Span(until_ms=ms(300), as_of_ms=ms(700)), 700),
        (Span(since_ms=ms(100), as_of_ms=ms(200)), 200),
    ],
)
def test_as_of_time_is_by_default_the_end_of_the_selected_time_span(
    span: Span, as_of: float
) -> None:
    params = params_of(span, ms(500))

    assert (params.as_of_ms, params.since_ms) == (ms(as_of), span.since_ms)
    assert params.written_by_ms == ms(500), "what is dated later is dated falsely"


def test_empty_time_window_is_rejected() -> None:
    with pytest.raises(PipelineError, match="--since 2026-01-01T00:05:00Z is not before --until"):
        Span(since_ms=ms(300), until_ms=ms(300))
    with pytest.raises(PipelineError, match="it ends at 2026-01-01T00:08:20Z; choose an earlier"):
        params_of(Span(since_ms=ms(600)), ms(500))


def test_end_of_a_history_in_files_is_the_time_of_its_newest_record(tmp_path: Path) -> None:
    engine = DuckEngine(str(tmp_path))
    day = 86_400.0
    ends = []
    for *dates, now in [(9e9,), (30, 9e9), (70, 9e9), (9e9, 80, 9e9), (day + 60, 9e9), (70, 60)]:
        topic = [stretch(each, nth, nth) for nth, each in enumerate(dates)]
        feed(engine, History().commit(50, "a", 1).rows, topic)
        ends.append(end_of_history(engine, "events", ms(now)))
    feed(engine, [], [])

    assert ends == [ms(50), ms(50), ms(70), ms(80), ms(50), ms(50)]
    assert end_of_history(engine, "events", ms(100)) == ms(100)
