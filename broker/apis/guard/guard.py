"""Puts the guard in front of every handler, by what the rows of the table of APIs say.

`guarded` is called once, when a broker with an authorizer starts; a broker without one runs the
handlers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.apis.guard.commits import with_commits
from broker.apis.guard.coordinators import find_coordinator, offset_fetch
from broker.apis.guard.elements import with_elements
from broker.apis.guard.metadata import describe_topic_partitions, metadata
from broker.apis.guard.needs_met import with_needs
from broker.apis.guard.records import fetch, produce
from broker.apis.guard.shown import describe_cluster, describe_groups, with_hidden
from broker.apis.guard.topics import create_topics, delete_topics
from broker.apis.guard.transactions import add_partitions_to_txn, init_producer_id
from broker.net.needs import EachCommitted, Rights
from broker.net.request import Handler, ServedApi
from broker.rights.authorizer import Authorizer
from protocol.messages.add_partitions_to_txn import API as ADD_PARTITIONS_TO_TXN
from protocol.messages.create_topics import API as CREATE_TOPICS
from protocol.messages.delete_topics import API as DELETE_TOPICS
from protocol.messages.describe_cluster import API as DESCRIBE_CLUSTER
from protocol.messages.describe_groups import API as DESCRIBE_GROUPS
from protocol.messages.describe_topic_partitions import API as DESCRIBE_TOPIC_PARTITIONS
from protocol.messages.fetch import API as FETCH
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from protocol.messages.metadata import API as METADATA
from protocol.messages.offset_fetch import API as OFFSET_FETCH
from protocol.messages.produce import API as PRODUCE

OWN: Mapping[int, Callable[[Handler, Authorizer, Rights], Handler]] = {
    ADD_PARTITIONS_TO_TXN.key: add_partitions_to_txn,
    CREATE_TOPICS.key: create_topics,
    DELETE_TOPICS.key: delete_topics,
    DESCRIBE_CLUSTER.key: describe_cluster,
    DESCRIBE_GROUPS.key: describe_groups,
    DESCRIBE_TOPIC_PARTITIONS.key: describe_topic_partitions,
    FETCH.key: fetch,
    FIND_COORDINATOR.key: find_coordinator,
    INIT_PRODUCER_ID.key: init_producer_id,
    METADATA.key: metadata,
    OFFSET_FETCH.key: offset_fetch,
    PRODUCE.key: produce,
}
"""Code of an API's own, by its key; what it asks for and tells is in its row."""


def guarded(served: Mapping[int, ServedApi], authorizer: Authorizer) -> Mapping[int, ServedApi]:
    """The rows, with the guard in front of each handler."""
    return {key: replace(row, handle=_guarded(row, authorizer)) for key, row in served.items()}


def _guarded(row: ServedApi, authorizer: Authorizer) -> Handler:
    rights = row.rights
    assert rights.are_said, f"{row.api.name} does not say what it needs"
    handle = row.handle
    if (rights.own or rights.tells) and not rights.is_in_handler:
        handle = OWN[row.api.key](handle, authorizer, rights)
    for hides in rights.hides:
        handle = with_hidden(hides, handle, authorizer)
    each = rights.each
    if isinstance(each, EachCommitted):
        handle = with_commits(each, handle, authorizer)
    elif each is not None:
        handle = with_elements(each, handle, authorizer)
    if rights.needs:
        handle = with_needs(rights.needs, handle, authorizer, row.api.request[0].name)
    return handle
