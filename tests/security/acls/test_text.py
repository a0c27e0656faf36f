"""Entries as Kafka's JSON and as sentences."""

from __future__ import annotations

import pytest
from hypothesis import given

from security.acls.acl_decision import Rule
from security.acls.model import (
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    wrong_with,
)
from security.acls.text import entry_of, json_of, member_of, sentence, type_of
from tests.security.acls.test_acl_decision import ENTRIES

PREFIXED = Pattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED)
ENTRY = AclEntry(PREFIXED, "User:alice", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)


def test_an_entry_is_written_as_kafka_writes_it():
    assert json_of(ENTRY) == {
        "principal": "User:alice",
        "permissionType": "Allow",
        "operation": "DescribeConfigs",
        "host": "*",
    }


@given(ENTRIES)
def test_what_was_written_is_read(entry):
    assert entry_of(entry.pattern, json_of(entry)) == entry


def test_operations_are_read_in_any_case():
    assert member_of(Operation, "describeconfigs") is Operation.DESCRIBE_CONFIGS
    assert member_of(Operation, "DESCRIBE_CONFIGS") is Operation.DESCRIBE_CONFIGS
    assert type_of("transactional-id") is ResourceType.TRANSACTIONAL_ID


@pytest.mark.parametrize(
    "value", [{}, {"principal": "User:a"}, {**json_of(ENTRY), "host": 1}, "x", None]
)
def test_anything_else_is_refused_by_a_sentence(value):
    with pytest.raises(ValueError, match="an ACL of 'orders'"):
        entry_of(PREFIXED, value)


def test_an_unknown_word_is_told_with_those_that_are_known():
    with pytest.raises(ValueError, match="'lick' is unknown: use one of Any, All, Read, Write"):
        member_of(Operation, "lick")


def test_the_rule_is_told_to_people():
    assert sentence(ENTRY) == (
        "an ACL allows User:alice from * DescribeConfigs"
        " on each Topic whose name begins with orders"
    )
    assert sentence(Rule.NOTHING_ALLOWS) == "no matching ACL allows it"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal"
            " type from the principal name)",
        ),
        ({"host": "", "principal": "User:"}, None),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"pattern": PREFIXED._replace(name="")}, "Invalid empty resource name"),
        (
            {"pattern": PREFIXED._replace(pattern_type=PatternType.MATCH)},
            "Invalid patternType MATCH",
        ),
        (
            {"pattern": Pattern(ResourceType.CLUSTER, "mine")},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"pattern": Pattern(ResourceType.ANY, "t")},
            "Invalid resourceType ANY",
        ),
    ],
)
def test_an_entry_that_can_not_be_stored_says_why(change, said):
    assert wrong_with(ENTRY._replace(**change)) == said
    assert wrong_with(ENTRY) is None
