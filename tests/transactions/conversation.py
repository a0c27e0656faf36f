"""The language of the files in tests/golden/transactions: calls to a shard of transactional ids.

``init a x`` is the InitProducerId request of client a with the id x. Client a remembers the
producer id and epoch of the response, and sends them with ``init a x again``, ``add a t/0 t/1``,
``verify a t/0`` and ``end a commit``. The options ``pid=``, ``epoch=`` and ``id=`` set other
values, and ``tv=1`` selects the older transaction version. ``written x`` and ``refused x 47`` are
the results of writing the markers of x. ``ids 0`` sets the number of available producer ids.
``stored x CompleteCommit`` writes a record to the log and reloads the shard. After each line the
test checks the invariants, and compares the shard with a shard that is loaded from its log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests import golden_text
from tests.golden_text import Words, partitions_of, words_of
from tests.transactions.driver import Driver
from tests.transactions.render import event_line, id_line, render_outcome
from transactions.calls import (
    AddPartitions,
    Call,
    Client,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    VerifyPartitions,
)
from transactions.outcome import EndReply, InitReply, Outcome
from transactions.states import State
from transactions.values import TransactionRun, TransactionValue

_OPTIONS = re.compile("id|pid|epoch|timeout|tv|group|states|pids|duration|host")


@dataclass
class Speaker:
    """The state of a client: its producer id and epoch."""

    name: str
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1


class Conversation:
    """One conversation with a shard, run line by line."""

    def __init__(self, config: dict[str, int]) -> None:
        self.driver = Driver(**config)
        self.speakers: dict[str, Speaker] = {}
        self.next_id = 1 << 40

    def say(self, line: str) -> list[str]:
        """Runs one line of the conversation. Returns the lines that describe its outcome."""
        verb, _, rest = line.partition(" ")
        lines: list[str] = getattr(self, "_" + verb.replace("-", "_"))(words_of(rest, _OPTIONS))
        self._check_against_log()
        return lines

    def _check_against_log(self) -> None:
        live = self.driver.shard.view.transactions
        loaded = self.driver.reloaded().view.transactions
        assert list(loaded) == list(live)
        if self.driver.config.transaction_version:
            assert {name: each.value for name, each in loaded.items()} == {
                name: each.value for name, each in live.items()
            }

    # ---------------------------------------------------------------------------- the requests

    def _ask(self, speaker: Speaker | None, call: Call, transactional_id: str) -> list[str]:
        outcome = self.driver.handle(call)
        reply = dict(outcome.replies)[call.ticket]
        if speaker and isinstance(reply, InitReply | EndReply) and reply.producer_id >= 0:
            speaker.producer_id, speaker.producer_epoch = reply.producer_id, reply.producer_epoch
        lines = render_outcome(outcome)
        return [*lines, id_line(self.driver.shard, transactional_id)] if transactional_id else lines

    def _speaker(self, words: Words) -> tuple[Speaker, Client, str, int, int]:
        name = words.plain.pop(0)
        speaker = self.speakers.setdefault(name, Speaker(name))
        return (
            speaker,
            Client(name, words.options.get("host", "/10.0.0.1")),
            words.options.get("id", speaker.transactional_id),
            words.number("pid", speaker.producer_id),
            words.number("epoch", speaker.producer_epoch),
        )

    def _init(self, words: Words) -> list[str]:
        speaker, client, _, producer_id, epoch = self._speaker(words)
        speaker.transactional_id, *again = words.plain
        if not again and not {"pid", "epoch"} & words.options.keys():
            producer_id = epoch = -1
        timeout_ms = words.number("timeout", 60_000)
        name = speaker.transactional_id
        call = InitProducerId("init", name, timeout_ms, producer_id, epoch, client)
        return self._ask(speaker, call, name)

    def _add(self, words: Words) -> list[str]:
        speaker, client, name, producer_id, epoch = self._speaker(words)
        partitions = partitions_of(words.plain)
        rules, group_id = words.number("tv", 2), words.options.get("group", "")
        owner = (name, producer_id, epoch)
        call = AddPartitions("add", *owner, partitions, rules, client, group_id)
        return self._ask(speaker, call, name)

    def _verify(self, words: Words) -> list[str]:
        speaker, _, name, producer_id, epoch = self._speaker(words)
        partitions = partitions_of(words.plain)
        call = VerifyPartitions("verify", name, producer_id, epoch, partitions)
        lines = self._ask(speaker, call, "")
        view = self.driver.shard.view
        owner = (name, producer_id, epoch)
        codes = [view.verify(*owner, topic, each) for topic, ids in partitions for each in ids]
        assert codes == self.driver.answer(call)
        return lines

    def _end(self, words: Words) -> list[str]:
        speaker, client, name, producer_id, epoch = self._speaker(words)
        committed = {"commit": True, "abort": False}[words.plain[0]]
        rules = words.number("tv", 2)
        call = EndTransaction("end", name, producer_id, epoch, committed, rules, client)
        return self._ask(speaker, call, name)

    def _written(self, words: Words) -> list[str]:
        name = words.plain[0]
        value = self.driver.get(name).value
        owner = (
            words.number("pid", value.producer_id),
            words.number("epoch", value.producer_epoch),
        )
        return self._ask(None, MarkersWritten("written", name, *owner), name)

    def _refused(self, words: Words) -> list[str]:
        name, error = words.plain
        value = self.driver.get(name).value
        owner = (value.producer_id, value.producer_epoch)
        return self._ask(None, MarkersRefused("refused", name, *owner, int(error)), name)

    def _describe(self, words: Words) -> list[str]:
        return self._ask(None, DescribeTransaction("describe", words.plain[0]), "")

    def _list(self, words: Words) -> list[str]:
        states = frozenset(filter(None, words.options.get("states", "").split(",")))
        pids = frozenset(map(int, filter(None, words.options.get("pids", "").split(","))))
        call = ListTransactions("list", states, pids, words.number("duration", -1))
        return self._ask(None, call, "")

    # --------------------------------------------------------------------- other commands

    def _advance(self, words: Words) -> list[str]:
        outcomes = self.driver.advance(int(words.plain[0]), words.number("epoch", 100))
        lines = [line for outcome in outcomes for line in render_outcome(outcome)]
        return lines or ["nothing is due"]

    def _wall(self, words: Words) -> list[str]:
        self.driver.wall_offset_ms += int(words.plain[0])
        return []

    def _ids(self, words: Words) -> list[str]:
        ids, count = self.driver.producer_ids, int(words.plain[0])
        while (taken := ids.take()) is not None:
            self.next_id = min(self.next_id, taken)
        if count:
            ids.add(range(self.next_id, self.next_id + count))
            self.next_id = 1 << 40
        return []

    def _stored(self, words: Words) -> list[str]:
        name, state_name, *partitions = words.plain
        [state] = [each for each in State if each.wire_name == state_name]
        value = TransactionValue(
            words.number("pid", 7),
            words.number("epoch", 0),
            words.number("timeout", 60_000),
            state,
            tuple((topic, tuple(ids)) for topic, ids in partitions_of(partitions)),
            self.driver.now.wall_ms,
            -1 if state is State.EMPTY else self.driver.now.wall_ms,
            client_rules=words.number("tv", 2),
        )
        version = 1 if self.driver.config.transaction_version else 0
        self.driver.store(TransactionRun(name, value, version))
        return self._reload(Words([]))

    def _reload(self, words: Words) -> list[str]:
        settings = {key: int(value) for key, _, value in (w.partition("=") for w in words.plain)}
        outcome: Outcome = self.driver.reload(**settings)
        return [
            *render_outcome(Outcome((), outcome.replies, ())),
            *[f"event {event_line(event)}" for event in outcome.events],
            *[id_line(self.driver.shard, name) for name in self.driver.shard.view.transactions],
        ]


def run_text(text: str) -> tuple[str, Conversation]:
    """Runs a conversation. Returns its text with the current outcomes, and the conversation."""
    return golden_text.run_text(text, Conversation)
