"""`muster consume`: prints the records of topics, without a group or as a member of a group."""

from __future__ import annotations

import sys
from typing import Annotated, NamedTuple

import typer

from cli import clock, output
from cli.client.cluster import Cluster
from cli.client.existing import existing, existing_partitions
from cli.client.group_member import GroupMember
from cli.client.offsets_at import READ_COMMITTED, READ_UNCOMMITTED
from cli.errors import USAGE, CommandError
from cli.names import parse_partitions
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, seconds, whole_number
from cli.streams import NobodyReads, flush, follow_bytes
from cli.times import instant, since_ms
from cli.topics.formats import Printer, as_bytes, as_format, as_json, as_line, unescaped
from cli.topics.reading import Consumer, Read, Start

_ISOLATION = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}


class Ending(NamedTuple):
    """The conditions under which `consume` exits."""

    most: int | None
    until_end: bool
    idle_s: float | None


TopicsAndPartitions = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC", help="Topics or partitions, such as orders:0-1,5 or 'test-*'."),
]
GroupToJoin = Annotated[
    str | None,
    typer.Option("--group", "-g", metavar="GROUP", help="Join this group and commit its offsets."),
]
FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Start at the first record.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Start at a time, or at a duration before now, such as 90m or P7D.",
    ),
]
Offset = Annotated[
    int | None, whole_number("--offset", "-o", help="Start at this offset of each partition.")
]
Last = Annotated[
    int | None,
    whole_number(
        "--last", least=1, help="Start at the last N records, counted over all partitions."
    ),
]
UntilEnd = Annotated[
    bool, typer.Option("--until-end", help="Exit after the records that exist now.")
]
Most = Annotated[int | None, whole_number("--max", "-n", least=1, help="Exit after N records.")]
Idle = Annotated[
    float | None, seconds("--idle", least=0, help="Exit after this time without a record.")
]
Isolation = Annotated[
    str,
    typer.Option(
        "--isolation",
        metavar="LEVEL",
        help="read_committed (without aborted and open transactions) or read_uncommitted.",
    ),
]
Keys = Annotated[bool, typer.Option("--keys", help="Print the key and a tab before the value.")]
Timestamps = Annotated[
    bool, typer.Option("--timestamps", help="Print the time and a tab before the value.")
]
Raw = Annotated[bool, typer.Option("--raw", help="Print only the bytes of values.")]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="TEXT",
        help="With --raw: the text after each value; a line end by default.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=r"A kcat format: %t %p %o %k %s %h %T (ms) %I (UTC) %K %S \n \t \xHH.",
    ),
]


def consume(
    topics: TopicsAndPartitions,
    group: GroupToJoin = None,
    from_beginning: FromBeginning = False,
    since: Since = None,
    offset: Offset = None,
    last: Last = None,
    until_end: UntilEnd = False,
    most: Most = None,
    idle: Idle = None,
    isolation: Isolation = "read_committed",
    keys: Keys = False,
    timestamps: Timestamps = False,
    raw: Raw = False,
    delimiter: Delimiter = None,
    template: Format = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Print records as they arrive, until Ctrl-C, --until-end, --max or --idle.

    By default, only new records are printed; a group starts at its committed offsets.
    """
    printer = _printer(keys, timestamps, raw, delimiter, template, json)
    if isolation not in _ISOLATION:
        raise CommandError(f"--isolation {isolation}: choose one of {', '.join(_ISOLATION)}", USAGE)
    if from_beginning + (since is not None) + (offset is not None) + (last is not None) > 1:
        raise CommandError(
            "choose one of --from-beginning, --from TIME, --offset N and --last N", USAGE
        )
    start = Start(from_beginning, offset, None if since is None else since_ms(since, "--from"))
    if group is not None:
        _check_group(topics, start, last)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    if start.at_ms is not None:
        output.warn(f"records since {instant(start.at_ms, to_the_ms=True)}")
    member = None
    if group is not None:
        names = [topic["name"] for topic in existing(cluster, topics)["topics"]]
        member = GroupMember(cluster, group, names)
    consumer = Consumer(cluster, _ISOLATION[isolation], member)
    commit = True
    try:
        newest: list[Read] = []
        if member is not None:
            consumer.join(start)
        else:
            consumer.assign(existing_partitions(cluster, topics), start)
            newest = consumer.newest(last) if last is not None else []
        _print(consumer, printer, Ending(most, until_end, idle), newest)
    except (NobodyReads, CommandError):
        commit = False
        raise
    except (KeyboardInterrupt, SystemExit):
        cluster.reconnect()  # a JoinGroup may still be waiting for other members
        raise
    finally:
        consumer.close(commit)


def _printer(
    keys: bool,
    timestamps: bool,
    raw: bool,
    delimiter: str | None,
    template: str | None,
    json: bool,
) -> Printer:
    """Returns the printer that the options select. Raises CommandError if the options contradict
    each other."""
    if (keys or timestamps) + raw + (template is not None) + json > 1:
        raise CommandError(
            "--json, --raw and --format can't be combined with each other, nor with --keys or"
            " --timestamps",
            USAGE,
        )
    if delimiter is not None and not raw:
        raise CommandError("--delimiter needs --raw", USAGE)
    if raw:
        return as_bytes(b"\n" if delimiter is None else unescaped(delimiter, "--delimiter"))
    if template is not None:
        return as_format(template, sys.stdout.isatty())
    return as_json if json else as_line(keys, timestamps, sys.stdout.isatty())


def _check_group(topics: list[str], start: Start, last: int | None) -> None:
    named = any(parse_partitions(topic)[1] is not None for topic in topics)
    if named or start.offset is not None or start.at_ms is not None or last is not None:
        raise CommandError(
            "with --group the group chooses partitions and offsets: omit partitions, --offset,"
            " --from and --last; `muster groups reset` sets a group's offsets",
            USAGE,
        )


def _print(consumer: Consumer, printer: Printer, ending: Ending, newest: list[Read]) -> None:
    left = -1 if ending.most is None else ending.most
    for where, record in newest[:left] if left >= 0 else newest:
        follow_bytes(printer(where, record))
        left -= 1
    flush()
    if ending.until_end:
        consumer.end_at_the_end()
    last_s = clock.monotonic_s()
    while left and not consumer.ended:
        for where, record in consumer.poll():
            follow_bytes(printer(where, record))
            consumer.passed(where, record)
            last_s = clock.monotonic_s()
            left -= 1
            if not left:
                break
        flush()
        if ending.idle_s is not None and clock.monotonic_s() - last_s > ending.idle_s:
            break
