"""The interface of hosted cores: a pure `Core`, and its `Kind`.

The runtime provides any core with turns, a log and a timer, and knows only this interface. Groups
are one kind of core (broker/cores/groups/kind.py), transactional ids another. Each kind has an
internal topic of Kafka: there is one core per partition, and the partition's records are the core's
only persistent state.
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
        """Returns the number of records, each of which has one log offset."""


Outcome = tuple[Sequence[Any], Sequence[tuple[Ticket, Reply]], Sequence[Event]]
"""The result of a step: runs to append, replies to release once the runs are stable, and events for
the observers."""


class Call(Protocol):
    """A decoded request for a core."""

    @property
    def ticket(self) -> Ticket:
        """Returns the ticket that gets one reply to this call."""


class CoreConfig(Protocol):
    """The settings that all kinds of core have; each kind has further settings."""

    @property
    def max_record_bytes(self) -> int:
        """Returns the max.message.bytes of the internal topic: the size in bytes of the largest
        batch."""


class View(Protocol):
    """The part of a core's state that other code may read; each kind's view has further methods."""

    def known(self) -> int:
        """Returns the number of groups or transactional ids named in the log so far, also during a
        load."""

    def live_records(self) -> int:
        """Returns the approximate number of log records that a cleaner would retain."""


class Core(Protocol):
    """The state of one partition of an internal topic.

    A core is pure: time is an argument, effects are an `Outcome`. The caller makes one call at a
    time; ``now.mono_ms`` never decreases. The caller replays each run of an outcome immediately, in
    order, with its log offset, so that the next call sees the run; the outcome's replies were made
    before the replay. Before `loaded` the caller uses only `restore` (as the kind's snapshot
    requires), then `replay`, then `wake`. After `unload` the caller discards the core.
    """

    @property
    def view(self) -> View:
        """Returns the part of the state that other code may read; the view is not a copy."""

    def handle(self, call: Any, now: Now) -> Outcome:
        """Handles a call. This outcome or a later outcome contains the reply for the call's
        ticket."""

    @property
    def connections(self) -> Collection[Hashable]:
        """Returns the open connections whose close must be reported to the core."""

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """Handles the close of a connection in ``connections``."""

    def replay(self, run: Any, base_offset: int) -> None:
        """Applies a run whose first record is at ``base_offset``, both live and during a load."""

    def restore(self, *part: Any) -> None:
        """Restores a part of a snapshot, before the rest of the log is replayed."""

    def wake(self, now: Now, budget: int) -> int:
        """Does a part of the work between `replay` and `loaded`, for at most ``budget`` ids.

        Returns the number of ids that were handled; 0 when no work is left.
        """

    def loaded(self, now: Now) -> Outcome:
        """Ends the load and sets deadlines. After this method the core accepts calls."""

    def expire(self, now: Now, budget: int) -> Outcome:
        """Processes due work: about ``budget`` items, and at least one item."""

    def next_deadline(self) -> int | None:
        """Returns the monotonic time in ms at which `expire` has work next; None if `expire` has no
        work."""

    def configure(self, config: Any) -> None:
        """Applies changed settings from the next call on."""

    def unload(self, error_code: int) -> Outcome:
        """Answers every parked call with ``error_code``; the outcome contains no records."""


class Reader(Protocol):
    """Decodes a log's batches into runs and replays the runs into a core; each load has its own
    reader."""

    skipped: Counter[int]
    """The number of skipped records, by unknown record type."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, Any]]:
        """Returns the runs of a batch that can be replayed now, each with its base offset.

        Raises CorruptStoredRecord if the batch can't be decoded.
        """

    def replay(self, run: Any, base_offset: int) -> None:
        """Replays a run that `runs` returned into the core. Raises CorruptStoredRecord for any
        defect."""


CoreT = TypeVar("CoreT", bound=Core)

OwnBatch = Callable[[Any, BatchForm, int, int, int], tuple[bytes, BatchHeader]]
"""A function that makes a run's batch and the batch header. Arguments: the run, the form of the
log's batches, the first offset, the leader epoch, and the wall time of the append."""


@slotted(frozen=True)
class SnapshotForm(Generic[CoreT]):
    """The format of a snapshot of a core."""

    file_name: str
    """The name of the snapshot file in the partition's directory."""
    blocks: Callable[[CoreT, ImageWriter, ImageHead, Callable[[], bool]], Iterator[bytes]]
    """Yields all blocks except the last, each with the core's state at the time of the block. The
    last argument is a function that returns True if the current slice has ended; then the block
    ends."""
    restore: Callable[[CoreT, Image, int, int], Iterator[None]]
    """Restores an image in short steps. The integers are the partition and the number of
    partitions. Raises BadImage, KeyError, CorruptRecord."""


@slotted(frozen=True)
class LongRuns:
    """A type of runs that may be split into several batches."""

    kind: type
    """The type of the runs to split."""
    pieces: Callable[[Any], Sequence[Any]]
    """Splits a run of this type into shorter runs."""
    records_max: int
    """The number of records above which a run is split."""


@slotted(frozen=True)
class Kind(Generic[CoreT]):
    """Describes one kind of core to the runtime."""

    topic: str
    """The name of the internal topic."""
    things: str
    """The plural noun for the entries of a core in log lines and errors: "groups", "transactional
    ids"."""
    new_core: Callable[[Any], CoreT]
    """Makes an empty core from its settings."""
    partition_of: Callable[[str, int], int]
    """Returns the partition of a key, given the number of partitions."""
    reader: Callable[[CoreT, int, int, PassOver | None], Reader]
    """Makes the reader that loads a core. The integers are the partition and the number of
    partitions; PassOver names the records to skip."""
    skip_setting: str
    """The name of the broker property that selects the records to skip during a load."""
    encode: Callable[[Any, int], bytes]
    """Encodes the records section of a run; the second argument is the first offset delta."""
    refusal: Callable[[Any, int], Reply]
    """Makes the reply to a rejected call from the error code."""
    not_served: Callable[[Any, int], Reply]
    """Makes the reply, with the error code, to a call that did not reach a core."""
    loading_error: Callable[[Any], int]
    """Returns the error code for a call that arrives while its core is being loaded."""
    write_failed: Callable[[Reply], Reply]
    """Returns the reply to send instead of a reply whose records can't be written."""
    not_stable: Callable[[Reply, Exception], Reply]
    """Returns the reply to send instead of a reply whose records are not stable in time
    (NotYetStable) or can't become stable (any other error)."""
    reads: tuple[type, ...]
    """Types of calls that change no state: such calls need no record, and an exception in such a
    call leaves the core intact."""
    needs_no_record: tuple[type, ...]
    """Types of calls that are served when the log accepts no writes."""
    sets_no_deadline: tuple[type, ...]
    """Types of calls that never set a deadline, so that the timer need not be checked."""
    counted: type
    """The type of calls that are counted. If the settings allow it, such calls are answered before
    their records are written."""
    often_idle: type | None = None
    """The type of calls that set a deadline only together with records or events."""
    snapshot: SnapshotForm[CoreT] | None = None
    """The format of snapshots; None if a load always replays the whole log."""
    long_runs: LongRuns | None = None
    """The type of runs that may be split; None if runs are never split."""
    own_batches: Mapping[type, OwnBatch] = field(default_factory=dict)
    """The types of runs that need a separate batch, each with the function that makes the batch."""
    note_producer: Callable[[AcceptedProducers, Any, int], None] | None = None
    """Records the producer of a run with a separate batch, which is accepted at the given offset.
    """

    @property
    def field_name(self) -> str:
        """Returns `things` in the form of a log field's name."""
        return self.things.replace(" ", "_")
