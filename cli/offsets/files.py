"""Files of committed offsets in JSON or CSV, for `offsets export` and `offsets import`.

The JSON form is ``{"version": 1, "groups": [{"group", "offsets": [{"topic", "partition", "offset",
"leader_epoch", "metadata"}]}]}``. The CSV form has a header line ``group, topic, partition, offset,
leader_epoch, metadata``. Both forms contain all fields of a commit, so that an import restores the
exported offsets exactly.

The CSV files of Kafka's own tool can be read too. They have no header: ``topic,partition,offset``
or ``group,topic,partition,offset``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from cli.client.group_reads import Committed
from cli.client.offsets_at import Partition
from cli.errors import USAGE, CommandError

Groups = dict[str, dict[Partition, Committed]]

VERSION = 1
COLUMNS = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
_APACHE = (("topic", "partition", "offset"), ("group", "topic", "partition", "offset"))
_OFFSET_MAX = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1


def as_json(groups: Mapping[str, Mapping[Partition, Committed]]) -> str:
    value = {"version": VERSION, "groups": listed(groups)}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def listed(groups: Mapping[str, Mapping[Partition, Committed]]) -> list[dict[str, Any]]:
    """Returns groups and their offsets in the form that a JSON file of offsets contains."""
    return [
        {
            "group": group_id,
            "offsets": [
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": found.offset,
                    "leader_epoch": found.leader_epoch,
                    "metadata": found.metadata,
                }
                for (topic, partition), found in sorted(offsets.items())
            ],
        }
        for group_id, offsets in groups.items()
    ]


def as_csv(groups: Mapping[str, Mapping[Partition, Committed]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for group_id, offsets in groups.items():
        for (topic, partition), found in sorted(offsets.items()):
            writer.writerow(
                (group_id, topic, partition, found.offset, found.leader_epoch, found.metadata)
            )
    return text.getvalue()


def read(text: str, name: str, group: str | None) -> Groups:
    """Returns the groups in the text of a file of any supported form.

    The file may contain offsets of one group without a group id, or with an id that ``group``
    replaces. Raises CommandError if ``group`` is given for a file with several groups, or if a line
    or entry of the file can't be read.
    """
    if not text.strip():
        raise CommandError(f"{name} is empty", USAGE)
    if text.lstrip()[:1] == "{":
        groups = from_value(_json(text, name), name)
    else:
        groups = _collected(_csv_entries(text, name), name)
    if group is not None:
        if len(groups) > 1:
            raise CommandError(f"{name} has offsets of {len(groups)} groups; omit --group", USAGE)
        groups = dict(zip([group], groups.values(), strict=False))
    if "" in groups:
        raise CommandError(f"{name} does not name a group; add --group GROUP", USAGE)
    return groups


def from_value(value: Any, name: str) -> Groups:
    """Returns the groups in the JSON value of an offsets file or a backup. A group without an id
    has the id ""."""
    return _collected(_json_entries(value, name), name)


def _collected(entries: Iterable[tuple[str, Any]], name: str) -> Groups:
    groups: Groups = {}
    for where, entry in entries:
        group_id, key, found = _entry(entry, f"{name}, {where}")
        offsets = groups.setdefault(group_id or "", {})
        if key in offsets:
            raise CommandError(
                f"{name}, {where}: {key[0]}:{key[1]} is a duplicate; remove one entry", USAGE
            )
        offsets[key] = found
    return groups


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(
            f"{name} is not valid JSON ({error}); use a file of `muster offsets export`",
            USAGE,
        ) from None


def _json_entries(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    groups = value.get("groups")
    if value.get("version") != VERSION or not isinstance(groups, list):
        raise CommandError(
            f'{name} is not an offsets file: expected {{"version": 1, "groups": [...]}}', USAGE
        )
    for number, group in enumerate(groups):
        offsets = group.get("offsets") if isinstance(group, dict) else None
        if not isinstance(offsets, list):
            raise CommandError(f"{name}, group {number + 1}: the list of offsets is missing", USAGE)
        for index, entry in enumerate(offsets):
            where = f"group {number + 1}, offset {index + 1}"
            if not isinstance(entry, dict):
                raise CommandError(f"{name}, {where} is not a JSON object", USAGE)
            yield where, {**entry, "group": group.get("group")}


def _csv_entries(text: str, name: str) -> Iterable[tuple[str, dict[str, str]]]:
    columns: tuple[str, ...] = ()
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        if not columns:
            if {"topic", "partition", "offset"} <= set(row):
                columns = tuple(row)
                continue
            columns = next((known for known in _APACHE if len(known) == len(row)), ())
        if len(row) != len(columns):
            raise CommandError(
                f"{name}, line {number}: has {len(row)} columns instead of"
                f" {len(columns) or ','.join(COLUMNS)}",
                USAGE,
            )
        yield f"line {number}", dict(zip(columns, row, strict=True))


def _entry(entry: Mapping[str, Any], where: str) -> tuple[str | None, Partition, Committed]:
    topic, group, metadata = entry.get("topic"), entry.get("group"), entry.get("metadata")
    if not isinstance(topic, str) or not topic:
        raise CommandError(f"{where}: the field topic is missing or empty", USAGE)
    if not isinstance(group, str | None) or not isinstance(metadata, str | None):
        raise CommandError(f"{where}: group and metadata must be strings", USAGE)
    partition = _number(entry, "partition", where, 0, _INT_MAX)
    found = Committed(
        _number(entry, "offset", where, 0, _OFFSET_MAX),
        metadata or "",
        _number(entry, "leader_epoch", where, -1, _INT_MAX) if "leader_epoch" in entry else -1,
    )
    return group, (topic, partition), found


def _number(entry: Mapping[str, Any], field: str, where: str, least: int, most: int) -> int:
    value = entry.get(field)
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise CommandError(
            f"{where}: {field} is {value!r}; it must be a whole number, {least} or more", USAGE
        )
    return number
