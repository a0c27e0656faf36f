"""The tables of all verbs of test mode. Each module of this folder defines the rows of its verbs;
this module joins them."""

from __future__ import annotations

from broker.test_mode.verbs import (
    clock,
    cluster,
    cluster_faults,
    coordinated,
    faults,
    groups,
    happened,
    life,
    requests,
    topics,
)
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
"""All verbs of a standalone broker, in the order in which GET /test lists them."""

OF_BROKER: tuple[Verb, ...] = (*faults.VERBS, *requests.VERBS)
"""The verbs for one broker of a cluster."""

OF_CLUSTER: tuple[Verb, ...] = (
    *cluster.VERBS,
    *cluster_faults.VERBS,
    *clock.VERBS,
    *coordinated.VERBS,
)
"""The verbs for a cluster as a whole. Each broker of the cluster serves them."""
