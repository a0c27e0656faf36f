"""The tables of the topic commands in terminals of 60, 80 and 120 columns: a golden file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

import pytest

from cli import output
from cli.client.offsets_at import Bounds
from cli.topics import deletion, listing, trimming
from cli.topics.trimming import Trim
from tests.cli.running import written
from tests.cli.sessions import GOLDEN, WRITES

WIDTHS = (60, 80, 120)
LONG = "a-rather-long-name-of-the-department-of-invoices"
SENTENCES = ("Groups that ", "(too narrow", f"{LONG}.v2  id ")
"""How lines begin that are no table: the terminal folds them."""
GROUPS = [
    {"group": "billing", "offsets": 12, "members": 3},
    {"group": f"{LONG}-consumers", "offsets": 12, "members": 0},
]
TOPICS: list[output.Row] = [
    {
        "topic": topic,
        "partitions": 120,
        "replicas": 3,
        "internal": False,
        "records": records,
        "bytes": records and records * 700,
        "groups": 2,
    }
    for topic, records in (("orders", 1_234_567_890), (f"{LONG}.v2", 42), ("broken", None))
]
DESCRIBED: output.Row = {
    "topic": f"{LONG}.v2",
    "topic_id": "0ecae7a4-99a4-4be3-98b2-97d5d44cf24d",
    "records": 1_234_567_890,
    "bytes": 864_197_523_000,
    "configs": {"cleanup.policy": "compact", "retention.ms": "86400000"},
    "partitions": [
        {
            "partition": number,
            "leader": 1001,
            "replicas": [1001, 1002, 1003],
            "in_sync": [1001, 1003],
            "start_offset": 1_234_567_890,
            "end_offset": 2_234_567_890,
            "records": 1_000_000_000,
            "bytes": 700_000_000_000,
        }
        for number in (0, 119)
    ],
    "groups": GROUPS,
}
TRIMS = [
    Trim(("orders", 0), Bounds(0, 2_234_567_890), 1_234_567_890, None, [("billing", 42)]),
    Trim((f"{LONG}.v2", 119), Bounds(7, 9), 9, "1234567890 is above its end", []),
]


class Terminal(io.TextIOWrapper):
    """A stream in memory that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def drawn(width: int, show: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal(io.BytesIO(), "utf-8", write_through=True)
    with contextlib.redirect_stdout(screen):
        show()
    return written(screen).decode()


def shows() -> dict[str, Callable[[], None]]:
    gone = [{**topic, "groups": GROUPS if topic["records"] else []} for topic in TOPICS]
    trimmed = [each.row() for each in TRIMS]
    columns = listing.columns_of(groups=True, internal=False)
    return {
        "topics list --groups": lambda: output.show(TOPICS, columns, "", json=False),
        "topics describe --groups": lambda: listing._show(DESCRIBED, wide=False),
        "topics delete": lambda: deletion._show(gone, "Nothing is deleted yet"),
        "topics trim": lambda: trimming._show(trimmed, "Nothing is trimmed yet", wide=False),
    }


def test_tables_fit_their_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for command, show in shows().items():
        for width in WIDTHS:
            text = drawn(width, show, monkeypatch)
            lines = [line for line in text.splitlines() if not line.startswith(SENTENCES)]
            assert max(map(len, lines)) <= width, f"{command} at {width}:\n{text}"
            parts.append(f"# {command}, {width} columns\n{text}")
    path = GOLDEN / "topics_tables.txt"
    if WRITES:
        path.write_text("\n".join(parts))
    assert "\n".join(parts) == path.read_text(), "MUSTER_GOLDEN=write writes it anew"
