from __future__ import annotations

import pytest

from security.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Component,
    Entity,
    matching,
    parse_entity,
    quota_of,
    quota_of_address,
    wrong_quota,
)

BY_RANK = [
    (Entity("alice", "app"), ("alice", "app")),
    (Entity("alice", None), ("alice", "app")),
    (Entity("alice"), ("alice", "")),
    (Entity(None, "app"), ("alice", "app")),
    (Entity(None, None), ("alice", "app")),
    (Entity(None), ("alice", "")),
    (Entity(client_id="app"), ("", "app")),
    (Entity(client_id=None), ("", "app")),
]


@pytest.mark.parametrize("rank", range(len(BY_RANK)))
def test_most_specific_quota_applies_to_a_user_and_client_id(rank):
    quotas = {entity: {PRODUCER_BYTE_RATE: 1000 + i} for i, (entity, _) in enumerate(BY_RANK)}
    for entity, _ in BY_RANK[:rank]:
        del quotas[entity]
    entity, shared_by = BY_RANK[rank]
    assert quota_of(quotas, PRODUCER_BYTE_RATE, "alice", "app") == (entity, 1000 + rank, shared_by)
    assert quota_of(quotas, REQUEST_PERCENTAGE, "alice", "app") is None


def test_quotas_with_different_keys_are_found_independently():
    quotas = {Entity("alice"): {PRODUCER_BYTE_RATE: 1}, Entity(None): {REQUEST_PERCENTAGE: 2}}
    assert quota_of(quotas, REQUEST_PERCENTAGE, "alice", "app").entity == Entity(None)
    assert quota_of(quotas, PRODUCER_BYTE_RATE, "bob", "app") is None


def test_quota_of_an_address_precedes_the_default_quota():
    quotas = {Entity(ip=None): {CONNECTION_CREATION_RATE: 5}}
    assert quota_of_address(quotas, "10.0.0.1") == 5
    assert quota_of_address({}, "10.0.0.1") is None
    quotas[Entity(ip="10.0.0.1")] = {CONNECTION_CREATION_RATE: 9}
    assert quota_of_address(quotas, "10.0.0.1") == 9


def test_quota_entity_is_decoded_from_its_parts_in_any_order():
    assert parse_entity([(CLIENT_ID, None), (USER, "alice")]) == Entity("alice", None)
    assert parse_entity([(IP, None)]) == Entity(ip=None)
    assert str(Entity("alice", None)) == "user alice, client-id (default)"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([(USER, "")], "Empty user not supported"),
        ([(USER, "a"), (USER, "b")], "the entity names user twice"),
        ([(IP, "10.0.0.1"), (USER, "a")], "an ip can't be combined with user or client id"),
    ],
)
def test_quota_entity_that_kafka_refuses_is_refused(parts, said):
    with pytest.raises(ValueError, match=said):
        parse_entity(parts)


@pytest.mark.parametrize(
    ("entity", "key", "value", "said"),
    [
        (Entity("a"), PRODUCER_BYTE_RATE, 1024.0, None),
        (Entity("a"), PRODUCER_BYTE_RATE, None, None),
        (Entity("a"), REQUEST_PERCENTAGE, 0.5, None),
        (Entity("a"), PRODUCER_BYTE_RATE, 0.5, "must be a whole number"),
        (Entity("a"), PRODUCER_BYTE_RATE, 0.0, "must be greater than 0"),
        (Entity("a"), REQUEST_PERCENTAGE, float("nan"), "must be greater than 0"),
        (Entity("a"), REQUEST_PERCENTAGE, float("inf"), "must be greater than 0"),
        (Entity("a"), CONNECTION_CREATION_RATE, 1.0, "Invalid configuration key"),
        (Entity(ip="1.2.3.4"), PRODUCER_BYTE_RATE, 1.0, "Invalid configuration key"),
        (Entity("a"), "speed", None, "Invalid configuration key speed; user a supports"),
    ],
)
def test_quota_key_or_value_that_is_invalid_for_its_entity_is_refused(entity, key, value, said):
    wrong = wrong_quota(entity, key, value)
    assert wrong is None if said is None else said in wrong


QUOTAS = {
    entity: {PRODUCER_BYTE_RATE: 1.0}
    for entity in (
        Entity("alice"),
        Entity("alice", "app"),
        Entity("alice", None),
        Entity(None),
        Entity(client_id="app"),
    )
}


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, list(QUOTAS)),
        ([], True, list(QUOTAS)),
        ([Component(USER, name="alice")], True, [Entity("alice")]),
        (
            [Component(USER, name="alice")],
            False,
            [Entity("alice"), Entity("alice", "app"), Entity("alice", None)],
        ),
        ([Component(USER)], False, [Entity(None)]),
        ([Component(USER, is_any=True)], True, [Entity("alice"), Entity(None)]),
        (
            [Component(USER, is_any=True), Component(CLIENT_ID, is_any=True)],
            True,
            [Entity("alice", "app"), Entity("alice", None)],
        ),
        ([Component(CLIENT_ID)], False, [Entity("alice", None)]),
    ],
)
def test_quota_filter_matches_the_same_quotas_as_in_kafka(components, strict, found):
    assert matching(QUOTAS, components, strict=strict) == found


@pytest.mark.parametrize(
    ("components", "said"),
    [
        ([Component("group")], "Custom entity type 'group' not supported"),
        ([Component(USER), Component(USER)], "Duplicate filter component entity type: user"),
        ([Component(USER), Component(IP)], "ip can't be combined with others"),
    ],
)
def test_quota_filter_that_kafka_refuses_is_refused(components, said):
    with pytest.raises(ValueError, match=said):
        matching(QUOTAS, components, strict=False)
