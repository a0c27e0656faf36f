"""The interface between the runtime and cores: a pure `Core`, and its `Kind`.

The runtime provides any core with turns, a log and a timer, and knows only this interface. Groups
are one kind of core (broker/cores/groups/kind.py), transactional ids another. Each kind has one of
Kafka's internal topics. A core belongs to one partition of the topic, and the partition's records
are the core's only persistent state.
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
    """Records that result from one call, and that are encoded, replayed and loaded together."""

    def __len__(self) -> int:
        """Returns the number of records. Each record has one log offset."""


Outcome = tuple[Sequence[Any], Sequence[tuple[Ticket, Reply]], Sequence[Event]]
"""The result of a step of a core: runs to append, replies to release when these runs are stable,
and events for observers."""


class Call(Protocol):
    """A decoded request for a core."""

    @property
    def ticket(self) -> Ticket:
        """The ticket that gets the one reply to this call."""


class CoreConfig(Protocol):
    """The settings that all kinds of cores have. Each kind has further settings."""

    @property
    def max_record_bytes(self) -> int:
        """The value of max.message.bytes of the internal topic: the maximum size of a batch in
        bytes."""


class View(Protocol):
    """The part of a core's state that other code may read. Each kind's view has further methods."""

    def known(self) -> int:
        """Returns the number of groups or transactional ids found in the log. During a load, the
        number found so far."""

    def live_records(self) -> int:
        """Returns the approximate number of records in the log that the log cleaner would keep."""


class Core(Protocol):
    """The state of one partition of an internal topic.

    A core is pure: time is an argument, and all effects are in an `Outcome`. The caller makes one
    call at a time; ``now.mono_ms`` never decreases. The caller replays each run of an outcome
    immediately, in order, with its log offset. The next call therefore sees the run; the replies in
    the same outcome were made before the replay. Before `loaded`, the caller uses only `restore`
    (if there is a snapshot), then `replay`, then `wake`. After `unload`, the caller discards the
    core.
    """

    @property
    def view(self) -> View:
        """The part of the state that other code may read. The view is not a copy, so it changes
        with the state."""

    def handle(self, call: Any, now: Now) -> Outcome:
        """Handles a call. The reply for its ticket is in this outcome or in a later one."""

    @property
    def connections(self) -> Collection[Hashable]:
        """The open connections of clients. The caller must report to the core when one of these
        connections closes."""

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:
        """Handles the close of a client connection that is in ``connections``."""

    def replay(self, run: Any, base_offset: int) -> None:
        """Applies a run to the state. ``base_offset`` is the log offset of the run's first record.
        Called for each run of an outcome, and for each run of the log during a load."""

    def restore(self, *part: Any) -> None:
        """Restores a part of a snapshot. Afterwards the later records of the log are replayed."""

    def wake(self, now: Now, budget: int) -> int:
        """Called repeatedly after the last `replay` and before `loaded`: prepares at most
        ``budget`` further groups or transactional ids.

        Returns the number of groups or transactional ids that it has prepared; 0 when none is left.
        """

    def loaded(self, now: Now) -> Outcome:
        """Ends the load, and sets deadlines. The core then accepts calls."""

    def expire(self, now: Now, budget: int) -> Outcome:
        """Handles deadlines that have passed: about ``budget`` of them, and at least one."""

    def next_deadline(self) -> int | None:
        """Returns the monotonic time in ms of the next deadline for `expire`; None without a
        deadline."""

    def configure(self, config: Any) -> None:
        """Applies changed settings, which take effect from the next call on."""

    def unload(self, error_code: int) -> Outcome:
        """Replies to every parked call with ``error_code``. The outcome has no records."""


class Reader(Protocol):
    """Decodes the batches of a log into runs, and replays the runs into a core. Each load has its
    own reader."""

    skipped: Counter[int]
    """The number of records with an unknown type that were skipped, by type."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, Any]]:
        """Returns the runs of a batch, each with its base offset. None in place of a run means that
        a large record is not decoded completely yet, so that the caller can pause there.

        Raises CorruptStoredRecord if the batch can't be decoded.
        """

    def replay(self, run: Any, base_offset: int) -> None:
        """Replays into the core a run that `runs` has returned. Raises CorruptStoredRecord if the
        replay fails."""


CoreT = TypeVar("CoreT", bound=Core)

OwnBatch = Callable[[Any, BatchForm, int, int, int], tuple[bytes, BatchHeader]]
"""A function that returns the batch of a run and its header. Arguments: the run, the form of the
log's batches, the first offset, the leader epoch, and the wall time of the append."""


@slotted(frozen=True)
class SnapshotForm(Generic[CoreT]):
    """Functions that write and read the snapshot of one kind of core, and the name of its file."""

    file_name: str
    """The name of the snapshot file in the partition's directory."""
    blocks: Callable[[CoreT, ImageWriter, ImageHead, Callable[[], bool]], Iterator[bytes]]
    """A function that yields all blocks of a snapshot except the last. A block contains a part of
    the core's state as it is when the function yields the block. The last argument is a function
    that returns True if the current slice has ended: the block must then end too."""
    restore: Callable[[CoreT, Image, int, int], Iterator[None]]
    """A function that restores a snapshot in short steps. The integers are the index of the
    partition and the number of partitions. Raises BadImage, KeyError and CorruptRecord."""


@slotted(frozen=True)
class LongRuns:
    """Describes a class of runs whose instances may be split into shorter runs, so that their
    records can be in several batches."""

    kind: type
    """The class of the runs that may be split."""
    pieces: Callable[[Any], Sequence[Any]]
    """A function that splits a run of this class into shorter runs."""
    records_max: int
    """The number of records above which a run is split."""


@slotted(frozen=True)
class Kind(Generic[CoreT]):
    """Describes one kind of core, such as groups, to the runtime."""

    topic: str
    """The name of the internal topic."""
    things: str
    """The plural noun for what a core manages, in log lines and errors: "groups" or "transactional
    ids"."""
    new_core: Callable[[Any], CoreT]
    """A function that returns an empty core, given its settings."""
    partition_of: Callable[[str, int], int]
    """A function that returns the partition of a key. Its arguments are the key and the number of
    partitions."""
    reader: Callable[[CoreT, int, int, PassOver | None], Reader]
    """A function that returns the reader which loads a core. The integers are the index of the
    partition and the number of partitions. PassOver names the records to skip."""
    skip_setting: str
    """The name of the broker setting that names records to skip during a load."""
    encode: Callable[[Any, int], bytes]
    """A function that encodes the records of a run. Its second argument is the offset delta of the
    first record."""
    refusal: Callable[[Any, int], Reply]
    """A function that returns the reply to a call that the runtime refuses, given the call and the
    error code."""
    not_served: Callable[[Any, int], Reply]
    """A function of a call and an error code. It returns the reply with this error code, for a call
    that did not reach a core."""
    loading_error: Callable[[Any], int]
    """A function that returns the error code for a call that arrives while its core is being
    loaded."""
    write_failed: Callable[[Reply], Reply]
    """A function that returns the reply to send in place of a reply whose records can't be written.
    """
    not_stable: Callable[[Reply, Exception], Reply]
    """A function that returns the reply to send in place of a reply whose records are not stable in
    time (NotYetStable) or can't become stable (any other error)."""
    reads: tuple[type, ...]
    """The types of calls that change no state. They need no record, and an exception in such a call
    leaves the core intact."""
    needs_no_record: tuple[type, ...]
    """The types of calls that are served even when the log accepts no writes."""
    sets_no_deadline: tuple[type, ...]
    """The types of calls that never set a deadline, so that the timer need not be checked after
    them."""
    counted: type
    """The type of calls that the metrics count, such as OffsetCommit. If a setting allows it, the
    broker replies to these calls before it writes their records."""
    often_idle: type | None = None
    """A type of calls that usually change no deadline. If the outcome of such a call has neither
    records nor events, the runtime does not read the core's next deadline afterwards."""
    snapshot: SnapshotForm[CoreT] | None = None
    """How snapshots are written and read; None if a load always replays the whole log."""
    long_runs: LongRuns | None = None
    """The type of runs that may be split; None if runs are never split."""
    own_batches: Mapping[type, OwnBatch] = field(default_factory=dict)
    """The types of runs that need a batch of their own, each with the function that makes this
    batch."""
    replays_all: bool = False
    """True if the core has a method ``replay_all``, which replays several runs. The method gets the
    log offset of the first record, and returns the log offset after the last record."""
    note_producer: Callable[[AcceptedProducers, Any, int], None] | None = None
    """A function that is called with an accepted run and its log offset, and records the producer
    of the run. None if this kind of core has no runs of producers."""

    @property
    def field_name(self) -> str:
        """Returns `things`, the noun for the objects that this kind of core owns, in the form of a
        log field, such as ``transactional_ids``."""
        return self.things.replace(" ", "_")
