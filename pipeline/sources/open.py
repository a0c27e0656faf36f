"""Where the history is read from, whatever it is: a broker, folders of segments, tables."""

from __future__ import annotations

from pipeline.sources.folder import FolderSource
from pipeline.sources.source import Source
from pipeline.sources.tables import TablesSource


def open_source(where: str) -> Source:
    """The source that ``where`` names; PipelineError when it is not one.

    A folder that has the table `events`, else folders of segments: a broker's data folders (several
    with commas), a partition's folder, live or archived.
    """
    tables = TablesSource.at(where)
    return FolderSource(where) if tables is None else tables
