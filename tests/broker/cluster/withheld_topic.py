"""A topic whose metadata reaches restarted brokers late: LeaderAndIsr makes them coordinators
before UpdateMetadata contains the topic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from broker.cluster.replicas.replicas import ReplicaManager
from controller.requests import UpdateMetadataRequest
from tests.broker.cluster.members import Members
from tests.broker.serving import eventually


class WithheldTopic:
    """Removes a topic from each UpdateMetadata until `release`."""

    def __init__(self, cluster: Members, topic: str, patch: pytest.MonkeyPatch) -> None:
        self._cluster = cluster
        self._patch = patch
        self._late: list[Callable[[], int]] = []
        real = ReplicaManager.update_metadata

        def delayed(replicas: ReplicaManager, request: UpdateMetadataRequest) -> int:
            if any(each.name == topic for each in request.topics):
                self._late.append(partial(real, replicas, request))
            kept = [each for each in request.topics if each.name != topic]
            return real(replicas, request._replace(topics=kept))

        patch.setattr(ReplicaManager, "update_metadata", delayed)

    async def release(self) -> None:
        """Waits until the controller has sent the topic to each broker. Then applies the withheld
        requests."""
        count = len(self._cluster.brokers)
        await eventually("the topic was sent", lambda: len(self._late) >= count)
        self._patch.undo()
        for update in self._late:
            update()


async def restart_without(cluster: Members, topic: str, patch: pytest.MonkeyPatch) -> WithheldTopic:
    """Restarts all brokers, and withholds the metadata of the topic from them."""
    for node_id in (1, 2, 3):
        await cluster.stop(node_id)
    withheld = WithheldTopic(cluster, topic, patch)
    for node_id in (1, 2, 3):
        await cluster.start(node_id)
    await cluster.settled()
    return withheld
