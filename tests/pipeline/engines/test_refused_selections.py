"""Tests that both engines reject a selection that matches no record."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine
from pipeline.engines.spark import SparkEngine
from pipeline.errors import PipelineError
from pipeline.model.events import EVENTS
from pipeline.run.as_of import Span
from pipeline.run.matches import check_matches
from pipeline.run.selection import Selection
from tests.pipeline.given import committed
from tests.pipeline.relations import ms, rows_of

pytestmark = pytest.mark.pipeline

ASKED = (
    Selection(groups=["a", "b*"], partitions=[0], span=Span(as_of_ms=ms(60))),
    Selection(groups=["a", "nosuch", "x*'\\_%"]),
    Selection(partitions=[7]),
    Selection(groups=["b*"], span=Span(until_ms=ms(60))),
    Selection(span=Span(as_of_ms=ms(1))),
)


def refusals(engine: Engine) -> list[str]:
    """Returns the error of each tested selection, or an empty text if the selection is accepted."""
    engine.read("history", [rows_of(EVENTS, [committed(2, "a", 1), committed(60, "b", 2)])], EVENTS)
    found = []
    for selection in ASKED:
        try:
            check_matches(
                engine, "given", "history", selection, each_group=True, may_be_empty=False
            )
        except PipelineError as error:
            found.append(str(error))
        else:
            found.append("")
    return found


def test_duckdb_and_spark_report_the_same_error_when_a_selection_matches_no_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    light = refusals(DuckEngine(str(tmp_path)))

    assert light == refusals(SparkEngine(spark))
    assert light[0] == ""
    assert [" ".join(each.split()[1:5]) for each in light[1:]] == [
        "has no group nosuch,",
        "has no record of",
        "has no records before",
        "has no records up",
    ]
