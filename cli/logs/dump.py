"""`muster logs dump`: shows the contents of a log directory of Muster or Kafka.

A file is shown entry by entry, a partition's directory with a line for each file, a data directory
with a line for each partition. The command only reads files; a broker may be using them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import output
from cli.errors import FOUND, USAGE, CommandError
from cli.logs.entries import Content, content_of
from cli.logs.files import Entry, kind_of, read_file
from cli.options import Json, Wide, whole_number
from cli.times import instant

app = typer.Typer(help="Show the contents of log files, offline.", no_args_is_help=True)

_FILE_COLUMNS = ["file", "bytes", "first_offset", "last_offset", "batches", "entries", "damage"]
_PARTITION_COLUMNS = ["partition", "segments", "bytes", "first_offset", "last_offset", "damage"]


@app.callback()
def _logs() -> None:
    """Does nothing. Because of this callback, typer keeps `dump` a subcommand, although no other
    subcommand exists."""


@app.command()
def dump(
    path: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="A file of a log directory, or a directory.")
    ],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Also show the records of each batch.")
    ] = False,
    content: Annotated[
        Content | None,
        typer.Option(
            "--as", help="How to decode records; by default according to the directory's name."
        ),
    ] = None,
    offset: Annotated[int, whole_number("--offset", "-o", help="Start at this offset.")] = 0,
    limit: Annotated[
        int | None, whole_number("--limit", "-n", least=1, help="Show at most N entries.")
    ] = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Show segments, records, indexes, snapshots and checkpoints; exit with 4 if a file is damaged.

    --json prints one line per entry of a file, or one list for a directory.
    """
    if not path.exists():
        raise CommandError(f"{path} does not exist", USAGE)
    try:
        damaged = (
            _dump_directory(path, json, wide)
            if path.is_dir()
            else _dump_file(path, records, content, offset, limit, json)
        )
    except OSError as error:
        raise CommandError(f"{error.filename or path} can't be read: {error.strerror}") from None
    if damaged:
        raise CommandError(f"{path} is damaged; the output shows where", FOUND)


def _dump_file(
    path: Path, records: bool, content: Content | None, offset: int, limit: int | None, json: bool
) -> bool:
    if kind_of(path) is None:
        raise CommandError(
            f"{path} is not a file of a log directory; supported are *.log, *.index, *.timeindex,"
            " *.txnindex, *.snapshot, *-checkpoint, groups.image and meta.properties",
            USAGE,
        )
    content = content or content_of(path.absolute().parent.name)
    damaged = False
    for number, entry in enumerate(read_file(path, records, content, offset)):
        if limit is not None and number >= limit:
            break
        damaged |= entry["kind"] == "damage"
        if json:
            output.show_json_line(entry)
        else:
            output.say(line_of(entry))
    return damaged


# --------------------------------------------------------------------------------- directories


def _dump_directory(path: Path, json: bool, wide: bool) -> bool:
    partitions = [
        folder for folder in sorted(path.iterdir()) if folder.is_dir() and _is_partition(folder)
    ]
    if partitions:
        named = output.progress(partitions, "reading partitions")
        rows = [_partition_row(folder) for folder in named]
        title = f"{path}: {output.counted(len(rows), 'partition')}"
        output.show(rows, _PARTITION_COLUMNS, "", json, title, wide=wide)
        return any(row["damage"] for row in rows)
    files = [file for file in sorted(path.iterdir()) if file.is_file() and kind_of(file)]
    rows = [_file_row(file) for file in output.progress(files, "reading files")]
    empty = f"{path} has no log files and no partition directories"
    output.show(rows, _FILE_COLUMNS, empty, json, wide=wide)
    return any(row["damage"] for row in rows)


def _is_partition(folder: Path) -> bool:
    topic, _, number = folder.name.rpartition("-")
    return bool(topic) and number.isdecimal() and any(folder.glob("*.log"))


def _partition_row(folder: Path) -> output.Row:
    rows = [_file_row(file) for file in sorted(folder.iterdir()) if kind_of(file)]
    segments = [row for row in rows if row["file"].endswith(".log")]
    return {
        "partition": folder.name,
        "segments": len(segments),
        "bytes": sum(row["bytes"] for row in segments),
        "first_offset": next((r["first_offset"] for r in segments if r["batches"]), None),
        "last_offset": next((r["last_offset"] for r in segments[::-1] if r["batches"]), None),
        "damage": next((f"{row['file']}: {row['damage']}" for row in rows if row["damage"]), None),
    }


def _file_row(path: Path) -> output.Row:
    """Returns a row for a file, with its number of entries. The row of a segment also has the
    number of batches."""
    row: output.Row = {"file": path.name, "bytes": path.stat().st_size}
    row |= {"first_offset": None, "last_offset": None, "batches": None, "entries": 0}
    row["damage"] = None
    for entry in read_file(path, False, Content.BYTES, 0):
        if entry["kind"] == "damage":
            row["damage"] = row["damage"] or f"at byte {entry['position']}: {entry['reason']}"
        elif entry["kind"] == "batch":
            row["batches"] = (row["batches"] or 0) + 1
            if row["first_offset"] is None:
                row["first_offset"] = entry["first_offset"]
            row["last_offset"] = entry["last_offset"]
            row["entries"] += entry["records"] or 0
        elif entry["kind"] != "padding":
            row["entries"] += 1
    return row


# -------------------------------------------------------------------------------------- people


def line_of(entry: Entry) -> str:
    kind = entry["kind"]
    if kind == "batch":
        return _batch_line(entry)
    if kind == "record":
        return "    " + _record_line(entry)
    if kind == "damage":
        return f"position {entry['position']}  DAMAGED: {entry['reason']}"
    if kind == "padding":
        return f"position {entry['position']}  {entry['bytes']} bytes of preallocated space"
    if kind == "line":
        return str(entry["text"])
    return "  ".join(_fields({name: each for name, each in entry.items() if name != "kind"}))


def _batch_line(entry: Entry) -> str:
    first, last = entry["first_offset"], entry["last_offset"]
    parts = [
        f"offset {first}" if first == last else f"offsets {first}-{last}",
        f"position {entry['position']}",
        f"{entry['bytes']} bytes",
        f"magic {entry['magic']}",
        "message set" if entry["records"] is None else output.counted(entry["records"], "record"),
        entry["codec"],
        _newest(entry),
    ]
    if entry["leader_epoch"] >= 0:
        parts.append(f"leader epoch {entry['leader_epoch']}")
    if entry["producer_id"] >= 0:
        parts.append(
            f"producer {entry['producer_id']} epoch {entry['producer_epoch']}"
            f" sequence {entry['first_sequence']}"
        )
    parts += [name for name in ("transactional", "control") if entry[name]]
    return "  ".join(parts)


def _newest(entry: Entry) -> str:
    """Returns the maximum timestamp of a batch as text, with the type of timestamp."""
    newest = time_of(entry["max_timestamp_ms"])
    if entry["max_timestamp_ms"] < 0:
        return newest
    return f"{'appended' if entry['timestamp_type'] == 'LogAppendTime' else 'newest'} {newest}"


def _record_line(entry: Entry) -> str:
    parts = [f"offset {entry['offset']}", time_of(entry["timestamp_ms"])]
    if "control" in entry:
        parts.append(f"marker: {entry['control']}")
    elif "record" in entry:
        parts.append(entry["record"])
        parts += _fields(entry["key"])
        parts.append("->")
        parts += ["deleted"] if entry["value"] is None else _fields(entry["value"])
    else:
        parts += [f"{name}={_value(entry[name])}" for name in ("key", "value")]
        parts += _fields({"headers": entry["headers"]}) if entry["headers"] else []
    if "undecoded" in entry:
        parts.append(f"({entry['undecoded']})")
    return "  ".join(parts)


def _fields(value: dict[str, Any]) -> Iterator[str]:
    for name, each in value.items():
        if each is None or (each == -1 and name != "partition"):
            continue  # the field is unset, or does not exist in this version
        is_time = name.endswith(("timestamp", "timestamp_ms")) and isinstance(each, int)
        yield f"{name}={time_of(each) if is_time else _value(each)}"


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}={_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value) if isinstance(value, str) else str(value)


def time_of(wall_ms: int) -> str:
    """Returns a time in ms as text in UTC with milliseconds. Returns an invalid time as a plain
    number."""
    if not 0 <= wall_ms < 253_402_300_800_000:
        return f"no timestamp ({wall_ms})" if wall_ms != -1 else "no timestamp"
    return instant(wall_ms, to_the_ms=True)
