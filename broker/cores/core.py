"""The interface of hosted cores: a pure `Core`, and its `Kind`.

The runtime gives any core its turns, its log and its timer, and knows only this interface. Groups
are one kind (broker/cores/groups/kind.py), transactional ids another. A kind is an internal topic
of Kafka: it has a core for each partition, and the partition's records are the core's only
persistent state.
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
    """Records of one call, which are encoded, replayed and loaded together."""

    def __len__(self) -> int:
        """The number of records, each of which has one log offset."""


Outcome = tuple[Sequence[Any], Sequence[tuple[Ticket, Reply]], Sequence[Event]]
"""The result of a step: runs to append, replies to release once these are stable, and events for
the observers."""


class Call(Protocol):
    """A decoded request for a core."""

    @property
    def ticket(self) -> Ticket:
        """The ticket that gets one reply."""


class CoreConfig(Protocol):
    """The common settings of cores; each kind has further ones."""

    @property
    def max_record_bytes(self) -> int:
        """max.message.bytes of the internal topic: the size of the largest batch."""


class View(Protocol):
    """The current state of a core that other parts may read; each kind's view has more."""

    def known(self) -> int:
        """The number of groups or transactional ids that the log has named so far, also during a
        load."""

    def live_records(self) -> int:
        """The approximate number of log records that a cleaner would keep."""


class Core(Protocol):
    """The state of one partition of an internal topic.

    A core is pure: time is an argument, effects are an Outcome. The caller makes one call at a
    time; ``now.mono_ms`` never decreases. It replays each run of an outcome at once, in order, with
    its log offset, so that the next call sees it; the outcome's replies were made before that.
    Before `loaded` it calls only `restore` (as the kind's snapshot says), then `replay`, then
    `wake`. After `unload` it discards the core.
    """

    @property
    def view(self) -> View:
        """The state that other parts may read, without a copy."""

    def handle(self, call: Any, now: Now) -> Outcome:
        """Handles a call; this outcome or a later one answers its ticket."""

    @property
    def connections(self) -> Collection[Hashable]:
        """The open connections whose end must be reported to the core."""

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """Handles the end of one of ``connections``."""

    def replay(self, run: Any, base_offset: int) -> None:
        """Applies a run whose first record is at ``base_offset``, live and at load."""

    def restore(self, *part: Any) -> None:
        """Restores a part of a snapshot, before the rest of the log is replayed."""

    def wake(self, now: Now, budget: int) -> int:
        """Does a part of the work between `replay` and `loaded`, for at most ``budget`` ids;
        returns the number of ids, 0 when no work is left."""

    def loaded(self, now: Now) -> Outcome:
        """Ends the load: sets deadlines, and accepts calls from now on."""

    def expire(self, now: Now, budget: int) -> Outcome:
        """Does due work, about ``budget`` items and at least one."""

    def next_deadline(self) -> int | None:
        """The monotonic time at which `expire` has work next; None: never."""

    def configure(self, config: Any) -> None:
        """Uses other settings from the next call on."""

    def unload(self, error_code: int) -> Outcome:
        """Answers every parked call with the error; makes no records."""


class Reader(Protocol):
    """Decodes a log's batches into runs and replays them into a core; one reader for each load."""

    skipped: Counter[int]
    """The number of skipped records by unknown type."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, Any]]:
        """Returns the runs to replay after this batch, each with its base offset.

        Raises CorruptStoredRecord.
        """

    def replay(self, run: Any, base_offset: int) -> None:
        """Replays one of these runs into the core. Raises CorruptStoredRecord for any defect."""


CoreT = TypeVar("CoreT", bound=Core)

OwnBatch = Callable[[Any, BatchForm, int, int, int], tuple[bytes, BatchHeader]]
"""Makes a run's batch and its header. Arguments: the run, the form of the log's batches, the first
offset, the leader epoch, and the wall time of the append."""


@slotted(frozen=True)
class SnapshotForm(Generic[CoreT]):
    """The format of a snapshot of a core."""

    file_name: str
    """The name of its file in the partition's directory."""
    blocks: Callable[[CoreT, ImageWriter, ImageHead, Callable[[], bool]], Iterator[bytes]]
    """Yields all blocks but the last, each with the core's state at that time. The last argument
    returns whether the current slice is over; then the block ends."""
    restore: Callable[[CoreT, Image, int, int], Iterator[None]]
    """Restores an image in short steps. The integers are the partition and the number of
    partitions. Raises BadImage, KeyError, CorruptRecord."""


@slotted(frozen=True)
class LongRuns:
    """The type of runs that may be split into several batches."""

    kind: type
    """The type of these runs."""
    pieces: Callable[[Any], Sequence[Any]]
    """Splits such a run into shorter ones."""
    records_max: int
    """A run with more records than this is split."""


@slotted(frozen=True)
class Kind(Generic[CoreT]):
    """Describes a kind of core to the runtime."""

    topic: str
    """The internal topic."""
    things: str
    """The plural name of a core's entries in log lines and errors: "groups", "transactional
    ids"."""
    new_core: Callable[[Any], CoreT]
    """Makes an empty core from its settings."""
    partition_of: Callable[[str, int], int]
    """Returns the partition of a key, given the number of partitions."""
    reader: Callable[[CoreT, int, int, PassOver | None], Reader]
    """Makes the reader that loads a core. The integers are the partition and the number of
    partitions; PassOver names the records to skip."""
    skip_setting: str
    """The broker property that names records which a load skips."""
    encode: Callable[[Any, int], bytes]
    """Encodes a run's records section; the offset deltas begin at the second argument."""
    refusal: Callable[[Any, int], Reply]
    """Makes the reply to a rejected call, which has only an error code."""
    not_served: Callable[[Any, int], Reply]
    """Makes the reply to a call that did not reach a core, with the error code."""
    loading_error: Callable[[Any], int]
    """Returns the error code for a call while its core is loaded."""
    write_failed: Callable[[Reply], Reply]
    """Returns the reply to send instead of one whose records can't be written."""
    not_stable: Callable[[Reply, Exception], Reply]
    """Returns the reply to send instead of one whose records are not stable in time (NotYetStable),
    or can't become stable (any other error)."""
    reads: tuple[type, ...]
    """Types of calls that change nothing: they need no record, and an exception in one leaves the
    core intact."""
    needs_no_record: tuple[type, ...]
    """Types of calls that are served while the log takes no writes."""
    sets_no_deadline: tuple[type, ...]
    """Types of calls after which the timer need not be checked."""
    counted: type
    """The type of calls that are counted, and answered before their records are written if the
    settings allow it."""
    snapshot: SnapshotForm[CoreT] | None = None
    """None: a load always replays the whole log."""
    long_runs: LongRuns | None = None
    """None if runs are not split."""
    own_batches: Mapping[type, OwnBatch] = field(default_factory=dict)
    """The types of runs that need their own batch, each with the function that makes it."""
    note_producer: Callable[[AcceptedProducers, Any, int], None] | None = None
    """Notes the producer of a run with its own batch, which is accepted at that offset."""

    @property
    def field_name(self) -> str:
        """`things` as the name of a log field."""
        return self.things.replace(" ", "_")
