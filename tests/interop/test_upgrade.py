"""An upgrade as docs/operate/operating.md describes it: the broker stops and starts, and group
members continue."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest

from tests import waiting
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import PYTHON_CLIENTS, Group, Member

pytestmark = pytest.mark.interop


def moves(*members: Member) -> int:
    """Returns how often the members have gained or lost partitions."""
    return sum(e["event"] in ("assigned", "revoked", "lost") for m in members for e in m.events)


@pytest.mark.skipif(KIND != "muster", reason="what is measured is Muster's own upgrade")
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_broker_restart_within_the_session_timeout_moves_no_partition(
    brokers: Callable[..., Broker], client: str, name: str
) -> None:
    broker = brokers()
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 4)
    with Group(client, broker.bootstrap, f"{name}-group", topics=[name]) as group:
        members = [group.start(each, session_timeout_ms=20000) for each in "ab"]
        held = group.balanced(cluster, 2, 2).held
        group.until_seen(Feed(broker.bootstrap, name, 4).send(8))
        before = moves(*members)

        began_s = monotonic()
        assert broker.stop() == 0
        broker.start()
        away_s = monotonic() - began_s
        group.until_seen(Feed(broker.bootstrap, name, 4).send(8))

        after = waiting.until("the group is described", lambda: cluster.describe(f"{name}-group"))
        print(f"{client}: stopped and listening again in {away_s:.2f} s")
        assert (after.state, after.held) == ("Stable", held)
        assert moves(*members) == before, group.story()


@pytest.mark.skipif(KIND != "muster", reason="what is measured is Muster's own upgrade")
def test_librdkafka_releases_partitions_when_downtime_exceeds_session_timeout(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 2)
    with Group("confluent", broker.bootstrap, f"{name}-group", topics=[name]) as group:
        member = group.start("a", session_timeout_ms=2000)
        group.balanced(cluster, 2)
        before = moves(member)

        assert broker.stop() == 0
        waiting.until("the member gave up its partitions", lambda: moves(member) > before)
        broker.start()

        group.balanced(cluster, 2)
        group.until_seen(Feed(broker.bootstrap, name, 2).send(4))
