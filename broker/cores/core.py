"""What the runtime hosts: a `Core`, which is pure, and the `Kind` that it is of.

The runtime gives any core its turns, its log and its timer, and knows no more of it than this page.
Groups are one kind (broker/cores/groups/kind.py), transactional ids another. A kind is an internal
topic of Kafka: a core for each of its partitions, whose records are the core's only memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, Protocol, TypeVar

from broker.cores.pass_over import PassOver
from broker.topics.ticket import Ticket
from log.producers.accepted_producers import AcceptedProducers
from offsets.snapshot_image import Image, ImageHead, ImageWriter
from protocol.buffer import Buffer
from protocol.now import Now
from protocol.records.batch import BatchForm, BatchHeader
from protocol.slotted import slotted

Reply = Any
Event = Any


class Run(Protocol):
    """Records of one call that are encoded, replayed and loaded together."""

    def __len__(self) -> int:
        """How many records, and so how many offsets of the log."""


Outcome = tuple[Sequence[Any], Sequence[tuple[Ticket, Reply]], Sequence[Event]]
"""What a step asks for, in this order: runs to append, replies to give once these are stable, and
facts for the observers."""


class Call(Protocol):
    """A decoded request for a core."""

    @property
    def ticket(self) -> Ticket:
        """Takes the reply, once."""


class CoreConfig(Protocol):
    """Settings of a core, which are its own but for this one."""

    @property
    def max_record_bytes(self) -> int:
        """max.message.bytes of the internal topic: the largest batch."""


class View(Protocol):
    """All that others may read of a core, as it is now; each kind's view has more."""

    def known(self) -> int:
        """How many things the log has named so far; during a load too."""

    def live_records(self) -> int:
        """About how many of the log's records are not superseded; a cleaner leaves these."""


class Core(Protocol):
    """What is kept of one partition of an internal topic, and what happens in it.

    Pure: time is an argument, effects are an Outcome. One call at a time; ``now`` never goes back
    in ``mono_ms``. Each run of an outcome is replayed at once, in order, with its log offset, so
    that the next call sees it; the outcome's replies were made before that. Before `loaded` come
    only `restore` by the kind's snapshot, `replay`, then `wake`. After `unload` it is thrown away.
    """

    @property
    def view(self) -> View:
        """All that others may read; nothing is copied for it."""

    def handle(self, call: Any, now: Now) -> Outcome:
        """Handles a call; its ticket is answered in this outcome or in a later one."""

    @property
    def connections(self) -> Collection[Hashable]:
        """The open connections that the core must know the end of."""

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """One of ``connections`` has closed."""

    def replay(self, run: Any, base_offset: int) -> None:
        """Folds in a run whose first record is at that log offset, live and at load."""

    def restore(self, *part: Any) -> None:
        """Takes over a part of a snapshot, before the log behind it is replayed."""

    def wake(self, now: Now, budget: int) -> int:
        """Part of `loaded`, for so many things at most; how many it was, 0 when that was all."""

    def loaded(self, now: Now) -> Outcome:
        """The log is replayed: time begins, and calls may come."""

    def expire(self, now: Now, budget: int) -> Outcome:
        """Does what is due, about so many items of it and one at least."""

    def next_deadline(self) -> int | None:
        """When `expire` has something to do next, in monotonic milliseconds; None: never."""

    def configure(self, config: Any) -> None:
        """Other settings, from the next call on."""

    def unload(self, error_code: int) -> Outcome:
        """Answers every parked call with the error; no records."""


class Reader(Protocol):
    """Makes runs of a log's batches, and takes them into a core; one for each load."""

    skipped: Counter[int]
    """How many records of kinds were met that are not known, by their number."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, Any]]:
        """The (base offset, run) to replay now that this batch was read.

        Raises CorruptStoredRecord.
        """

    def replay(self, run: Any, base_offset: int) -> None:
        """Takes one of them into the core. Raises CorruptStoredRecord for whatever is wrong."""


CoreT = TypeVar("CoreT", bound=Core)

OwnBatch = Callable[[Any, BatchForm, int, int, int], tuple[bytes, BatchHeader]]
"""A run's batch and its header, of the form of the log's batches, the first offset, the leader
epoch, and the time of the append (wall)."""


@slotted(frozen=True)
class SnapshotForm(Generic[CoreT]):
    """What a snapshot of a core consists of."""

    file_name: str
    """In the partition's directory."""
    blocks: Callable[[CoreT, ImageWriter, ImageHead, Callable[[], bool]], Iterator[bytes]]
    """The pieces but the last, each made of the core as it is then: one ends where a slice does,
    as the last argument says."""
    restore: Callable[[CoreT, Image, int, int], Iterator[None]]
    """Takes an image over in short steps, into a partition of so many. Raises BadImage, KeyError,
    CorruptRecord."""


@slotted(frozen=True)
class LongRuns:
    """Runs that may be split over batches."""

    kind: type
    """Their type."""
    pieces: Callable[[Any], Sequence[Any]]
    """What such a run is split into."""
    records_max: int
    """How many records of such a run stay together."""


@slotted(frozen=True)
class Kind(Generic[CoreT]):
    """What the runtime must know of the cores that it hosts."""

    topic: str
    """The internal topic."""
    things: str
    """What a core keeps, for log lines and messages: "groups", "transactional ids"."""
    new_core: Callable[[Any], CoreT]
    """A core with nothing in it, from its settings."""
    partition_of: Callable[[str, int], int]
    """Which of so many partitions keeps a key."""
    reader: Callable[[CoreT, int, int, PassOver | None], Reader]
    """What loads a core: that of a partition, of so many, without records that are passed over."""
    skip_setting: str
    """The broker's property that names records which a load is to skip."""
    encode: Callable[[Any, int], bytes]
    """The records section of a run, whose offset deltas begin there."""
    refusal: Callable[[Any, int], Reply]
    """The reply to a call that says only an error."""
    not_served: Callable[[Any, int], Reply]
    """The reply to a call that reaches no core, for that reason."""
    loading_error: Callable[[Any], int]
    """The error of a call while its core is loaded."""
    write_failed: Callable[[Reply], Reply]
    """What becomes of a reply whose records can't be written."""
    not_stable: Callable[[Reply, Exception], Reply]
    """What becomes of a reply whose records are not stable: NotYetStable, or never will be."""
    reads: tuple[type, ...]
    """Calls that change nothing: they need no record, and a bug in one harms nobody else."""
    needs_no_record: tuple[type, ...]
    """Calls that are served while the log takes no writes."""
    sets_no_deadline: tuple[type, ...]
    """Calls after which no timer need be looked at."""
    counted: type
    """Calls that are counted, and answered early where settings ask for it."""
    snapshot: SnapshotForm[CoreT] | None = None
    """None: its topic is loaded whole."""
    long_runs: LongRuns | None = None
    """None: no run is split."""
    own_batches: Mapping[type, OwnBatch] = field(default_factory=dict)
    """The types of runs that stand in a batch of their own, and what makes it."""
    note_producer: Callable[[AcceptedProducers, Any, int], None] | None = None
    """Enters the producer of such a run, which is accepted at that offset."""

    @property
    def field_name(self) -> str:
        """`things` as the name of a field."""
        return self.things.replace(" ", "_")
