"""The layout of every table of every command at 60, 80 and 120 columns, in
`tests/cli/golden/widths.txt`.

The commands run on a Muster broker. The test keeps the columns of each table and replaces its rows
by those of `SAMPLES`, so that each run produces the same file. The test fails if a table of `cli/`
is printed by no line of `LINES`, or if a column has no sample. `make golden` rewrites the file.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cli import layout, output
from cli.layout import Column, Columns, Lines
from tests.brokers import CHECKOUT
from tests.cli import sessions
from tests.cli.shop import LINES, open_shop

pytestmark = pytest.mark.interop

GOLDEN = sessions.GOLDEN / "widths.txt"
WIDTHS = (60, 80, 120)

SAMPLES: dict[str, tuple[Any, Any]] = {
    "address": ("kafka-1.eu-central.internal.example.org:9092", "127.0.0.1:9092"),
    "after": (123_456_789, 0),
    "api": ("ConsumerGroupDescribe", "Fetch"),
    "batches": (12_345, None),
    "before": (123_450_000, None),
    "behind": ("2.5 min", None),
    "broker": (1001, 1),
    "bytes": (12_345_678_901, 0),
    "changeable": (True, False),
    "client": ("consumer-billing-service-1", "app"),
    "client_id": ("consumer-billing-service-1", None),
    "committed": (123_456_789, None),
    "controller": (True, False),
    "coordinator": ("10.20.30.40:9092", "b1:9092"),
    "coordinator_epoch": (12, None),
    "damage": ("at byte 4096: its checksum is another than that of its bytes", None),
    "detail": ("orders.by-customer-and-country.v2:0-11", "retention.ms"),
    "documentation": ("The time in milliseconds that records are kept.", None),
    "down": (False, True),
    "end_offset": (123_467_890, 0),
    "end_offsets": (1_234_678_900, 0),
    "entries": (123_456, 0),
    "expires": ("2026-11-22T12:05:31Z", "2026-11-29T12:05:31Z"),
    "file": ("00000000000000000000.timeindex", "00000000000000000000.log"),
    "first_offset": (123_400_000, None),
    "follows": (2345, 0),
    "from": (0, 0),
    "group": ("billing-service-eu-central-1-production", "billing"),
    "groups": (12, 1),
    "heard": ("1.6 s ago of 45.0 s", "waits (JoinGroup)"),
    "held_back": (12_345, 0),
    "holds": (True, None),
    "host": ("2001:db8:85a3::8a2e:370:7334", "10.20.30.40"),
    "in": ("7 days", "next check"),
    "in_sync": ([1001, 1002, 1003], [1]),
    "instance": ("billing-service-eu-central-1-production-0", None),
    "kb_in_per_s": (123_456.7, 0.0),
    "kb_out_per_s": (123_456.7, 0.0),
    "ip": ("2001:db8:85a3::8a2e:370:7334", None),
    "iterations": (16_384, 4096),
    "key": (69, 1),
    "lag": (11_101, None),
    "last_commit": ("2.5 min ago", None),
    "last_offset": (123_467_890, None),
    "last_sequence": (123_456, None),
    "last_stable_offset": (123_456_789, 0),
    "last_why": ("billing-7f3c from 10.20.30.40 did not heartbeat for 45 s", None),
    "last_write": ("2.5 min ago", None),
    "leader": (1001, 1),
    "leader_epoch": (12, None),
    "leads": (1234, 1),
    "log_bytes": (12_345_678_901, 0),
    "lost": (39_990, None),
    "mechanism": ("SCRAM-SHA-512", "SCRAM-SHA-256"),
    "member": ("#12", "#1"),
    "members": (12, 0),
    "metadata": ("by hand, after the incident of Sunday", None),
    "name": ("orders.by-customer-and-country.v2", "*"),
    "note": ("123500000 is after the end", None),
    "number": ("#12", "#1"),
    "offset": (123_456_789, 0),
    "offsets": (1234, 1),
    "open": ("42.0 s", None),
    "operation": ("DescribeConfigs", "All"),
    "open_transactions": (12, 1),
    "ours": ("0-6", None),
    "out_of_isr": (0, 12),
    "out_of_range": (1, 0),
    "partition": (11, 0),
    "partitions": (1200, 1),
    "pattern": ("prefixed", "literal"),
    "permission": ("Allow", "Deny"),
    "preferred": (1200, 12),
    "principal": ("User:CN=billing,OU=payments,O=Example", "User:alice"),
    "producer_epoch": (32_766, 0),
    "producer_id": (4_001_000, 7),
    "protocol_type": ("consumer", None),
    "quota": ("controller_mutation_rate", "producer_byte_rate"),
    "rack": ("eu-central-1a", None),
    "read_per_s": (12_345.6, 0.0),
    "rebalances": (123, 0),
    "records": (123_456_789, 0),
    "replicas": ([1001, 1002, 1003], [1]),
    "requests_per_s": (12_345.6, 0.0),
    "reread": (12_345, None),
    "resource_type": ("TransactionalId", "Topic"),
    "restores": ("topic", "setting"),
    "segments": (123, 1),
    "sentence": ("orders:3 stands at 123456789 for 12 min; #12 on 10.20.30.40 owns it", None),
    "setting": ("group.initial.rebalance.delay.ms", "log.dirs"),
    "settings": (12, 0),
    "silent": ("16 min ago", "25 h ago"),
    "skipped": (12_345, None),
    "source": ("broker's properties", "default"),
    "start_offset": (123_400_000, 0),
    "state": ("PreparingRebalance", "Empty"),
    "timeout": ("15 min", "60.0 s"),
    "to": (17, 1),
    "tasks": ("0:0-11 1:0-3; standby 2:0-11", None),
    "topic": ("orders.by-customer-and-country.v2", "orders"),
    "topics": (12, 1),
    "touched": (1200, None),
    "transactional_id": ("billing-service-eu-central-1-production-0_12", "billing-1"),
    "type": ("consumer", "classic"),
    "unknown": (3, 0),
    "unread": (11_101, None),
    "user": ("billing-service-eu-central-1", "(default)"),
    "value": ("PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093", "1"),
    "verdict": ("OUT_OF_RANGE", "OK"),
    "why": ("the group is Empty and committed it more than 7 days ago", None),
    "written_per_s": (12_345.6, 0.0),
}
"""Two sample values of each field. The first is for a row with long values, the second for a row
with short values."""

OWNED = (
    [{"topic": "orders.by-customer-and-country.v2", "partitions": [0, 1, 2, 5]}],
    [{"topic": "orders", "partitions": [0]}, {"topic": "events", "partitions": [3]}],
)
"""Two samples of the partitions of a member. The first is for a row with long values, the second
for a row with short values."""

UNREACHED = {
    ("cli/top.py", "_drawn"): "the columns of `_print`, drawn live",
    ("cli/share/describing.py", "describe"): "needs a share group",
    ("cli/share/peek.py", "peek"): "needs a share group",
    ("cli/transactions/hanging.py", "hanging"): "needs a transaction that hangs",
    ("cli/pipeline/jobs.py", "show"): "needs a history",
    ("cli/pipeline/compare.py", "compare"): "needs a history",
    ("cli/pipeline/plans.py", "_steps"): "needs a plan that others have changed",
}

FOR_OTHERS = ("cli/output.py", "cli/plans.py")
"""Modules whose functions print tables on behalf of a caller. The test records the caller as the
function that prints the table."""


class Captured:
    """Records each table that a command prints, at each width and with the rows of `SAMPLES`."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.places: set[tuple[str, str]] = set()

    def laid_out(self, rows: Any, columns: Columns, *_: Any, **__: Any) -> Lines:
        """Replaces `layout.laid_out`. Records the table, and returns an empty table."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith(FOR_OTHERS):
            frame = frame.f_back  # type: ignore[assignment]
        place = Path(frame.f_code.co_filename).relative_to(CHECKOUT)
        self.places.add((str(place), frame.f_code.co_name))
        fields = [each.field if isinstance(each, Column) else each for each in columns]
        samples = [{field: SAMPLES[field][number] for field in fields} for number in (0, 1)]
        if {"instance", "heard"} & set(fields):
            samples = [row | {"partitions": OWNED[number]} for number, row in enumerate(samples)]
        for width in WIDTHS:
            lines = layout.laid_out(samples, columns, width)
            self.text.append(f"-- {width} columns " + "-" * (width - len(f"-- {width} columns ")))
            self.text += [*lines.header, *lines.body]
            self.text += [f"(too narrow for {', '.join(lines.left_out)})"] if lines.left_out else []
            assert max(map(cell_len, [*lines.header, *lines.body])) <= width
        return Lines([], [], [])


def test_tables_of_each_width_equal_the_golden_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = Captured()
    with open_shop(tmp_path) as shop:
        monkeypatch.setattr(output, "laid_out", captured.laid_out)
        monkeypatch.setattr("cli.groups.watch.laid_out", captured.laid_out)
        for line in LINES:
            captured.text += ["", f"$ muster {line}"]
            before = len(captured.text)
            shop.run(line)
            assert len(captured.text) > before, f"{line} prints no table"

    assert captured.places | UNREACHED.keys() == places()
    text = "\n".join(line.rstrip() for line in captured.text).lstrip("\n") + "\n"
    if sessions.WRITES:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "MUSTER_GOLDEN=write rewrites the file"


def places() -> set[tuple[str, str]]:
    """Returns module and name of each function in `cli/` that prints a table."""
    found = set()
    for path in sorted((CHECKOUT / "cli").rglob("*.py")):
        if str(path).endswith(FOR_OTHERS):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and any(
                makes_a_table(each) for each in ast.walk(function)
            ):
                found.add((str(path.relative_to(CHECKOUT)), function.name))
    return found


def makes_a_table(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name in ("output.show", "output.show_table", "output.table", "laid_out", "plan.agreed")
