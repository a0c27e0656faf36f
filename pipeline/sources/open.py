"""Where the history is read from, whatever it is: a broker, folders of segments, tables."""

from __future__ import annotations

from client.security import PLAINTEXT, Security
from pipeline.sources.broker import addresses_of
from pipeline.sources.folder import FolderSource
from pipeline.sources.source import Source
from pipeline.sources.tables import TablesSource
from pipeline.sources.wire.brokers import TIMEOUT_S, Reach
from pipeline.sources.wire.source import BrokerSource


def open_source(where: str, security: Security = PLAINTEXT, timeout_s: float = TIMEOUT_S) -> Source:
    """The source that ``where`` names; PipelineError when it is not one.

    `HOST:PORT` (several with commas) or `kafka://HOST:PORT`: a broker, reached as ``security``
    says. Else a folder that has the table `events`, else folders of segments: a broker's data
    folders (several with commas), a partition's folder, live or archived.
    """
    addresses = addresses_of(where)
    if addresses is not None:
        return BrokerSource(where, Reach(tuple(addresses), security, timeout_s))
    tables = TablesSource.at(where)
    return FolderSource(where) if tables is None else tables
