"""Commands that change offsets: the confirmation, the requests, and the error when a broker rejects
some offsets."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest

from cli.client.group_reads import Committed
from cli.errors import CommandError
from cli.offsets import changes
from cli.offsets.changes import Change, agreed, make
from protocol import errors

ROWS = [Change("g", ("t", 0), None, Committed(5)).row()]


class ATerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_change_of_offsets_needs_confirmation_on_a_terminal(
    typed: str, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", ATerminal(typed))
    monkeypatch.setattr("sys.stdout", shown := ATerminal())
    assert agreed(ROWS, "1 offset", dry_run=False, execute=False, json=False) is done
    assert "Change 1 offset? [y/N]" in shown.getvalue()


@pytest.mark.parametrize("json", [True, False])
def test_change_of_offsets_needs_option_execute_when_output_is_json_or_a_pipe(
    json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if json:
        monkeypatch.setattr("sys.stdin", ATerminal("y\n"))
    with pytest.raises(CommandError, match="nothing was changed: add --execute"):
        agreed(ROWS, "1 offset", dry_run=False, execute=False, json=json)


class Coordinator:
    """A fake coordinator that returns ``code`` as the error of partition 1 in OffsetCommit
    responses."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.asked: list[dict[str, Any]] = []

    def coordinators(self, groups: Iterable[str]) -> dict[str, Coordinator]:
        return dict.fromkeys(groups, self)

    def lanes(self, connection: Coordinator, _: int) -> list[Coordinator]:
        return [connection]

    def call(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(value)
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {
                            "partition_index": p["partition_index"],
                            "error_code": self.code if p["partition_index"] == 1 else 0,
                        }
                        for p in topic["partitions"]
                    ],
                }
                for topic in value["topics"]
            ]
        }


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errors.UNKNOWN_MEMBER_ID, "NON_EMPTY_GROUP; stop the members first"),
        (errors.OFFSET_METADATA_TOO_LARGE, "OFFSET_METADATA_TOO_LARGE"),
    ],
)
def test_error_of_a_partly_rejected_commit_names_the_rejected_partition(
    code: int, says: str
) -> None:
    changes = [Change("g", ("t", number), None, Committed(5)) for number in range(3)]
    with pytest.raises(CommandError) as caught:
        make(Coordinator(code), changes)  # type: ignore[arg-type]
    assert str(caught.value).startswith("changed 2 of 3 offsets; group g, t:1: ")
    assert says in str(caught.value)


def test_many_offsets_are_committed_in_several_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "CHUNK", 2)
    coordinator = Coordinator(0)
    make(coordinator, [Change("g", ("t", n), None, Committed(5)) for n in range(5)])  # type: ignore[arg-type]
    sizes = [len(asked["topics"][0]["partitions"]) for asked in coordinator.asked]
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, Committed(5), True),
        (Committed(5), None, True),
        (Committed(5), Committed(4), True),
        (Committed(5, "a"), Committed(5), True),
        (Committed(5, "a", 3), Committed(5, "a"), False),
        (None, None, False),
    ],
)
def test_step_of_a_plan_is_a_change_only_when_it_changes_offset_or_metadata(
    before: Committed | None, after: Committed | None, expected: bool
) -> None:
    assert Change("g", ("t", 0), before, after).is_one is expected


@pytest.mark.parametrize(("refreshes", "kept"), [(False, [1, 2]), (True, [0, 1, 2])])
def test_plan_of_offset_changes_shows_an_unchanged_offset_only_if_it_is_committed_again(
    refreshes: bool, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(changes, "agreed", lambda rows, *_: shown.extend(rows))
    planned = [
        Change("g", ("t", 0), Committed(5), Committed(5)),
        Change("g", ("t", 1), Committed(5), Committed(0)),
        Change("g", ("t", 2), Committed(0), Committed(0), "7 is after the end"),
    ]

    coordinator: Any = None
    changes.finish(coordinator, planned, True, False, False, refreshes=refreshes)

    assert [row["partition"] for row in shown] == kept
