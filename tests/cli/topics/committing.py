"""Commits offsets with `muster offsets set` for tests of topic commands."""

from __future__ import annotations

from tests.cli.running import run
from tests.waiting import until


def commit(group: str, *offsets: str) -> None:
    """Commits offsets such as ``orders:0=42``. Retries until the coordinator accepts them."""
    words = ["offsets", "set", group, *offsets, "--execute"]
    assert until("the group can be committed to", lambda: run(*words).code == 0)
