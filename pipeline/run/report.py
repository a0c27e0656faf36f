"""Writes the report of a run into the folder of its tables, and can write it again from existing
tables.

A file in the same folder contains the facts that the tables do not have: source, engine and as-of.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Final

from pipeline import clock
from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError
from pipeline.report.facts import TABLES
from pipeline.report.head import Head, Thresholds
from pipeline.report.page import make_report
from pipeline.storage.store import Store
from pipeline.storage.whole import check_files, table_files

REPORT: Final = "report.html"
NOTE: Final = "_report.json"
NOT_KNOWN: Final = "not known"


def write_report(engine: Engine, store: Store, there: Collection[str], head: Head) -> str:
    """Writes the report from the tables of a run. The tables are relations of ``engine``. Returns
    the path of the report."""
    store.write_text(REPORT, make_report(engine, there, head, clock.now_ms()))
    note = asdict(head)
    del note["thresholds"]
    store.write_text(NOTE, json.dumps(note))
    return store.path(REPORT)


def write_report_again(
    engine: Engine, store: Store, thresholds: Thresholds, overwrite: bool
) -> str:
    """Writes the report from the tables in a store. Returns the path of the report.

    Raises PipelineError if the store has no tables, if a report exists that may not be replaced, or
    if a run is writing to the store.
    """
    store.reserve()
    if store.has_file(REPORT) and not overwrite:
        raise PipelineError(f"{store.folder} already has {REPORT}: replace it with --overwrite")
    there = [name for name in TABLES if store.has(name)]
    if not set(there) - {"events"}:
        raise PipelineError(
            f"{store.folder} has no tables to report on: make them with `muster pipeline all`"
        )
    for name in there:
        here = [place for place in store.table_files(name) if os.path.exists(place)]
        check_files(table_files(here, may_have_none=store.grows()))
        engine.open(name, store.table_files(name), TABLES[name])
    return write_report(engine, store, there, replace(_noted(store), thresholds=thresholds))


def _noted(store: Store) -> Head:
    """Reads the facts that the last run wrote into a file. If the file is missing, the result has
    only the folder and the cluster id."""
    text = store.read_text(NOTE)
    if text is None:
        return Head(store.folder, NOT_KNOWN, cluster_id=store.cluster_id())
    try:
        note = json.loads(text)
        return Head(str(note["source"]), str(note["engine"]), note["as_of_ms"], note["cluster_id"])
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"{store.path(NOTE)} is damaged ({error}): delete this file") from error
