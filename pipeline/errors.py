"""What a job says when it cannot go on."""

from __future__ import annotations


class PipelineError(Exception):
    """A sentence that says what happened, to what, and what to do; the command line prints it."""
