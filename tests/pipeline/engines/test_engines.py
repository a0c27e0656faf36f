"""Tests that DuckDB and Spark make the same tables, row by row."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine
from pipeline.engines.spark import SparkEngine
from pipeline.model.events import ABORTED, COMMITTED
from pipeline.model.params import Params
from pipeline.report.head import Head
from pipeline.report.page import make_report
from pipeline.run.catalog import RELATIONS, TABLES
from pipeline.run.failing import STATES, Failing, failing
from pipeline.run.figures import figures_of
from pipeline.run.textfile import write_textfile
from pipeline.sql import compare
from pipeline.storage.store import GROWING
from tests.pipeline.given import table
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import feed, ms, stretch

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900), pytest.mark.proves("pipeline 3")]


def history() -> list[dict[str, Any]]:
    """Returns commits of every kind: without a transaction, and in transactions that were
    committed, aborted, superseded, open or ended late."""
    history = History()

    def commit(offset: int, producer_id: int | None = None, epoch: int = 0) -> None:
        producer = {
            "producer_id": producer_id,
            "producer_epoch": None if producer_id is None else epoch,
        }
        history.commit(len(history.rows), "g", offset, **producer)

    def end(producer_id: int, how: str, epoch: int = 0) -> None:
        history.marker(len(history.rows), producer_id, how, epoch)

    commit(10)
    commit(150, 1)
    end(1, ABORTED)
    commit(20)
    commit(5, 1)
    end(1, ABORTED)
    commit(30, 2)
    commit(25)
    end(2, COMMITTED)
    commit(40, 2)
    end(2, COMMITTED)
    commit(50, 3)
    end(4, ABORTED, 1)
    commit(60, 4)  # late: only the next end marker commits it
    commit(61, 4, 1)
    end(4, COMMITTED, 2)
    commit(62, 4, 1)  # late, without an end marker after it
    for topic, offset in (("dates", 15), ("dates", 45), ("undated", 3), ("above", 2**63 - 1),
                          ("copied", 2), ("copied", 505), ("copied", 550), ("copied", 610),
                          ("old", 7)):  # fmt: skip
        history.commit(20 + offset % 50, "behind", offset, topic=topic)
    groups(history)
    return history.rows


def stretches() -> list[dict[str, Any]]:
    """Returns stretches with correct, wrong and missing timestamps, and with log starts and log
    ends."""
    false = [
        stretch(-100, 0, 9), stretch(9e9, 10, 19), stretch(-80, 20, 29, last_s=-60),
        stretch(-9e9, 30, 39), stretch(-50, 40, 49, last_s=50), stretch(120, 50, 59),
        stretch(90, 60, 59, first_at=None), stretch(90, 20, 19, last_at=None),
    ]  # fmt: skip
    undated = stretch(0, 0, 9, first_at=None, last_at=None, topic="undated")
    year = 365 * 86_400
    copied = [
        stretch(-year, 0, 499), stretch(-99, 500, 509, size_bytes=None, last_s=-98.5),
        stretch(-year, 510, 599), stretch(-90, 600, 699, size_bytes=None), stretch(-60, 700, 709),
    ]  # fmt: skip
    return [
        stretch(-100, 0, 99, last_s=-1),
        *({**each, "topic": "dates"} for each in false),
        *({**each, "topic": "copied"} for each in copied),
        stretch(-year, 0, 99, topic="old"),
        undated,
        stretch(30, 0, 9, topic="above"),
    ]


def groups(history: History) -> None:
    """Adds the records of a classic group that is upgraded to a KIP-848 group and downgraded again,
    and records of unknown kinds."""
    history.generation(0, "c", 0).generation(1, "c", 7, member("x-1", 0), member("y-1", 1))
    history.commit(2, "c", 9).commit(3, "c", 4).delete(5, "c")
    group = ModernGroup(history, "c")
    group.member(5, "x-1", regex="ord.*", assignor="uniform")
    group.epoch(5, 7)
    group.target(5, "x-1", 0, 1)
    group.current(5, "x-1", 0, 1, epoch=7)
    group.pattern(6, "ord.*", "orders")
    group.member(7, "z-1", assignor="range", group_instance_id="till")
    group.epoch(7, 9)
    group.target(8, "x-1", 0)
    group.current(8, "x-1", 0, epoch=7, state=1, revoking=[1])
    history.commit(9, "c", 8).commit(10, "c", 2)
    group.target(11, "z-1", 1, topic=None)
    group.current(11, "x-1", 0, epoch=9)
    group.current(12, "z-1", 1, epoch=9, topic=None)
    group.gone(12, "z-1")
    group.member(12, "z-2", group_instance_id="till")
    group.current(12, "z-2", 1, epoch=9)
    history.generation(20, "d", 1, member("c-1", assignment=None, subscription=None))
    history.generation(21, "d", 1, member("c-1")).generation(22, "d", 2).delete(23, "d")
    history.unknown(24, "d").commit(25, "e", 1, topic="orders").unknown(26, None, None)
    last = ModernGroup(history, "c")
    last.deleted(30, "x-1", "z-2")
    history.generation(30, "c", 9, member("x-1", 0, 1))
    share = ModernGroup(history, "s", "share")
    share.member(31, "x-1")
    share.epoch(31, 2)
    share.target(31, "x-1", 0)
    share.current(31, "x-1", 0)
    streams = ModernGroup(history, "t", "streams")
    streams.member(31, "y-1")
    streams.epoch(31, 2)
    streams.target(31, "y-1", 0, 1)
    streams.current(31, "y-1", 0, 1, state=1)
    streams.member(32, "x-1")
    streams.epoch(32, 3)
    streams.target(32, "y-1", 0)
    streams.target(32, "x-1", 1)
    streams.current(32, "y-1", 0, state=2, revoking=[1])
    streams.current(33, "y-1", 0, epoch=3, state=1)
    streams.current(33, "x-1", 1, epoch=3, state=1)
    topology = {"subtopologies": [{"source_topics": ["orders"]}]}
    streams.add(33, "topology", details=json.dumps(topology))
    for name in ("s", "t", "d", "f"):
        history.commit(34, name, 8).commit(35, name, 4, topic="other", producer_id=9)
    history.generation(36, "f", 1).commit(37, "f", 9, topic="third").damaged(38)
    history.generation(39, "f", 2).generation(40, "h", 3).commit(41, "h", 5).commit(42, "i", 5)
    history.generation(43, "j", 0, protocol_type="").commit(44, "j", 5).commit(45, "j", 3)
    history.generation(46, "k", 1).delete(47, "k").commit(48, "k", 5)


def tables(engine: Engine, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Writes all tables, reads them, and returns their rows, sorted by their text."""
    feed(engine, history(), stretches())
    params = Params(as_of_ms=ms(100), offsets_retention_ms=61_000)
    for relation in RELATIONS.values():
        engine.define(relation.name, relation.sql(engine.dialect, params), keep=relation.keep)
    found = {}
    for made in TABLES.values():
        place = str(folder / made.name)
        engine.write(made.sql(engine.dialect, params), made.schema, place, made.by)
        if made.name not in GROWING:
            engine.open(made.name, [place], made.schema)
            found[f"figures of {made.name}"] = [
                asdict(figure) for figure in figures_of(engine, made.name)[1]
            ]
        found[made.name] = table(folder, made.name, made.schema)
    whole = replace(params, since_ms=ms(-100))
    for by_topic in (False, True):
        rows = engine.ask(compare.window(engine.dialect, whole, by_topic=by_topic))
        assert rows
        found[f"compared by topic: {by_topic}"] = sorted(rows, key=str)
    return found


def report(engine: Engine, folder: Path) -> tuple[str, str, list[Failing]]:
    """Returns three results for the written tables: the report, the file for Prometheus, and the
    groups that match `--fail-on`."""
    for made in TABLES.values():
        engine.open(made.name, [str(folder / made.name)], made.schema)
    page = make_report(engine, list(TABLES), Head("a source", "an engine", ms(100)), 0)
    file = write_textfile(engine, str(folder / "lag.prom"), "a source", ms(100))
    found = [
        each for dead in (False, True) for each in failing(engine, tuple(STATES), with_dead=dead)
    ]
    return page, Path(file).read_text(), found


def test_duckdb_and_spark_make_the_same_tables_and_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    engines: tuple[Engine, Engine] = (
        DuckEngine(str(tmp_path / "scratch")),
        SparkEngine(spark, 100),
    )
    light, heavy = (tables(engine, tmp_path / str(nth)) for nth, engine in enumerate(engines))

    assert light == heavy
    (page, file, found), of_spark = (
        report(engine, tmp_path / str(nth)) for nth, engine in enumerate(engines)
    )
    assert (page, file, found) == of_spark
    assert page.count("<polyline") > 1
    assert file.count("muster_pipeline_lag_records{") > 5
    assert {each.state for each in found} >= {"stuck", "nobody runs it", "out of range"}
    judged = {row["group_id"]: (row["verdict"], row["member_count"]) for row in light["catch_up"]}
    assert {name: judged[name] for name in "hjk"} == {
        "h": ("nobody runs it", 0), "j": ("stopped", None), "k": ("stopped", None),
    }  # fmt: skip
    assert [
        (row["topic"], row["from_member"], row["to_member"], row["revoking_s"])
        for row in light["moves"]
    ] == [("orders", "x-1", "z-1", 3), ("0", "y-1", "x-1", 1)]
    assert {row["state"] for row in light["assignments"]} == {None, "STABLE", "UNREVOKED"}
    rewound = {row["group_id"]: (row["owner"], row["members"]) for row in light["rewinds"]}
    assert rewound["j"] == (None, [])
    assert [(row["committed_offset"], row["previous_offset"]) for row in light["commits"]]
    outcomes = sorted(
        (row["log_offset"], row["outcome"])
        for row in light["transactional_commits"]
        if row["group_id"] == "g"
    )
    assert outcomes == [
        (1, "aborted"), (4, "aborted"), (6, "superseded"), (9, "committed"), (11, "open"),
        (13, "aborted"), (14, "committed"), (16, "aborted"),
    ]  # fmt: skip
