"""Queries for the tables `events` and `stretches`, which contain the history as the source returned
it."""

from __future__ import annotations

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params


def events(d: Dialect, p: Params) -> str:
    return "SELECT * FROM events"


def stretches(d: Dialect, p: Params) -> str:
    return "SELECT * FROM stretches"
