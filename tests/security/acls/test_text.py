"""Tests of ACL entries in Kafka's JSON format, and of decisions as English sentences."""

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


def test_acl_entry_is_encoded_as_by_kafka():
    assert json_of(ENTRY) == {
        "principal": "User:alice",
        "permissionType": "Allow",
        "operation": "DescribeConfigs",
        "host": "*",
    }


@given(ENTRIES)
def test_acl_entry_is_unchanged_after_encoding_and_decoding(entry):
    assert entry_of(entry.pattern, json_of(entry)) == entry


def test_name_of_an_operation_is_case_insensitive():
    assert member_of(Operation, "describeconfigs") is Operation.DESCRIBE_CONFIGS
    assert member_of(Operation, "DESCRIBE_CONFIGS") is Operation.DESCRIBE_CONFIGS
    assert type_of("transactional-id") is ResourceType.TRANSACTIONAL_ID


@pytest.mark.parametrize(
    "value", [{}, {"principal": "User:a"}, {**json_of(ENTRY), "host": 1}, "x", None]
)
def test_malformed_acl_json_is_refused_with_an_error_message(value):
    with pytest.raises(ValueError, match="an ACL of 'orders'"):
        entry_of(PREFIXED, value)


def test_error_about_an_unknown_operation_lists_the_known_operations():
    with pytest.raises(ValueError, match="'lick' is unknown: use one of Any, All, Read, Write"):
        member_of(Operation, "lick")


def test_sentence_of_a_decision_describes_its_acl():
    assert sentence(ENTRY) == (
        "an ACL allows User:alice from * DescribeConfigs"
        " on each Topic whose name begins with orders"
    )
    assert sentence(Rule.NOTHING_ALLOWS) == "no matching ACL allows the operation"


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
def test_entry_that_cannot_be_stored_is_refused_with_the_reason(change, said):
    assert wrong_with(ENTRY._replace(**change)) == said
    assert wrong_with(ENTRY) is None
