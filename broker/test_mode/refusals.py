"""The errors of the verbs of /test. Each error has an HTTP status and a sentence that says what to
do."""

from __future__ import annotations


class Refused(Exception):
    """Raised if a verb is rejected without effect. The exception's text is the message for
    users."""

    status = 409


class UnknownVerb(Refused):
    """Raised if a request in test mode names an operation or an object that does not exist."""

    status = 404


class WrongArgument(Refused):
    """Raised if an argument is invalid."""

    status = 400


class NotNow(Refused):
    """Raised if the verb may succeed later, for example because the broker is stopped or an object
    is not available."""
