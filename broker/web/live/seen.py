"""`/api/live` for a reader with restricted rights.

The rights are checked at each update. Rows that the reader may not see are omitted, so that a row
disappears when a right is revoked. When rights may have changed, all rows are created again. Row
keys are not redacted: if a row's key contains a name that the reader may not see, the row is
omitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from broker.loop.slices import Slices
from broker.web.live.events import Row, Source
from broker.web.readers.reader import Reader
from broker.web.readers.redaction import Redaction, redacted
from security.acls.model import CLUSTER_NAME, Operation, ResourceType

View = dict[str, Any]

_KINDS = {
    "groups": ResourceType.GROUP,
    "transactions": ResourceType.TRANSACTIONAL_ID,
    "topics": ResourceType.TOPIC,
}
_FIELD_OF = {"groups": "group", "transactions": "id", "topics": "topic"}


class SeenBy(Source):
    """A source that returns the data of the source ``inner`` without the data that ``reader`` may
    not see."""

    def __init__(self, inner: Source, watch: str, reader: Reader) -> None:
        self._inner = inner
        self._reader = reader
        self._kind, self._of_one, self._name = watch.partition("/")

    @property
    def epoch(self) -> int:
        """A number that changes when the reader's rights may have changed."""
        return self._reader.epoch

    async def prepare(self, slices: Slices) -> None:
        await self._inner.prepare(slices)

    def _may(self) -> bool:
        """Returns True if the reader may see the watched object. All readers may watch lists, since
        the rows of lists are filtered."""
        if self._kind not in _KINDS:
            return self._reader.sees_cluster
        return not self._of_one or self._sees(self._kind, self._name)

    def _sees(self, kind: str, name: str) -> bool:
        reader = self._reader
        if kind == "groups":
            return reader.sees_group(name)
        return reader.sees_topic(name) if kind == "topics" else reader.sees_transactional_id(name)

    def head(self) -> View:
        """Returns the fields of the page that are not in its tables.

        If the reader may not see the page, returns only the fields that identify the page, and the
        field ``denied``, a sentence that names the missing right.
        """
        reader = self._reader
        if self._may():
            found: View = redacted(reader, self._inner.head(), self._inner.topics_named(None))
            return found
        kind = _KINDS.get(self._kind, ResourceType.CLUSTER)
        name = self._name if self._kind in _KINDS else CLUSTER_NAME
        head: View = {"denied": reader.sentence(Operation.DESCRIBE, kind, name)}
        if self._kind in _FIELD_OF:
            head |= {_FIELD_OF[self._kind]: name, "exists": False}
        return head

    def rows(self) -> Iterator[Row | None]:
        """Yields the rows that the reader may see. Names that the reader may not see are removed
        from them."""
        if not self._may():
            return
        epoch = self._reader.epoch
        of_one = None
        if self._of_one:  # all rows are of one object, and may name the same topics
            of_one = Redaction(self._reader, self._inner.topics_named(None))
        for row in self._inner.rows():
            if row is None or not self._sees_row(row):
                yield None
                continue
            token = None if row.token is None else (row.token, epoch)
            yield row._replace(token=token, make=partial(self._made, row, of_one))

    def _made(self, row: Row, redaction: Redaction | None) -> object:
        if redaction is None:
            redaction = Redaction(self._reader, self._inner.topics_named(row))
        return redaction.of(row.make())

    def _sees_row(self, row: Row) -> bool:
        """Returns True if the reader may see the object that the row key names."""
        reader = self._reader
        match row.table:
            case "group":
                return reader.sees_group(row.key)
            case "topic":
                return reader.sees_topic(row.key)
            case "setting":
                return reader.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, self._name)
            case "transaction":
                return reader.sees_transactional_id(row.key)
            case "offset" | "held" | "share":
                return reader.sees_topic(_topic(row.key))
            case "wait":  # "deletion orders-0"
                return reader.sees_topic(_topic(row.key.partition(" ")[2]))
            case "partition" if self._kind in ("transactions", "cluster"):
                return reader.sees_topic(_topic(row.key))
        return True


def _topic(place: str) -> str:
    """Returns the topic in the name of a partition, such as ``orders-0``."""
    return place.rpartition("-")[0]
