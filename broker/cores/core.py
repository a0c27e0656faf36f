"""The interface of hosted cores: a `Core`, which is pure, and its `Kind`.

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
        """The number of records, each of which has one log offset."""


Outcome = tuple[Sequence[Any], Sequence[tuple[Ticket, Reply]], Sequence[Event]]
"""The result of a step, in this order: runs to append, replies to release once these are stable,
and events for the observers."""


class Call(Protocol):
    """A decoded request for a core."""

    @property
    def ticket(self) -> Ticket:
        """The ticket that gets the reply, once."""


class CoreConfig(Protocol):
    """Settings of a core. Each kind has its own; this one is common."""

    @property
    def max_record_bytes(self) -> int:
        """max.message.bytes of the internal topic: the largest batch."""


class View(Protocol):
    """All that others may read of a core, as it is now; each kind's view has more."""

    def known(self) -> int:
        """How many groups or transactional ids the log has named so far; during a load too."""

    def live_records(self) -> int:
        """About how many of the log's records are not superseded; a cleaner leaves these."""


class Core(Protocol):
    """The state of one partition of an internal topic.

    Pure: time is an argument, effects are an Outcome. The caller makes one call at a time; ``now``
    never goes back in ``mono_ms``. It replays each run of an outcome at once, in order, with its
    log offset, so that the next call sees it; the outcome's replies were made before that. Before
    `loaded` it calls only `restore`, by the kind's snapshot, then `replay`, then `wake`. After
    `unload` the core is thrown away.
    """

    @property
    def view(self) -> View:
        """All that others may read; nothing is copied for it."""

    def handle(self, call: Any, now: Now) -> Outcome:
        """Handles a call; its ticket is answered in this outcome or in a later one."""

    @property
    def connections(self) -> Collection[Hashable]:
        """The open connections whose end the core must know."""

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """One of ``connections`` has closed."""

    def replay(self, run: Any, base_offset: int) -> None:
        """Applies a run whose first record is at ``base_offset``, live and at load."""

    def restore(self, *part: Any) -> None:
        """Restores a part of a snapshot, before the rest of the log is replayed."""

    def wake(self, now: Now, budget: int) -> int:
        """Does a part of the work before `loaded`, for ``budget`` ids at most; returns how many it
        did, 0 when none was left.
        """

    def loaded(self, now: Now) -> Outcome:
        """The log is replayed: deadlines are armed, and calls are accepted from now on."""

    def expire(self, now: Now, budget: int) -> Outcome:
        """Does what is due, about ``budget`` items of it and one at least."""

    def next_deadline(self) -> int | None:
        """The next time at which `expire` has work, in monotonic milliseconds; None: never."""

    def configure(self, config: Any) -> None:
        """Uses other settings from the next call on."""

    def unload(self, error_code: int) -> Outcome:
        """Answers every parked call with the error; no records."""


class Reader(Protocol):
    """Decodes a log's batches into runs and replays them into a core; one reader for each load."""

    skipped: Counter[int]
    """Skipped records of unknown types, counted by type number."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, Any]]:
        """The (base offset, run) to replay now that this batch was read.

        Raises CorruptStoredRecord.
        """

    def replay(self, run: Any, base_offset: int) -> None:
        """Replays one of them into the core. Raises CorruptStoredRecord for any defect."""


CoreT = TypeVar("CoreT", bound=Core)

OwnBatch = Callable[[Any, BatchForm, int, int, int], tuple[bytes, BatchHeader]]
"""Makes a run's batch and its header; arguments: the run, the form of the log's batches, the first
offset, the leader epoch, and the wall time of the append."""


@slotted(frozen=True)
class SnapshotForm(Generic[CoreT]):
    """The format of a snapshot of a core."""

    file_name: str
    """The name of its file in the partition's directory."""
    blocks: Callable[[CoreT, ImageWriter, ImageHead, Callable[[], bool]], Iterator[bytes]]
    """The blocks but the last, each of the core as it is then; a block ends where a slice does, as
    the last argument says."""
    restore: Callable[[CoreT, Image, int, int], Iterator[None]]
    """Restores an image in short steps; the integers are the partition and the number of
    partitions. Raises BadImage, KeyError, CorruptRecord."""


@slotted(frozen=True)
class LongRuns:
    """Runs that may be split over batches."""

    kind: type
    """Their type."""
    pieces: Callable[[Any], Sequence[Any]]
    """Splits such a run."""
    records_max: int
    """The number of records of such a run that stay in one batch."""


@slotted(frozen=True)
class Kind(Generic[CoreT]):
    """The runtime's description of the cores that it hosts."""

    topic: str
    """The internal topic."""
    things: str
    """The plural name of a core's entries, for log lines and errors: "groups",
    "transactional ids"."""
    new_core: Callable[[Any], CoreT]
    """A core with nothing in it, from its settings."""
    partition_of: Callable[[str, int], int]
    """The partition of a key, given the number of partitions."""
    reader: Callable[[CoreT, int, int, PassOver | None], Reader]
    """The reader that loads a core; the integers are the partition and the number of partitions. It
    skips the records to pass over."""
    skip_setting: str
    """The broker's property that names records which a load is to skip."""
    encode: Callable[[Any, int], bytes]
    """The records section of a run, with offset deltas from the second argument on."""
    refusal: Callable[[Any, int], Reply]
    """The reply to a call with only an error code."""
    not_served: Callable[[Any, int], Reply]
    """The reply to a call that reaches no core, with the error code."""
    loading_error: Callable[[Any], int]
    """The error of a call while its core is loaded."""
    write_failed: Callable[[Reply], Reply]
    """The reply that replaces one whose records can't be written."""
    not_stable: Callable[[Reply, Exception], Reply]
    """The reply that replaces one whose records are not stable: NotYetStable, or never will be."""
    reads: tuple[type, ...]
    """Types of calls that change nothing: they need no record, and an exception in one leaves the
    core intact."""
    needs_no_record: tuple[type, ...]
    """Calls that are served while the log takes no writes."""
    sets_no_deadline: tuple[type, ...]
    """Types of calls after which the timer need not be checked."""
    counted: type
    """The type of calls that are counted, and answered early where settings ask for it."""
    snapshot: SnapshotForm[CoreT] | None = None
    """None: its topic is loaded whole."""
    long_runs: LongRuns | None = None
    """None: no run is split."""
    own_batches: Mapping[type, OwnBatch] = field(default_factory=dict)
    """The types of runs that need a batch of their own, and the functions that make it."""
    note_producer: Callable[[AcceptedProducers, Any, int], None] | None = None
    """Notes the producer of such a run, which is accepted at that offset."""

    @property
    def field_name(self) -> str:
        """`things` as the name of a field."""
        return self.things.replace(" ", "_")
