"""The errors of the verbs of /test: each has an HTTP status, and one sentence that says what to
do."""

from __future__ import annotations


class Refused(Exception):
    """Raised if a verb was rejected and had no effect; the text of the exception is the message for
    users."""

    status = 409


class UnknownVerb(Refused):
    """Raised if the verb, or the object that the request names, does not exist."""

    status = 404


class WrongArgument(Refused):
    """Raised if an argument is invalid."""

    status = 400


class NotNow(Refused):
    """Raised if the verb may succeed later: the broker is stopped or has failed, or the object is
    not available."""
