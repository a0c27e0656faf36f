"""Queries that return the history itself as tables."""

from __future__ import annotations

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params


def events(d: Dialect, p: Params) -> str:
    return "SELECT * FROM events"


def stretches(d: Dialect, p: Params) -> str:
    return "SELECT * FROM stretches"
