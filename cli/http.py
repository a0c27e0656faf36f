"""What commands ask of Muster's HTTP API: one GET, JSON back, and a sentence when that fails."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlencode

from cli.errors import REFUSED, UNREACHABLE, USAGE, CommandError

MAX_ANSWER_BYTES = 1 << 30


def group_path(group_id: str, *more: str) -> str:
    """The path of a group: its id is one segment, whatever is in it."""
    return "/".join(["/api/groups", quote(group_id, safe=""), *more])


class Api:
    """The HTTP side of one Muster; ``what`` is the command that needs it, for its errors."""

    def __init__(self, address: str, what: str, timeout_s: float = 30.0) -> None:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise CommandError(f"--http {address}: write it as HOST:PORT", USAGE)
        self.address = address
        self.what = what
        self._host, self._port, self._timeout_s = host.strip("[]"), int(port), timeout_s

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path; CommandError when the answer is an error or not Muster's."""
        status, body = self._ask(path, query)
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if status == 200 and isinstance(value, dict):
            return value
        if isinstance(value, dict) and isinstance(value.get("error"), str):
            raise CommandError(value["error"], REFUSED)
        raise self._no_muster(status)

    def text(self, path: str) -> str:
        """The text at a path, such as /metrics."""
        status, body = self._ask(path, {})
        if status != 200:
            raise self._no_muster(status)
        return body.decode(errors="replace")

    def _no_muster(self, status: int) -> CommandError:
        return CommandError(
            f"{self.what} needs Muster's HTTP, but {self.address} is not Muster (status {status});"
            " other brokers do not serve this",
            UNREACHABLE,
        )

    def _ask(self, path: str, query: dict[str, Any]) -> tuple[int, bytes]:
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request("GET", target, headers={"Accept": "*/*"})
            answer = connection.getresponse()
            body = answer.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CommandError(
                f"{self.what} needs Muster's HTTP, but nothing answers at {self.address}"
                f" ({reason}); name its address with --http HOST:PORT, as in `muster serve --http`",
                UNREACHABLE,
            ) from error
        finally:
            connection.close()
        return answer.status, body
