"""The errors of verbs of /test: an HTTP status, and one sentence that says what to do."""

from __future__ import annotations


class Refused(Exception):
    """A verb was rejected and had no effect; the text of the exception is the message for users."""

    status = 409


class UnknownVerb(Refused):
    """The verb, or the named object, does not exist."""

    status = 404


class WrongArgument(Refused):
    """An argument is invalid."""

    status = 400


class NotNow(Refused):
    """The verb may succeed later: the broker is stopped or has failed."""
