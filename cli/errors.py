"""Errors of commands: each has one sentence for the user and an exit code for scripts.

The exit codes are:

- 0: success
- 1: the broker rejected the request, or the resource does not exist
- 2: wrong use
- 3: no broker could be reached or responded in time
- 4: the command found a problem: lag (`groups lag --fail-above`), hanging transactions
  (`transactions hanging`), damage (`logs dump`, and `--fail-on-damage` of the pipeline), or
  faults (`config check`, `cluster check`)
- 5: groups are in a state that `--fail-on` of the pipeline names
- 130: interrupted by Ctrl-C
- 143: terminated by SIGTERM
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol.errors import NAMES

REFUSED = 1
USAGE = 2
UNREACHABLE = 3
FOUND = 4
GROUPS_FAIL = 5
INTERRUPTED = 130
TERMINATED = 143

_HINTS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`muster topics list` shows all topics",
    "TOPIC_ALREADY_EXISTS": "choose another name, or delete the topic first",
    "GROUP_ID_NOT_FOUND": "`muster groups list` shows all groups",
    "TRANSACTIONAL_ID_NOT_FOUND": "`muster transactions list` shows all transactional ids",
    "NON_EMPTY_GROUP": "stop the members first; `muster groups describe` lists the members",
    "COORDINATOR_LOAD_IN_PROGRESS": "the coordinator is still loading its state; try again shortly",
    "COORDINATOR_NOT_AVAILABLE": "the coordinator is not available yet; try again shortly",
    "INVALID_REPLICATION_FACTOR": "use --replication-factor 1, or omit the option",
    "INVALID_CONFIG": "`muster configs get --all` shows the settings and their values",
    "INVALID_TOPIC_EXCEPTION": "topic names have at most 249 letters, digits, '.', '_' and '-'",
}


class CommandError(Exception):
    """The error of a command that can't continue. ``str(error)`` is the message for the user."""

    def __init__(self, why: str, exit_code: int = REFUSED, advice: str = "") -> None:
        """Creates the error. The message contains ``why`` and ``advice``. Other commands may show
        ``why`` alone."""
        super().__init__(why + advice)
        self.why = why
        self.exit_code = exit_code


class Interrupts:
    """Records Ctrl-C in this process. During the import of a compiled module, or in a callback from
    Java, the KeyboardInterrupt is replaced by another exception or dropped. ``received`` is True
    even then."""

    received = False

    @classmethod
    def raise_one(cls, *_: object) -> None:
        cls.received = True
        raise KeyboardInterrupt


def refused(
    what: str, error_code: int, message: str | None = None, meant: str | None = None
) -> CommandError:
    """Returns the error for a request about ``what`` that a broker rejected, with advice if known.
    ``meant`` is an existing name that is similar to an unknown name."""
    name = NAMES.get(error_code, f"error {error_code}")
    sentence = f"{what}: {message.rstrip('.')} ({name})" if message else f"{what}: {name}"
    hint = _HINTS.get(name)
    sentence = f"{sentence}; {hint}" if hint else sentence
    return CommandError(f"{sentence}; did you mean {meant}?" if meant else sentence)


def check(what: str, answer: Mapping[str, Any], *fine: int) -> None:
    """Raises the error of `refused` if a response about ``what`` has an error code, unless this
    code is in ``fine``."""
    code = answer["error_code"]
    if code and code not in fine:
        raise refused(what, code, answer.get("error_message"))
