"""How a verb of /test refuses: a status of HTTP, and one sentence that says what to do."""

from __future__ import annotations


class Refused(Exception):
    """A verb is not done; the text is the sentence."""

    status = 409


class UnknownVerb(Refused):
    """The verb, or the named object, does not exist."""

    status = 404


class WrongArgument(Refused):
    """An argument can't be taken as it is."""

    status = 400


class NotNow(Refused):
    """The same may be possible later: the broker is stopped, or has failed."""
