"""Commit offsets with the command line, once the coordinator accepts them."""

from __future__ import annotations

from tests.cli.running import run
from tests.waiting import until


def commit(group: str, *offsets: str) -> None:
    """Commit offsets such as ``orders:0=42`` for a group without members."""
    words = ["offsets", "set", group, *offsets, "--execute"]
    assert until("the group can be committed to", lambda: run(*words).code == 0)
