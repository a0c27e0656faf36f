"""Writes the lag of a run to a file for Prometheus. The textfile collector of node_exporter reads
this file.

The metrics have the labels of Muster's own metrics, but other names. Otherwise a Prometheus that
also scrapes Muster would count each partition twice. The label `source` distinguishes clusters.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pipeline.engines.engine import Engine
from pipeline.errors import NotInstalled, PipelineError, WrongUse, unwritable

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PARTITIONS: Final = 50_000
"""The maximum number of partitions in the file. If there are more partitions, the partitions with
the least lag are left out."""
_GROUP: Final = ("source", "consumergroup")
_PLACE: Final = (*_GROUP, "topic", "partition")
GAUGES: Final = {
    "muster_pipeline_lag_records": (
        "lag_records",
        "Records that the group has not read; negative for a committed offset above the log end"
        " offset.",
    ),
    "muster_pipeline_lag_seconds": ("lag_s", "Age of the oldest unread record."),
    "muster_pipeline_lost_records": (
        "lost_records",
        "Records that were deleted before the group read them.",
    ),
    "muster_pipeline_read_records_per_second": (
        "consumed_per_s",
        "Records that the group read per second, over the last 10 minutes.",
    ),
    "muster_pipeline_written_records_per_second": (
        "produced_per_s",
        "Records that were written per second, over the last 10 minutes.",
    ),
    "muster_pipeline_catch_up_seconds": (
        "catch_up_s",
        "Seconds until the lag is 0 at the present rates; absent if the lag does not fall.",
    ),
}
"""The metrics that have one value for each partition. By name of the metric: the column of the
table CATCH_UP that contains the value, and the help text."""
VERDICT: Final = "muster_pipeline_verdict"
MEMBERS: Final = "muster_pipeline_group_members"
AS_OF: Final = "muster_pipeline_as_of_timestamp_seconds"
LEFT_OUT: Final = "muster_pipeline_partitions_left_out"


def check_textfile(file: str) -> None:
    """Raises WrongUse or PipelineError if the file can't be written, or if node_exporter would not
    read it. Raises NotInstalled if the package that writes the file is missing."""
    if not file.endswith(".prom"):
        raise WrongUse(f"--textfile {file}: node_exporter reads only files that end in .prom")
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.isdir(file) or not os.path.isdir(folder):
        what = (
            f"{file} is a folder"
            if os.path.isdir(file)
            else (f"the folder {folder} does not exist")
        )
        raise PipelineError(f"--textfile {file} can't be written: {what}")
    if (why := unwritable(folder)) is not None:
        raise PipelineError(f"--textfile {file} can't be written: {why}")
    if importlib.util.find_spec("prometheus_client") is None:
        raise NotInstalled("--textfile", "prometheus_client", "light")


def write_textfile(engine: Engine, file: str, source: str, as_of_ms: int) -> str:
    """Writes the table CATCH_UP of the engine to a file atomically. Returns the path of the file.

    Raises PipelineError if the file can't be written. The temporary file is in the same folder, but
    has another extension, so node_exporter does not read it.
    """
    from prometheus_client.exposition import write_to_textfile
    from prometheus_client.registry import Collector

    class Lag(Collector):
        def collect(self) -> Iterable[Metric]:
            return _families(engine, source, as_of_ms)

    try:
        write_to_textfile(file, Lag())
    except OSError as error:
        raise PipelineError(
            f"--textfile {file} can't be written: {error.strerror or error}"
        ) from error
    return os.path.abspath(file)


def _families(engine: Engine, source: str, as_of_ms: int) -> Iterable[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    source = source.encode(errors="replace").decode()  # a folder's name may not be valid text
    [counted] = engine.ask("SELECT count(*) AS partitions FROM catch_up")
    rows = _rows(engine)
    whole = GaugeMetricFamily(AS_OF, "Time for which the lag was computed.", labels=["source"])
    whole.add_metric([source], as_of_ms / 1000)
    left_out = GaugeMetricFamily(
        LEFT_OUT, "Partitions that are omitted from this file.", labels=["source"]
    )
    left_out.add_metric([source], counted["partitions"] - len(rows))
    places = [[source, row["group_id"], row["topic"], str(row["partition"])] for row in rows]
    gauges = []
    for name, (column, meaning) in GAUGES.items():
        gauge = GaugeMetricFamily(name, meaning, labels=_PLACE)
        for place, row in zip(places, rows, strict=True):
            if row[column] is not None:
                gauge.add_metric(place, row[column])
        gauges.append(gauge)
    verdict = GaugeMetricFamily(
        VERDICT, "1 for the current verdict of the partition.", labels=[*_PLACE, "verdict"]
    )
    for place, row in zip(places, rows, strict=True):
        verdict.add_metric([*place, row["verdict"]], 1)
    members = GaugeMetricFamily(MEMBERS, "Members of the group.", labels=_GROUP)
    for group_id, count in {row["group_id"]: row["member_count"] for row in rows}.items():
        if count is not None:
            members.add_metric([source, group_id], count)
    return [whole, left_out, *gauges, verdict, members]


def _rows(engine: Engine) -> list[dict[str, Any]]:
    columns = ", ".join(column for column, _ in GAUGES.values())
    return engine.ask(f"""
        SELECT group_id, topic, partition, verdict, member_count, {columns} FROM catch_up
        ORDER BY coalesce(lag_records, 0) DESC, group_id, topic, partition LIMIT {PARTITIONS}
    """)
