"""The history itself as tables."""

from __future__ import annotations

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params


def events(d: Dialect, p: Params) -> str:
    """EVENTS, as selected."""
    return "SELECT * FROM events"


def stretches(d: Dialect, p: Params) -> str:
    """STRETCHES of the topics that were asked for."""
    return "SELECT * FROM stretches"
