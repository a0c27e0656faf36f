"""The part of a request that is allowed: its answer, with what was denied, ends the whole request.

A handler takes it for a request like any other. What it answers is changed on the way: elements
that were denied are put in, those that the peer may not see are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.net.request import Body, Request, Steps
from protocol.encoded_array import EncodedArray
from protocol.errors import NONE
from protocol.headers import decode_response_header
from security.quotas.mutations import Mutations

if TYPE_CHECKING:
    from broker.apis.services import Services

Keeps = Callable[[dict[str, Any]], bool]
"""Whether an element of the answer is left in it; may change the element."""
Value = dict[str, Any]
Finish = Callable[[Value], Iterator[None] | None]
"""Changes an answer as a whole; where that may take long, with a yield after each piece of it."""

CHANGED_AT_ONCE_BYTES = 4096
"""A frame up to this is decoded and made anew in the loop's thread, and denied elements are encoded
there if the request has no more bytes either: it names at most 1,000 partitions, 3 ms. Elements are
not counted: one topic of a request may have all its partitions."""


class DeniedElements:
    """The entries of what was denied, for one array of the answer."""

    __slots__ = ("array", "entries", "error_code", "is_first")

    def __init__(
        self, array: str, entries: Iterable[Value], error_code: int, *, is_first: bool = False
    ) -> None:
        self.array = array
        self.entries = entries
        """A list, or what makes them when they are encoded."""
        self.error_code = error_code
        """What the request is counted under where nothing else went wrong."""
        self.is_first = is_first
        """They come before all others."""


class AllowedPart(Request):
    """See the module."""

    __slots__ = ("_denied", "_finish", "_keeps", "_services", "_whole")

    def __init__(
        self,
        services: Services,
        whole: Request,
        *,
        value: Value | None = None,
        context: Any = None,
        denied: DeniedElements | None = None,
        keeps: tuple[tuple[str, ...], Keeps] | None = None,
        finish: Finish | None = None,
    ) -> None:
        """``value`` or ``context`` is the body without what was denied; see `Request`.

        ``keeps`` is for the elements of an array by its path, ``finish`` for the answer as a whole.
        """
        self._whole = whole
        self._services = services
        super().__init__(
            whole.connection,
            whole.route,
            whole.correlation_id,
            whole.client_id,
            whole.buffer,
            whole.position,
        )
        self.context = whole.context if context is None else context
        if value is None:
            value = getattr(whole, "_value", None)
        if value is not None:
            self._value = value
        self._denied = denied
        self._keeps = keeps
        self._finish = finish

    # -- what its handler does with it

    @property
    def on_disconnect(self) -> Callable[[], None] | None:
        """See `Request`; the connection looks at the whole."""
        return self._whole.on_disconnect

    @on_disconnect.setter
    def on_disconnect(self, call: Callable[[], None] | None) -> None:
        self._whole.on_disconnect = call

    def array(self, *path: str) -> EncodedArray:
        """See `Request`."""
        array = self._whole.array(*path)
        if self._keeps is not None and path == self._keeps[0]:
            return _Kept(array, self._keeps[1])
        return array

    def respond(self, value: Value, error_code: int | None = None) -> None:
        """See `Request`."""
        self.reply = ()
        if error_code is None:
            error_code = value.get("error_code", NONE)
        code = self._counted(error_code)
        if self._is_soon_done():
            self._whole.work_off(self._responded(value, code))
        else:
            self._whole.answer_later(self._responded_later(value, code))

    def complete(self, frame: Body, error_code: int = 0) -> None:
        """See `Request`."""
        self.reply = ()
        code = self._counted(error_code)
        if not isinstance(frame, bytes) or not frame:
            self._whole.complete(frame, code)
        elif len(frame) <= CHANGED_AT_ONCE_BYTES and self._is_soon_done():
            self._whole.work_off(self._completed(self._read(frame), code))
        else:
            self._whole.answer_later(self._changed_later(frame, code))

    def complete_later(
        self, frame: Callable[[], bytes], error_code: int, *, at_once: bool = False
    ) -> None:
        """See `Request`."""
        if at_once:
            self.complete(frame(), error_code)
            return

        async def made() -> None:
            found = await self._services.worker.run(self.connection, frame)
            await self._changed_later(found, self._counted(error_code))

        self._whole.answer_later(made())

    def answer_later(self, work: Coroutine[Any, Any, None]) -> None:
        """See `Request`."""
        self._whole.answer_later(work)

    def work_off(self, steps: Steps) -> None:
        """See `Request`."""
        self._whole.work_off(steps)

    def park(self) -> None:
        """See `Request`."""
        self._whole.park()

    def take(self, reply: Any) -> None:
        """See `Request`."""
        self._whole.encode = self._take
        self._whole.take(reply)

    def mutations(self, strict_from: int | None) -> Mutations:
        """See `Request`."""
        return self._whole.mutations(strict_from)

    def fail(self) -> None:
        """See `Request`."""
        self._whole.fail()

    # -- inside

    def _take(self, whole: Request, reply: Any) -> None:  # noqa: ARG002
        assert self.encode is not None
        self.encode(self, reply)

    def _counted(self, error_code: int) -> int:
        return error_code or (NONE if self._denied is None else self._denied.error_code)

    def _is_soon_done(self) -> bool:
        """Whether few elements are put in, and few looked at when the answer is finished."""
        if self._denied is None and self._finish is None:
            return True
        return len(self._whole.buffer) - self._whole.position <= CHANGED_AT_ONCE_BYTES

    def _put_in(self, value: Value) -> None:
        """What was denied; in any thread. An answer that is an error as a whole names none."""
        denied = self._denied
        if denied is None or value.get("error_code", NONE):
            return
        array = value.get(denied.array)
        if not isinstance(array, EncodedArray):
            entries, others = denied.entries, array or ()
            both = (*entries, *others) if denied.is_first else (*others, *entries)
            value[denied.array] = list(both)
            return
        encoded = self._whole.array(denied.array)
        for entry in denied.entries:
            encoded.append(entry)
        first, last = (encoded, array) if denied.is_first else (array, encoded)
        joined = value[denied.array] = self._whole.array(denied.array)
        joined.data += first.data
        joined.data += last.data
        joined.count = first.count + last.count

    def _finished(self, value: Value) -> Iterator[None]:
        """Changes the answer as a whole; a yield after each piece of that."""
        steps = None if self._finish is None else self._finish(value)
        if steps is not None:
            yield from steps

    def _changed(self, value: Value) -> Iterator[None]:
        """The same of an answer that was decoded again: what is hidden is in it yet."""
        if self._keeps is not None:
            (array,), keeps = self._keeps
            kept = []
            for entry in value[array]:
                if keeps(entry):
                    kept.append(entry)
                yield
            value[array] = kept
        yield from self._finished(value)

    def _responded(self, value: Value, error_code: int) -> Steps:
        self._put_in(value)
        for _ in self._finished(value):
            yield None
        self._whole.respond(value, error_code)

    def _completed(self, value: Value, error_code: int) -> Steps:
        for _ in self._changed(value):
            yield None
        self._whole.complete(self._made(value), error_code)

    async def _responded_later(self, value: Value, error_code: int) -> None:
        if self._denied is not None:
            await self._services.worker.run(self.connection, partial(self._put_in, value))
        slices = self._services.slicer.work(self.served.api.name)
        await slices.through(self._finished(value))
        slices.end()
        self._whole.respond(value, error_code)

    def _made(self, value: Value) -> bytes:
        """The frame of an answer that was decoded again; in any thread."""
        self._put_in(value)
        return self._whole.frame(value)

    def _read(self, frame: bytes) -> Value:
        api = self.served.api
        _, position = decode_response_header(api.key, self.api_version, frame[4:])
        return api.decode_response(self.api_version, frame, position + 4)

    async def _changed_later(self, frame: bytes, error_code: int) -> None:
        run, client = self._services.worker.run, self.connection
        value = await run(client, partial(self._read, frame))
        slices = self._services.slicer.work(self.served.api.name)
        await slices.through(self._changed(value))
        slices.end()
        self._whole.complete(await run(client, partial(self._made, value)), error_code)


class _Kept(EncodedArray):
    """An array that leaves elements out."""

    __slots__ = ("_array", "_keeps")

    def __init__(self, array: EncodedArray, keeps: Keeps) -> None:
        self._array = array
        self._keeps = keeps

    @property
    def count(self) -> int:  # type: ignore[override]
        """See `EncodedArray`."""
        return self._array.count

    @property
    def data(self) -> bytearray:  # type: ignore[override]
        """See `EncodedArray`."""
        return self._array.data

    def append(self, value: Any) -> None:
        """See `EncodedArray`."""
        if self._keeps(value):
            self._array.append(value)
