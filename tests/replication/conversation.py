"""Conversations with the leader of a partition as text; see `tests/golden_text.py`.

    > lead 3 end=10 hw=4          broker 1 leads in epoch 3 (isr=, replicas=, version= as options)
    > fetch 2 10                  broker 2 fetches at offset 10
    > append 12                   the log ends at 12
    > tick 16000                  16,000 ms later the leader checks which replicas are behind
    > pass 100                    100 ms pass
    > written 1                   the requested ISR is written to ZooKeeper, as version 1
    > refused INELIGIBLE_REPLICA  the requested ISR is refused with this error
    > state 4 isr=1,2             the controller confirms broker 1 as leader, in epoch 4
    > min 2                       sets min.insync.replicas; `dead 3`: broker 3 is down

Each outcome lists a new high watermark, a requested ISR, and the resulting state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from protocol import errors
from replication.leader import LedReplicas
from replication.values import PartitionState, Rules, Step
from tests.golden_text import Words, words_of
from tests.golden_text import run_text as run_any

_OPTIONS = re.compile(r"isr|replicas|version|end|hw")


class Conversation:
    """Executes lines of text as events on broker 1, which leads one partition, and returns the
    outcomes as text."""

    def __init__(self, config: dict[str, int]) -> None:
        self.now_ms = 1_000_000
        self.lag_ms = config.get("lag", 30_000)
        self.min_isr = config.get("min_isr", 1)
        self.dead: set[int] = set()
        self.end_offset = 0
        self.led: LedReplicas

    @property
    def rules(self) -> Rules:
        return Rules(self.lag_ms, self.min_isr, lambda each: each not in self.dead)

    def say(self, line: str) -> list[str]:
        words = words_of(line, _OPTIONS)
        verb, *rest = words.plain
        before = self.led.high_watermark if hasattr(self, "led") else -1
        step = self._step(verb, rest, words)
        said = []
        if self.led.high_watermark != before:
            said.append(f"high watermark {self.led.high_watermark}")
        if step is not None and step.wanted_isr is not None:
            wanted = step.wanted_isr
            said.append(f"wants {_ids(wanted.isr)} over {wanted.expected_partition_epoch}")
        said.append(self._state())
        return said

    def _step(self, verb: str, rest: Sequence[str], words: Words) -> Step | None:
        match verb:
            case "lead":
                self.end_offset = words.number("end", 0)
                self.led = LedReplicas(
                    1, _state(rest, words, 0), self.end_offset, words.number("hw", 0),
                    self.end_offset, self.now_ms, self.rules,
                )  # fmt: skip
                return self.led.begun(self.now_ms)
            case "fetch":
                broker, offset = map(int, rest)
                return self.led.follower_fetched(broker, offset, self.end_offset, self.now_ms)
            case "append":
                self.end_offset = int(rest[0])
                return self.led.appended(self.end_offset, self.now_ms)
            case "tick":
                self.now_ms += int(rest[0])
                return self.led.tick(self.now_ms)
            case "pass":
                self.now_ms += int(rest[0])
            case "written":
                return self.led.isr_written(int(rest[0]), self.now_ms)
            case "refused":
                return self.led.isr_refused(getattr(errors, rest[0]), self.now_ms)
            case "state":
                version = self.led.state.partition_epoch + 1
                return self.led.new_state(
                    _state(rest, words, version), self.end_offset, self.now_ms
                )
            case "min":
                self.min_isr = int(rest[0])
                self.led.rules = self.rules
            case "dead":
                self.dead.add(int(rest[0]))
            case _:
                raise AssertionError(verb)
        return None

    def _state(self) -> str:
        led = self.led
        maximal = "" if led.pending is None else f" maximal {_ids(sorted(led.maximal_isr))}"
        return (
            f"end {led.end_offset} hw {led.high_watermark} isr {_ids(led.state.isr)}{maximal}"
            f" version {led.state.partition_epoch} acks=all: {errors.NAMES[led.acks_all_error()]}"
        )


def _state(rest: Sequence[str], words: Words, version: int) -> PartitionState:
    return PartitionState(
        controller_epoch=1,
        leader=1,
        leader_epoch=int(rest[0]),
        isr=_numbers(words.options.get("isr", "1,2,3")),
        partition_epoch=words.number("version", version),
        replicas=_numbers(words.options.get("replicas", "1,2,3")),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def run_text(text: str) -> tuple[str, Conversation]:
    """Runs the conversation in ``text``. Returns the text with the outcomes of this run, and the
    conversation."""
    return run_any(text, Conversation)
