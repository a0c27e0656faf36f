"""Backup files: a written file is read with the same content. Changed and truncated files are
rejected."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cli.backup.file import Backup, SavedTopic, from_text, of_groups, to_text
from cli.client.group_reads import Committed
from cli.errors import CommandError
from cli.offsets import files as offset_files

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operate" / "backup.md"
BACKUP = Backup(
    1_795_000_000_123,
    "oZc2s9nkTb2qTRD90Zvz0A",
    [SavedTopic("orders", 3, 1, {"retention.ms": "86400000"}), SavedTopic("größe", 1, 1, {})],
    {None: {"log.cleaner.threads": "2"}, 1: {"num.io.threads": "9"}},
    {"billing": {("orders", 0): Committed(42, "by hand", 3), ("orders", 2): Committed(0)}},
)


def test_backup_is_equal_after_it_is_written_and_read() -> None:
    assert from_text(to_text(BACKUP), "f") == BACKUP


def test_groups_of_a_backup_are_selected_by_name_or_pattern() -> None:
    more = replace(BACKUP, groups=BACKUP.groups | {"mail": {}, "mailer": {}})
    assert of_groups(more, ["billing"]) == BACKUP
    assert list(of_groups(more, ["mail*"]).groups) == ["mail", "mailer"]
    with pytest.raises(CommandError, match=r"no group biling; did you mean billing\?"):
        of_groups(more, ["biling"])


def test_offsets_import_accepts_a_backup_file() -> None:
    assert offset_files.read(to_text(BACKUP), "f", None) == BACKUP.groups


def test_example_in_backup_md_is_a_valid_backup() -> None:
    [example] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    backup = from_text(example, "docs/operate/backup.md")
    assert to_text(backup) == example
    assert backup.topics
    assert backup.brokers
    assert backup.groups


def test_backup_checksum_covers_the_values_but_not_the_json_indentation() -> None:
    value = json.loads(to_text(BACKUP))
    assert from_text(json.dumps(value, indent=8), "f") == BACKUP
    value["groups"][0]["offsets"][0]["offset"] += 1
    with pytest.raises(CommandError, match=r"changed or damaged.*--edited"):
        from_text(json.dumps(value), "f")
    edited = from_text(json.dumps(value), "f", edited=True)
    assert edited.groups["billing"]["orders", 0].offset == 43


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "is a backup of version 2; this muster reads only version 1"),
        ({"topics": [{"topic": "t"}]}, "is not a valid backup: 'partitions'"),
        (
            {"topics": [{"topic": "t", "partitions": True, "replication_factor": 1}]},
            "topic t: invalid number of partitions or replicas True",
        ),
        ({"topics": 7}, "is not a valid backup"),
        ({"brokers": [{"broker": None, "configs": {"a": 1}}]}, "settings must be strings"),
        ({"taken_ms": None}, "is not a valid backup"),
        (
            {"groups": [{"group": "g", "offsets": [{"topic": "t"}]}]},
            "partition is None; it must be a whole number",
        ),
        ({"groups": None}, "is not an offsets file"),
    ],
)
def test_backup_with_invalid_content_is_rejected_with_the_reason(
    change: dict[str, object], sentence: str
) -> None:
    value = json.loads(to_text(BACKUP)) | change
    with pytest.raises(CommandError, match=re.escape(sentence)):
        from_text(json.dumps(value), "f", edited=True)


def test_truncated_backup_and_other_json_are_rejected() -> None:
    text = to_text(BACKUP)
    for length in range(0, len(text) - 2, 7):
        with pytest.raises(CommandError, match=r"truncated or not JSON"):
            from_text(text[:length], "f")
    with pytest.raises(CommandError, match=r"is not a backup.*muster backup create"):
        from_text('{"version": 1, "groups": []}', "f")
    with pytest.raises(CommandError, match="is not a backup"):
        from_text("[]", "f")
