"""What a job says when it cannot go on."""

from __future__ import annotations


class PipelineError(Exception):
    """A sentence that says what happened, to what, and what to do; the command line prints it."""


class Unreachable(PipelineError):
    """Nobody answers at an address; the command line ends with the exit code for that."""


class WrongUse(PipelineError):
    """Options that can't be understood, or not together; the command line ends with its code."""
