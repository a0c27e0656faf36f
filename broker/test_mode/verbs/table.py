"""The table of all verbs, composed of the rows of each module of verbs."""

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
"""All verbs, in the order in which GET /test lists them."""
