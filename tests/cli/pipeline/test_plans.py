"""If the brokers reject a plan of offset changes, the command does not print that it has executed
the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from cli.errors import CommandError
from cli.pipeline.plans import Manner, carry_out
from pipeline.repairs.plan import KAFKA, Key, Plan, Position, Step, from_json

KEY = Key("billing", "orders", 3)


class Refusing:
    """A fake target of a plan. It rejects the plan either in `check` or in `write`."""

    kind = KAFKA
    where = "127.0.0.1:9092"
    cluster_id = "ours"

    def __init__(self, refuses_at: str) -> None:
        self._refuses_at = refuses_at

    def read(self, keys: Sequence[Key]) -> Mapping[Key, Position]:
        return {}

    def settled(self, steps: Sequence[Step]) -> list[Step]:
        return list(steps)

    def check(self, groups: Iterable[str], force: bool) -> None:
        if self._refuses_at == "check":
            raise CommandError("group billing is Stable")

    def write(self, steps: Sequence[Step], force: bool) -> None:
        raise CommandError("0 of 1 offset changed, the others not")

    def close(self) -> None:
        pass


@pytest.fixture
def plan() -> Plan:
    step = Step(KEY, Position(40), Position(10), 30, 0)
    about = {"source": "archive", "at": "2026-11-22T12:05:31.000Z"}
    return Plan("restore", KAFKA, "127.0.0.1:9092", "ours", "2026-11-22T13:00:00Z", about, (step,))


def refused(plan: Plan, target: Refusing, file: Path, json: bool) -> None:
    manner = Manner(dry_run=False, execute=True, force=False, json=json, timeout_s=30)
    with pytest.raises(CommandError):
        carry_out(target, plan, file, manner)


def test_table_of_a_plan_is_titled_to_be_changed_when_the_target_fails_to_write_offsets(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    refused(plan, Refusing("write"), file, json=False)
    shown = capsys.readouterr().out

    assert shown.splitlines()[:2] == ["Offsets as of 2026-11-22T12:05:31.000Z", "To be changed"]
    assert "Changed" not in shown
    assert from_json(file.read_text(), "plan").executed_at is None


@pytest.mark.parametrize("json", [False, True])
def test_pipeline_command_shows_no_plan_when_the_target_rejects_the_plan(
    plan: Plan, tmp_path: Path, json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(plan, Refusing("check"), tmp_path / "plan.json", json)

    assert capsys.readouterr().out == ""
    assert not (tmp_path / "plan.json").exists()


def test_rejected_plan_prints_no_json(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(plan, Refusing("write"), tmp_path / "plan.json", json=True)

    assert capsys.readouterr().out == ""
