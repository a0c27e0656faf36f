"""The command-line options of every job, for `muster pipeline` and for spark-submit.

This module imports no engine, so that the help works if no engine is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Option:
    """A command-line option. Its value is a string, several strings, or a flag."""

    name: str
    """The name of the option without its leading dashes."""
    help: str
    metavar: str | None = None
    """The placeholder of the value in the help; None for a flag."""
    short: str | None = None
    default: str | None = None
    repeatable: bool = False
    variable: str | None = None
    """The environment variable that provides the default value."""

    @property
    def key(self) -> str:
        """The name of the option as a Python identifier."""
        return self.name.replace("-", "_")


SOURCE: Final = Option(
    "source",
    "A broker, a folder of partition folders, or a folder that contains the table `events`.",
    "HOST:PORT|FOLDER",
    variable="MUSTER_SOURCE",
)
COMMAND_CONFIG: Final = Option(
    "command-config",
    "Kafka's client properties for TLS and SASL: security.protocol, ssl.*, sasl.*.",
    "FILE",
)
OUT: Final = Option("out", "The folder for the tables.", "FOLDER")
CATALOG: Final = Option(
    "catalog",
    "Append the tables, partitioned by day, to this namespace of a Spark catalog; replaces --out.",
    "CATALOG.NAMESPACE",
)
GROUP: Final = Option(
    "group",
    "Only this group, or groups that match a pattern with *; repeatable.",
    "GROUP",
    "g",
    repeatable=True,
)
SINCE: Final = Option(
    "since", "Only rows of time series since this time (UTC if without a zone).", "TIME"
)
UNTIL: Final = Option("until", "Only records before this time (UTC if without a zone).", "TIME")
AS_OF: Final = Option(
    "as-of", "The tables show the state at this time; default: the end of the history.", "TIME"
)
PARTITIONS: Final = Option("partitions", "Only these partitions of __consumer_offsets.", "0-1,5")
TOPIC: Final = Option(
    "topic",
    "Read the record timestamps of this topic; default: all topics with commits; repeatable.",
    "TOPIC",
    "t",
    repeatable=True,
)
NO_TOPICS: Final = Option("no-topics", "Do not read topics; the lag in seconds is then unknown.")
RETENTION: Final = Option(
    "offsets-retention",
    "The cluster's offsets.retention.minutes, such as 7d or 12h.",
    "TIME",
    default="7d",
)
FORMAT: Final = Option(
    "format",
    "The tables' format: parquet, delta or iceberg; default: the format of existing tables, or"
    " parquet.",
    "FORMAT",
)
OVERWRITE: Final = Option("overwrite", "Replace existing tables.")
FAIL_ON_DAMAGE: Final = Option(
    "fail-on-damage", "Exit with code 4 if a part of the history could not be read."
)
TIMEOUT: Final = Option(
    "timeout", "How long to wait for a response from a broker.", "SECONDS", default="30"
)
LAG_THRESHOLD: Final = Option(
    "lag-threshold-s",
    "The report lists groups whose oldest unread record is older than this duration.",
    "SECONDS",
    default="60",
)
RECORDS_THRESHOLD: Final = Option(
    "lag-threshold-records",
    "The report lists groups with more unread records than this number.",
    "N",
)
TEXTFILE: Final = Option(
    "textfile",
    "Also write the lag for Prometheus: a .prom file for node_exporter's textfile collector.",
    "FILE",
)
FAIL_ON: Final = Option(
    "fail-on",
    "Exit with code 5 if a group is in a listed state: drowning, stuck, nobody-runs-it or"
    " out-of-range.",
    "STATES",
)
JSON: Final = Option("json", "Print JSON instead of text.")

FIRST: Final = Option(
    "first", "The first time window: FROM/TO, or FROM/1h (2026-01-31T12:00:00Z/1h).", "FROM/TO"
)
SECOND: Final = Option(
    "second", "The second time window, which is compared with the first.", "FROM/TO"
)
BY_TOPIC: Final = Option("by-topic", "Show one row for each topic of a group.")

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
"""The additional options of a job that makes a report."""

LAG_OPTIONS: Final = (TEXTFILE, FAIL_ON)
"""The additional options of a job that makes the table `catch_up`."""

WITH_REPORT: Final = "all"
"""The name of the job that makes a report."""
WITH_LAG: Final = ("lag", WITH_REPORT)


def options_of(job: str) -> tuple[Option, ...]:
    return (
        *JOB_OPTIONS,
        *(REPORT_OPTIONS if job == WITH_REPORT else ()),
        *(LAG_OPTIONS if job in WITH_LAG else ()),
    )


Given = Mapping[str, Any]
"""The values from the command line, by option key. A value is None, a string, a list of strings, or
a bool."""
