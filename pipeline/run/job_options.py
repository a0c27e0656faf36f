"""Parses the options of a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.errors import ClientError
from client.spelling import (
    MisspelledError,
    duration_ms,
    is_duration,
    partition_numbers,
    time_ms,
)
from pipeline.errors import WrongUse
from pipeline.report.head import Thresholds
from pipeline.run.as_of import Span
from pipeline.run.compare import Question, Window
from pipeline.run.failing import states_of
from pipeline.run.jobs import Options
from pipeline.run.options import (
    AS_OF,
    BY_TOPIC,
    COMMAND_CONFIG,
    FAIL_ON,
    FIRST,
    LAG_OPTIONS,
    LAG_THRESHOLD,
    PARTITIONS,
    RECORDS_THRESHOLD,
    RETENTION,
    SECOND,
    SINCE,
    TEXTFILE,
    TIMEOUT,
    UNTIL,
    Given,
    Option,
)
from pipeline.run.selection import Selection
from pipeline.run.textfile import check_textfile
from pipeline.storage.catalogued import SCHEME
from pipeline.storage.formats import FORMATS

if TYPE_CHECKING:
    from client.settings import Settings

_A_DAY_S = 86_400
_LONGEST = 19
"""A whole number in an option must have fewer than this number of digits, so that it fits into 64
bits."""


@dataclass(frozen=True)
class JobOptions:
    """A job's options, parsed."""

    source: str
    out: str
    options: Options
    settings: Settings | None
    timeout_s: float
    fail_on_damage: bool
    json: bool
    format: str | None = None
    """The file format of the tables; None means the format of the existing tables, or Parquet if no
    table exists."""


def job_options(given: Given) -> JobOptions:
    """Parses a job's options. Raises WrongUse if an option is invalid or missing, or if options
    contradict each other."""
    if not given["source"]:
        raise WrongUse("--source is missing: name a broker (HOST:PORT) or a folder")
    out = given["out"]
    if given["catalog"]:
        if out:
            raise WrongUse("--out and --catalog can't be combined: leave one out")
        if given["group"] or given["partitions"]:
            raise WrongUse(
                "--catalog can't be combined with --group or --partitions: each run replaces"
                " whole days of a catalog, with all groups and partitions"
            )
        out = SCHEME + given["catalog"]
    if not out:
        raise WrongUse("--out is missing: name a folder for the tables")
    if given["topic"] and given["no_topics"]:
        raise WrongUse("--topic and --no-topics can't be combined: leave one out")
    if given["format"] not in (None, *FORMATS):
        raise WrongUse(f"--format {given['format']} is unknown: choose from {', '.join(FORMATS)}")
    span = Span(_time(given, SINCE), _time(given, UNTIL), _time(given, AS_OF))
    text = given["partitions"]
    textfile, states = _of_lag(given)
    options = Options(
        overwrite=given["overwrite"],
        selection=Selection(
            given["group"] or None,
            None if text is None else _spelled(PARTITIONS, text, partition_numbers),
            span,
        ),
        topics=given["topic"] or None,
        with_topics=not given["no_topics"],
        offsets_retention=timedelta(
            milliseconds=_spelled(RETENTION, given["offsets_retention"], duration_ms)
        ),
        source=given["source"],
        thresholds=thresholds_of(given),
        textfile=textfile,
        fail_on=states,
    )
    return JobOptions(
        given["source"],
        out,
        options,
        settings_of(given[COMMAND_CONFIG.key]),
        timeout_of(given["timeout"]),
        given["fail_on_damage"],
        given["json"],
        given["format"],
    )


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of a comparison, parsed."""

    source: str
    question: Question
    settings: Settings | None
    timeout_s: float
    json: bool


def comparison_options(given: Given) -> ComparisonOptions:
    """Parses a comparison's options. Raises WrongUse if an option is invalid or missing, or if
    options contradict each other."""
    if not given["source"]:
        raise WrongUse("--source is missing: name a broker (HOST:PORT) or a folder")
    for option in (FIRST, SECOND):
        if not given[option.key]:
            raise WrongUse(f"--{option.name} is missing: write this time window as FROM/TO")
    if given["topic"] and given["no_topics"]:
        raise WrongUse("--topic and --no-topics can't be combined: leave one out")
    text = given["partitions"]
    question = Question(
        _window(given, FIRST),
        _window(given, SECOND),
        by_topic=given[BY_TOPIC.key],
        groups=given["group"] or None,
        partitions=None if text is None else _spelled(PARTITIONS, text, partition_numbers),
        topics=given["topic"] or None,
        with_topics=not given["no_topics"],
    )
    settings = settings_of(given[COMMAND_CONFIG.key])
    timeout_s = timeout_of(given["timeout"])
    return ComparisonOptions(given["source"], question, settings, timeout_s, given["json"])


def thresholds_of(given: Given) -> Thresholds:
    """Parses the report's thresholds. A job that has no options for them gets the defaults. Raises
    WrongUse for an invalid value."""
    age, records = given.get(LAG_THRESHOLD.key), given.get(RECORDS_THRESHOLD.key)
    return Thresholds(
        Thresholds.lag_s if age is None else float(_spelled(LAG_THRESHOLD, age, _age)),
        None if records is None else int(_spelled(RECORDS_THRESHOLD, records, _count)),
    )


def _of_lag(given: Given) -> tuple[str | None, tuple[str, ...]]:
    """Parses --textfile and --fail-on, if the job computes lag. Raises WrongUse for an invalid
    value."""
    named = [option for option in LAG_OPTIONS if given.get(option.key) is not None]
    if named and given["no_topics"]:
        raise WrongUse(
            f"--{named[0].name} needs the lag, which --no-topics leaves out: remove one of the two"
        )
    textfile, text = given.get(TEXTFILE.key), given.get(FAIL_ON.key)
    if textfile is not None:
        check_textfile(textfile)
    return textfile, () if text is None else _spelled(FAIL_ON, text, states_of)


def settings_of(file: str | None) -> Settings | None:
    """Reads the settings from a file of Kafka client properties; None if ``file`` is None. Raises
    WrongUse if the file is invalid."""
    if not file:
        return None
    from client.settings import read_settings

    try:
        return read_settings(Path(file))
    except ClientError as error:
        raise WrongUse(f"--{COMMAND_CONFIG.name}: {error}") from None


def timeout_of(text: str) -> float:
    """Parses the value of --timeout in seconds. Raises WrongUse for an invalid value."""
    return float(_spelled(TIMEOUT, text, _seconds))


def _time(given: Given, option: Option) -> int | None:
    text = given[option.key]
    return None if text is None else int(_spelled(option, text, time_ms))


def _window(given: Given, option: Option) -> Window:
    since, slash, end = given[option.key].partition("/")
    if not (since and slash and end):
        raise WrongUse(f"--{option.name} {given[option.key]} is invalid: write FROM/TO, or FROM/1h")
    since_ms = int(_spelled(option, since, time_ms))
    if is_duration(end):
        until_ms = since_ms + int(_spelled(option, end, duration_ms))
    else:
        until_ms = int(_spelled(option, end, time_ms))
    if since_ms >= until_ms:
        raise WrongUse(f"--{option.name} {given[option.key]}: the end must be after the start")
    return Window(since_ms, until_ms)


def _spelled(option: Option, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except MisspelledError as error:
        raise WrongUse(f"--{option.name} {text}: {error}") from None


def _age(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise MisspelledError("the value must be a number of seconds, 0 or more")
    return found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < _LONGEST):
        raise MisspelledError("the value must be a whole number, 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= _A_DAY_S:
        raise MisspelledError(
            f"the value must be a number of seconds from 0.1 to {_A_DAY_S} (a day)"
        )
    return found
