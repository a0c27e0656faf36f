"""The regexes by which members of consumer groups subscribe (KIP-848), in RE2's syntax.

RE2 matches in time that is linear in the length of the name. The memory of a compiled pattern is
limited, and compiled patterns are cached. A shard emits an event to request the topics that match
the regexes of its groups. `RegexResolver` then matches all topic names in slices, and passes the
topics to the shard.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from broker.cores.hosted_shard import Phase
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from coordinator.consumer.events import RegexesWanted
from coordinator.topics_image import TopicsImage
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    import re2

    from broker.cores.groups.runtime import GroupRuntime

PATTERN_BYTES_MAX = 1 << 20
"""The maximum memory of one compiled pattern, in bytes."""
_PATTERNS_KEPT = 64
_AGAIN_S = 1
"""The delay in seconds before the next check of a shard that accepts no writes."""


class TopicRegexes:
    """Compiles regexes, and caches the patterns that were used most recently."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, re2._Regexp | str] = OrderedDict()
        """By regex: its compiled pattern, or the reason why it can't be compiled."""

    def error(self, regex: str) -> str | None:
        """Returns the reason, in Kafka's words, why the regex can't be compiled; None if it can be
        compiled."""
        found = self._find(regex)
        return found if isinstance(found, str) else None

    def pattern(self, regex: str) -> re2._Regexp | None:
        """Returns the compiled pattern; None if the regex can't be compiled."""
        found = self._find(regex)
        return None if isinstance(found, str) else found

    def _find(self, regex: str) -> re2._Regexp | str:
        found = self._compiled.get(regex)
        if found is None:
            found = self._compiled[regex] = _compile(regex)
            if len(self._compiled) > _PATTERNS_KEPT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(regex)
        return found


class _Authorizer(Protocol):
    """The methods of `broker.authorizer.authorizer.Authorizer` that `RegexResolver` calls.

    The import rules do not allow the code of the cores to import `broker.authorizer`.
    """

    @property
    def judges(self) -> bool: ...

    def allows(
        self,
        connection: Any,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        api: str,
        is_logged: bool = True,
    ) -> bool: ...


class RegexResolver:
    """Finds the topics that match a member's regex. Topics that the member may not describe are
    omitted."""

    def __init__(
        self,
        regexes: TopicRegexes,
        topics: TopicsImage,
        authorizer: _Authorizer,
        slicer: Slicer,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        errors: InternalErrors,
    ) -> None:
        self._regexes = regexes
        self._topics = topics
        self._authorizer = authorizer
        self._slicer = slicer
        self._spawn = spawn
        self._errors = errors
        self._groups: GroupRuntime

    def follow(self, groups: GroupRuntime) -> None:
        """Sets the runtime of groups whose regexes this object resolves."""
        self._groups = groups

    def observe(self, event: RegexesWanted) -> None:
        """Starts to match the regexes that a shard has requested."""
        self._spawn(self._resolve(event), "regexes of groups")

    async def _resolve(self, event: RegexesWanted) -> None:
        hosted = self._groups.hosted_for(event.group_id)
        if hosted is None:
            return
        core = hosted.core
        found: dict[str, tuple[str, ...]] = {}
        try:
            found = await self._match(event)
        except Exception as error:  # noqa: BLE001 - counted and logged; the shard asks again
            self._errors.caught("regexes of groups", error, group=event.group_id)
        while hosted.core is core and hosted.phase is Phase.UNWRITABLE:
            await self._slicer.time.sleep(_AGAIN_S)
        if hosted.core is core and hosted.phase is Phase.ACTIVE:
            now = self._groups.time.now()
            work = partial(core.regexes_resolved, event.group_id, found, event.version, now)
            self._groups.life.work(hosted, work)

    async def _match(self, event: RegexesWanted) -> dict[str, tuple[str, ...]]:
        """Returns the matching topics of each regex. They may include a topic that was deleted
        during the match."""
        slices = self._slicer.work("regexes of groups")
        found: dict[str, tuple[str, ...]] = {}
        names = list(self._topics.by_name)
        for regex in event.regexes:
            pattern = self._regexes.pattern(regex)
            matching: list[str] = []
            for name in names if pattern is not None else ():
                assert pattern is not None
                if pattern.fullmatch(name) is not None and self._is_shown(event, name):
                    matching.append(name)
                if slices.over:
                    await slices.pause()
            found[regex] = tuple(matching)
        return found

    def _is_shown(self, event: RegexesWanted, name: str) -> bool:
        authorizer = self._authorizer
        return not authorizer.judges or authorizer.allows(
            event.sender,  # a connection
            Operation.DESCRIBE,
            ResourceType.TOPIC,
            name,
            api="ConsumerGroupHeartbeat",
            is_logged=False,
        )


def _compile(regex: str) -> re2._Regexp | str:
    import re2  # imported here: slow, and not needed at start

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        return f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: {reason}."
    finally:
        re2.purge()  # otherwise the library keeps the last 128 patterns
