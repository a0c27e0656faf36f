"""A slow model of one transactional id, written from Kafka's rules and independent of the core.

The model represents states by numbers and names. It returns the reply to each event, and the
content of each record. Like the driver, it takes producer ids from a counter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

LAST, MOST = 32766, 32767


@dataclass
class Kept:
    """The fields of the last record of the transactional id. The field ``last``, the producer's
    last epoch, is not in the record."""

    pid: int
    epoch: int
    timeout: int
    state: str
    parts: frozenset[tuple[str, int]] = frozenset()
    update: int = 0
    start: int = -1
    prev: int = -1
    next: int = -1
    rules: int = 0
    last: int = -1


@dataclass
class Model:
    """A model of one transactional id. ``kept`` is the newest record of the id, or None if the id
    is unknown."""

    level: int
    next_id: int = 1000
    kept: Kept | None = None
    records: list[Kept] = field(default_factory=list)

    def _write(self, now: int, **changes: object) -> None:
        assert self.kept is not None
        self.kept = replace(self.kept, update=now, prev=self.kept.pid, **changes)  # type: ignore[arg-type]
        self.records.append(self.kept)

    def _take(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def init(self, now: int, timeout: int, pid: int, epoch: int) -> tuple[int, int, int]:
        none = (-1, -1)
        at = self.kept
        if at is None:
            taken = self._take()
            self.kept = Kept(taken, 0, timeout, "Empty", frozenset(), now, -1, taken)
            self.records.append(self.kept)
            return 0, taken, 0
        if at.state.startswith("Prepare"):
            return 51, *none
        if pid not in (-1, at.pid) and not (pid == at.prev and epoch >= LAST):
            return 90, *none
        if at.state == "Ongoing":
            self._fence(now)
            return 51, *none
        named = pid != -1
        fresh = {"timeout": timeout, "state": "Empty", "parts": frozenset(), "start": -1}
        if not named or epoch == at.epoch:
            last = at.epoch if named else -1
            if at.epoch >= LAST:
                self._write(now, pid=self._take(), epoch=0, last=last, **fresh)
            else:
                self._write(now, epoch=at.epoch + 1, last=last, **fresh)
        elif epoch == at.last:
            self._write(now, **fresh)
        else:
            return 90, *none
        return 0, self.kept.pid, self.kept.epoch  # type: ignore[union-attr]

    def _fence(self, now: int) -> None:
        """Aborts the transaction and raises the epoch. With TV2, also remembers the fenced
        epoch."""
        at = self.kept
        assert at is not None
        if self.level >= 2:
            following = self._take() if at.epoch >= LAST else -1
            self._write(
                now,
                state="PrepareAbort",
                epoch=at.epoch + 1,
                last=at.epoch,
                next=following,
                rules=2,
            )
        else:
            self._write(
                now, state="PrepareAbort", epoch=min(at.epoch + 1, MOST), last=-1, next=-1, rules=0
            )

    def add(self, now: int, pid: int, epoch: int, parts: set[tuple[str, int]], rules: int) -> int:
        at = self.kept
        if at is None:
            return 49
        if at.state.startswith("Prepare"):
            return 51
        if pid != at.pid:
            return 49
        if epoch != at.epoch:
            return 90
        if at.state == "Ongoing":
            if not parts <= at.parts:
                self._write(now, parts=at.parts | parts, rules=2 if rules == 2 else 0)
        else:
            self._write(
                now,
                state="Ongoing",
                parts=frozenset(parts),
                start=now,
                rules=2 if rules == 2 else 0,
            )
        return 0

    def verify(self, pid: int, epoch: int, part: tuple[str, int]) -> int:
        at = self.kept
        if at is None or pid != at.pid:
            return 49
        if epoch != at.epoch:
            return 90
        if at.state.startswith("Prepare"):
            return 51
        return 0 if at.state == "Ongoing" and part in at.parts else 120

    def end(
        self, now: int, pid: int, epoch: int, committed: bool, rules: int
    ) -> tuple[int, int, int]:
        code = self._end1(now, pid, epoch, committed) if rules == 1 else None
        if code is not None:
            return code, -1, -1
        return self._end2(now, pid, epoch, committed)

    def _end1(self, now: int, pid: int, epoch: int, committed: bool) -> int:
        at = self.kept
        if at is None or pid != at.pid:
            return 49
        if epoch != at.epoch:
            return 90
        if at.state.startswith("Prepare"):
            return 51
        if at.state == "Ongoing":
            target = "PrepareCommit" if committed else "PrepareAbort"
            self._write(now, state=target, next=-1, rules=0)
            return 0
        return 0 if at.state == ("CompleteCommit" if committed else "CompleteAbort") else 48

    def _end2(self, now: int, pid: int, epoch: int, committed: bool) -> tuple[int, int, int]:
        none = (-1, -1)
        at = self.kept
        if at is None:
            return 49, *none
        if at.state.startswith("Prepare"):
            return 51, *none
        overflow = pid == at.prev and epoch == LAST and at.epoch == 0
        if pid != at.pid and not overflow:
            return 49, *none
        if at.state.startswith("Complete") and (overflow or at.epoch == epoch + 1):
            if committed == (at.state == "CompleteCommit"):
                return 0, at.pid, at.epoch
            return (90 if committed else 48), *none
        if epoch != at.epoch:
            return 90, *none
        if at.state != "Ongoing" and committed:
            return 48, *none
        following = self._take() if at.epoch >= LAST else -1
        self._write(
            now,
            state="PrepareCommit" if committed else "PrepareAbort",
            epoch=min(at.epoch + 1, MOST),
            last=at.epoch,
            start=at.start if at.state == "Ongoing" else now,
            next=following,
            rules=2,
        )
        return (0, following, 0) if following >= 0 else (0, at.pid, min(at.epoch + 1, MOST))

    def markers(self, now: int, pid: int, epoch: int) -> None:
        at = self.kept
        if at is None or (pid, epoch) != (at.pid, at.epoch) or not at.state.startswith("Prepare"):
            return
        target = at.state.replace("Prepare", "Complete")
        if at.rules == 2 and at.next != -1:
            self._write(now, state=target, parts=frozenset(), pid=at.next, epoch=0, next=-1)
        else:
            self._write(now, state=target, parts=frozenset(), next=-1)

    def sweep(self, now: int) -> None:
        at = self.kept
        if at is not None and at.state == "Ongoing" and at.start + at.timeout < now:
            self._fence(now)

    def reload(self) -> None:
        """Drops the state that a load from the log does not restore. This is more for records of
        value version 0, which have fewer fields than records of version 1."""
        if self.kept is not None:
            self.kept = replace(self.kept, last=-1)
            if self.level == 0:
                self.kept = replace(self.kept, prev=-1, next=-1, rules=0)
