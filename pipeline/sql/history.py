"""Queries that return the history itself as tables."""

from __future__ import annotations

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params


def events(d: Dialect, p: Params) -> str:
    """Return EVENTS unchanged."""
    return "SELECT * FROM events"


def stretches(d: Dialect, p: Params) -> str:
    """Return STRETCHES of the selected topics."""
    return "SELECT * FROM stretches"
