"""The options of every job, defined once for `muster pipeline` and for spark-submit.

Nothing here needs an engine: the help shows them where none is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Option:
    """An option as people see it; what it says is a text, several, or whether it is there."""

    name: str
    """Without its dashes."""
    help: str
    metavar: str | None = None
    """None for one that takes no value."""
    short: str | None = None
    default: str | None = None
    repeatable: bool = False
    variable: str | None = None
    """An environment variable that says it too."""

    @property
    def key(self) -> str:
        """Its name as Python has it."""
        return self.name.replace("-", "_")


SOURCE: Final = Option(
    "source",
    "A broker, a folder of partition folders, or a folder with the table events.",
    "HOST:PORT|FOLDER",
    variable="MUSTER_SOURCE",
)
COMMAND_CONFIG: Final = Option(
    "command-config",
    "Kafka's client properties for TLS and SASL: security.protocol, ssl.*, sasl.*.",
    "FILE",
)
OUT: Final = Option("out", "Where the tables are written.", "FOLDER")
CATALOG: Final = Option(
    "catalog",
    "Append the tables by day to this namespace of a Spark catalog, instead of --out.",
    "CATALOG.NAMESPACE",
)
GROUP: Final = Option(
    "group", "Only this group; * matches anything; repeatable.", "GROUP", "g", repeatable=True
)
SINCE: Final = Option(
    "since", "Only rows of time series since this time (UTC unless it has a zone).", "TIME"
)
UNTIL: Final = Option("until", "Only records before this time (UTC unless it has a zone).", "TIME")
AS_OF: Final = Option(
    "as-of", "The time of the tables' state; default: the end of the history.", "TIME"
)
PARTITIONS: Final = Option("partitions", "Only these partitions of __consumer_offsets.", "0-1,5")
TOPIC: Final = Option(
    "topic",
    "Read the record timestamps of this topic; default: of all committed topics; repeatable.",
    "TOPIC",
    "t",
    repeatable=True,
)
NO_TOPICS: Final = Option("no-topics", "Read no topics: without lag in seconds.")
RETENTION: Final = Option(
    "offsets-retention",
    "The cluster's offsets.retention.minutes, such as 7d or 12h.",
    "TIME",
    default="7d",
)
FORMAT: Final = Option(
    "format", "parquet, delta or iceberg; default: that of existing tables, or parquet.", "FORMAT"
)
OVERWRITE: Final = Option("overwrite", "Replace tables that exist.")
FAIL_ON_DAMAGE: Final = Option(
    "fail-on-damage", "Exit with code 4 when a part of the history could not be read."
)
TIMEOUT: Final = Option("timeout", "How long to wait for an answer.", "SECONDS", default="30")
LAG_THRESHOLD: Final = Option(
    "lag-threshold-s",
    "The report lists groups whose oldest unread record is older than this.",
    "SECONDS",
    default="60",
)
RECORDS_THRESHOLD: Final = Option(
    "lag-threshold-records", "The report lists groups with more unread records than this.", "N"
)
TEXTFILE: Final = Option(
    "textfile",
    "Write the lag for Prometheus too: a .prom file for node_exporter's textfile collector.",
    "FILE",
)
FAIL_ON: Final = Option(
    "fail-on",
    "Exit with code 5 when groups are drowning, stuck, nobody-runs-it or out-of-range.",
    "STATES",
)
JSON: Final = Option("json", "Print JSON instead of text.")

FIRST: Final = Option(
    "first", "The first time window: FROM/TO, or FROM/1h (2026-01-31T12:00:00Z/1h).", "FROM/TO"
)
SECOND: Final = Option("second", "The second time window, compared with the first.", "FROM/TO")
BY_TOPIC: Final = Option("by-topic", "A row for each topic of a group.")

JOB_OPTIONS: Final = (
    SOURCE,
    COMMAND_CONFIG,
    OUT,
    CATALOG,
    GROUP,
    SINCE,
    UNTIL,
    AS_OF,
    PARTITIONS,
    TOPIC,
    NO_TOPICS,
    RETENTION,
    FORMAT,
    OVERWRITE,
    FAIL_ON_DAMAGE,
    TIMEOUT,
    JSON,
)

COMPARE_OPTIONS: Final = (
    SOURCE,
    COMMAND_CONFIG,
    FIRST,
    SECOND,
    BY_TOPIC,
    GROUP,
    PARTITIONS,
    TOPIC,
    NO_TOPICS,
    TIMEOUT,
    JSON,
)

REPORT_OPTIONS: Final = (LAG_THRESHOLD, RECORDS_THRESHOLD)
"""Of what makes a report."""

LAG_OPTIONS: Final = (TEXTFILE, FAIL_ON)
"""Of what makes the table `catch_up`."""

WITH_REPORT: Final = "all"
"""The job that makes a report."""
WITH_LAG: Final = ("lag", WITH_REPORT)


def options_of(job: str) -> tuple[Option, ...]:
    """Those that a job takes."""
    return (
        *JOB_OPTIONS,
        *(REPORT_OPTIONS if job == WITH_REPORT else ()),
        *(LAG_OPTIONS if job in WITH_LAG else ()),
    )


Given = Mapping[str, Any]
"""What was given, by the options' keys: None, a text, a list of texts, or a bool."""
