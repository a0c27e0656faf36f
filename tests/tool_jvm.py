"""A JVM that runs Java tools one after another.

`tests/data/java/ToolHost.java` is the program of the JVM. It documents the requests and the frames.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic

HOST = Path(__file__).parent / "data" / "java" / "ToolHost.java"
ENDS_WITHIN_S = 5.0
"""The time in seconds within which the JVM must end when its standard input is closed."""
_NUMBER = struct.Struct(">i")
_FRAME = struct.Struct(">ci")


class ToolJvm:
    """A JVM process that ends when the Python process ends, because the JVM's standard input is
    then closed."""

    def __init__(self, command: list[str]) -> None:
        """Starts the JVM. ``command`` is the command line that runs ``HOST``."""
        # The file of the JVM's own output stays open while the JVM runs.
        self._own_errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._own_errors
        )
        self._clean = True

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Returns True if the JVM can run another tool: it is alive, and no thread of the last tool
        is still running."""
        return self._clean and self._process.poll() is None

    def run(
        self, main_class: str, *arguments: str, text_in: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Runs a tool until it ends, and returns its exit code and output.

        If the tool calls System.exit, the JVM ends, and its exit code is the result. If the tool
        does not end in time, the JVM is killed. Raises ``subprocess.TimeoutExpired`` in this case.
        """
        self._send(text_in, main_class, *arguments)
        called = [main_class, *arguments]
        printed = {b"o": bytearray(), b"e": bytearray()}
        until = monotonic() + timeout_s
        code = None
        try:
            while code is None and (frame := self._frame(until)):
                kind, payload = frame
                if kind == b"x":
                    code, self._clean = payload[0], payload[1] == 1
                else:
                    printed[kind] += payload
        except TimeoutError:
            self.kill()
            out, err = (bytes(each) for each in printed.values())
            raise subprocess.TimeoutExpired(called, timeout_s, out, err) from None
        if code is None:
            code = self._process.wait(ENDS_WITHIN_S)
            self._own_errors.seek(0)
            printed[b"e"] += self._own_errors.read()
        if not self.usable:
            self.kill()
        out_text, err_text = (each.decode(errors="replace") for each in printed.values())
        return subprocess.CompletedProcess(called, code, out_text, err_text)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._own_errors.close()

    def _send(self, *words: str) -> None:
        assert self._process.stdin is not None
        encoded = [word.encode() for word in words]
        request = b"".join(_NUMBER.pack(len(word)) + word for word in encoded)
        with suppress(BrokenPipeError):  # the JVM did not start: `run` reports why
            self._process.stdin.write(_NUMBER.pack(len(words)) + request)
            self._process.stdin.flush()

    def _frame(self, until: float) -> tuple[bytes, bytes] | None:
        """Returns the kind and the payload of the next frame, or None if the JVM has ended."""
        head = self._exactly(_FRAME.size, until)
        if head is None:
            return None
        kind, length = _FRAME.unpack(head)
        payload = self._exactly(length, until)
        return None if payload is None else (kind, payload)

    def _exactly(self, length: int, until: float) -> bytes | None:
        assert self._process.stdout is not None
        found = b""
        file = self._process.stdout.fileno()
        ready = select.poll()  # select() refuses descriptors from 1024 on
        ready.register(file, select.POLLIN)
        while len(found) < length:
            if not ready.poll(max(0.0, until - monotonic()) * 1000):
                raise TimeoutError
            more = os.read(file, length - len(found))
            if not more:
                return None
            found += more
        return found
