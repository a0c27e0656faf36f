"""The table of all verbs; a module of verbs has its own rows and is named here."""

from __future__ import annotations

from broker.test_mode.verbs import clock, faults, groups, happened, life, requests, topics
from broker.test_mode.verbs.verb import Verb

VERBS: tuple[Verb, ...] = (
    *life.VERBS,
    *clock.VERBS,
    *topics.VERBS,
    *faults.VERBS,
    *groups.VERBS,
    *happened.VERBS,
    *requests.VERBS,
)
"""In the order in which GET /test shows them."""
