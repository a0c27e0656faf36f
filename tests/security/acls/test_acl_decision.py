"""Tests of ACL decisions. The decisions follow each rule of Kafka's authorizer. For random entries
they equal the decisions of a naive implementation."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.acls.acl_decision import AclRules, Rule
from security.acls.index import AT_A_TIME, AclIndex
from security.acls.model import (
    GRANTS,
    OPERATIONS,
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tests.security.acls import naive
from tests.steps import result_of

pytestmark = pytest.mark.proves("security 33")

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ALICE, BOB = "User:alice", "User:bob"
HOST = "10.0.0.1"


def entry(permission, principal, operation, name, *, prefix=False, host="*", kind=TOPIC):
    pattern_type = PatternType.PREFIXED if prefix else PatternType.LITERAL
    return AclEntry(Pattern(kind, name, pattern_type), principal, host, operation, permission)


def acl_rules(*entries, super_users=(), allow_everyone=False):
    return AclRules(AclIndex(entries), super_users, allow_everyone=allow_everyone)


def allowed(acl_rules, principal, operation, name, host=HOST, kind=TOPIC):
    return acl_rules.verdict(principal, host, operation, kind, name).is_allowed


def test_allow_entry_allows_only_its_operation_on_its_resource():
    one = acl_rules(entry(ALLOW, ALICE, READ, "orders"))
    assert allowed(one, ALICE, READ, "orders")
    assert not allowed(one, ALICE, WRITE, "orders")
    assert not allowed(one, BOB, READ, "orders")
    assert not allowed(one, ALICE, READ, "payments")
    assert not allowed(one, ALICE, READ, "orders", kind=GROUP)


def test_principal_is_case_sensitive_and_only_user_star_matches_all():
    assert not allowed(acl_rules(entry(ALLOW, "user:alice", READ, "t")), ALICE, READ, "t")
    assert not allowed(acl_rules(entry(ALLOW, "User:al*", READ, "t")), ALICE, READ, "t")
    assert not allowed(acl_rules(entry(ALLOW, "Team:*", READ, "t")), "Team:red", READ, "t")
    assert allowed(acl_rules(entry(ALLOW, "User:*", READ, "t")), ALICE, READ, "t")


def test_literal_star_covers_all_names_and_prefixed_star_is_a_prefix():
    assert allowed(acl_rules(entry(ALLOW, ALICE, READ, "*")), ALICE, READ, "orders")
    prefixed = acl_rules(entry(ALLOW, ALICE, READ, "*", prefix=True))
    assert not allowed(prefixed, ALICE, READ, "orders")
    assert allowed(prefixed, ALICE, READ, "*orders")


def test_deny_entry_overrides_every_allow_entry():
    for deny in (
        entry(DENY, "User:*", READ, "*"),
        entry(DENY, ALICE, ALL, "orders"),
        entry(DENY, ALICE, READ, "ord", prefix=True),
    ):
        one = acl_rules(entry(ALLOW, ALICE, ALL, "orders"), deny)
        assert one.verdict(ALICE, HOST, READ, TOPIC, "orders") == (False, deny)


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_allow_entry_implies_describe_but_deny_entry_does_not_deny_describe(operation):
    given_operation = Operation[operation]
    assert allowed(acl_rules(entry(ALLOW, ALICE, given_operation, "t")), ALICE, DESCRIBE, "t")
    both = acl_rules(entry(DENY, ALICE, given_operation, "t"), entry(ALLOW, ALICE, DESCRIBE, "t"))
    assert allowed(both, ALICE, DESCRIBE, "t")


def test_describe_configs_is_implied_by_alter_configs_not_by_write():
    configs = Operation.DESCRIBE_CONFIGS
    assert allowed(
        acl_rules(entry(ALLOW, ALICE, Operation.ALTER_CONFIGS, "t")), ALICE, configs, "t"
    )
    assert not allowed(acl_rules(entry(ALLOW, ALICE, WRITE, "t")), ALICE, configs, "t")


def test_allow_entry_for_a_host_does_not_allow_other_hosts():
    one = acl_rules(entry(ALLOW, ALICE, READ, "t", host=HOST))
    assert allowed(one, ALICE, READ, "t")
    assert not allowed(one, ALICE, READ, "t", host="10.0.0.2")


def test_super_user_is_allowed_despite_a_deny_entry():
    one = acl_rules(entry(DENY, ALICE, ALL, "*"), super_users={ALICE})
    assert one.verdict(ALICE, HOST, READ, TOPIC, "t") == (True, Rule.SUPER_USER)


@pytest.mark.parametrize("covering", [("t", False), ("t", True), ("*", False)])
def test_allow_entry_for_a_principal_does_not_allow_other_principals(covering):
    name, prefix = covering
    one = acl_rules(entry(ALLOW, BOB, READ, name, prefix=prefix), allow_everyone=True)
    assert not allowed(one, ALICE, READ, "t")
    assert one.verdict(ALICE, HOST, READ, TOPIC, "t").rule is Rule.NOTHING_ALLOWS
    assert one.verdict(ALICE, HOST, READ, GROUP, "t") == (True, Rule.NO_ACL_ALLOWS)


def test_access_to_a_resource_without_acl_entries_is_denied():
    assert acl_rules().verdict(ALICE, HOST, READ, TOPIC, "t") == (False, Rule.NO_ACL_DENIES)


def test_principal_may_write_to_some_topic_when_an_allow_acl_is_not_overridden_by_deny():
    def somewhere(*entries, **settings):
        return result_of(acl_rules(*entries, **settings).may_somewhere(ALICE, HOST, WRITE, TOPIC))

    assert not somewhere()
    assert somewhere(super_users={ALICE})
    assert somewhere(allow_everyone=True)
    assert somewhere(entry(ALLOW, ALICE, WRITE, "t"))
    assert somewhere(entry(ALLOW, "User:*", ALL, "t", prefix=True))
    assert not somewhere(entry(ALLOW, BOB, WRITE, "t"))
    assert not somewhere(entry(ALLOW, ALICE, WRITE, "t"), entry(DENY, ALICE, ALL, "*"))
    assert not somewhere(entry(ALLOW, ALICE, WRITE, "t"), entry(DENY, ALICE, WRITE, "t"))
    assert not somewhere(
        entry(ALLOW, ALICE, WRITE, "ta", prefix=True), entry(DENY, ALICE, WRITE, "t", prefix=True)
    )
    # A deny of one name does not cover the other names of an allowed prefix.
    assert somewhere(entry(ALLOW, ALICE, WRITE, "t", prefix=True), entry(DENY, ALICE, WRITE, "t"))
    assert somewhere(entry(ALLOW, ALICE, WRITE, "*"), entry(DENY, ALICE, WRITE, "t"))
    # A prefixed pattern * covers only names that begin with a star.
    of_stars = entry(DENY, ALICE, WRITE, "*", prefix=True)
    assert somewhere(entry(ALLOW, ALICE, WRITE, "*"), of_stars)
    assert not somewhere(entry(ALLOW, ALICE, WRITE, "*", prefix=True), of_stars)


def test_allowed_operations_are_returned_as_a_bit_field():
    full = {TOPIC: 3576, GROUP: 3400, ResourceType.CLUSTER: 8096}
    for kind, bits in full.items():
        assert acl_rules(allow_everyone=True).operations(ALICE, HOST, kind, "x") == bits
    one = acl_rules(entry(ALLOW, ALICE, READ, "t"))
    assert one.operations(ALICE, HOST, TOPIC, "t") == 1 << READ | 1 << DESCRIBE


KINDS = st.sampled_from([TOPIC, GROUP])
PRINCIPALS = st.sampled_from([ALICE, BOB, "User:*"])
HOSTS = st.sampled_from(["*", HOST, "10.0.0.2"])
PERMISSIONS = st.sampled_from([ALLOW, DENY])
PATTERN_TYPES = st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])


def entries(names, kinds=KINDS, operations=(*OPERATIONS[TOPIC], ALL)):
    patterns = st.builds(Pattern, kinds, st.sampled_from(names), PATTERN_TYPES)
    operation = st.sampled_from(operations)
    return st.builds(AclEntry, patterns, PRINCIPALS, HOSTS, operation, PERMISSIONS)


ENTRIES = entries(["*", "a", "ab", "abc", "b"])
DENSE = st.lists(entries(["*", "a", "ab"], st.just(TOPIC), (WRITE, READ, ALL)), max_size=8)
"""A strategy of ACL entries with few names and operations, so that deny entries often match the
same resources as allow entries."""
RULES = st.tuples(
    st.lists(ENTRIES, max_size=12),
    st.lists(ENTRIES, max_size=6),
    st.booleans(),
    st.sampled_from([(), (ALICE,)]),
)
"""A strategy of four values: the entries, other entries that are added and removed again,
allow_everyone, and the super users."""


def acl_rules_and_naive_arguments(rules):
    """Returns the rules as `AclRules`, and as arguments of the naive implementation."""
    entries, gone, allow_everyone, super_users = rules
    index = AclIndex(entries + gone)
    for each in gone:
        index.remove(each)
    left = set(entries) - set(gone)
    assert set(index) == left
    assert len(index) == len(left)
    return AclRules(index, super_users, allow_everyone=allow_everyone), (
        left,
        super_users,
        allow_everyone,
    )


@given(RULES)
def test_acl_decision_equals_the_decision_of_a_naive_implementation(rules):
    one, by = acl_rules_and_naive_arguments(rules)
    for principal in (ALICE, BOB):
        for kind in (TOPIC, GROUP):
            for name in ("a", "ab", "abcd", "c"):
                for operation in OPERATIONS[TOPIC]:
                    asked = principal, HOST, operation, kind, name
                    expected = naive.is_allowed(*by, *asked)
                    assert one.verdict(*asked).is_allowed == expected, asked


@given(RULES)
def test_allowed_operations_equal_those_of_the_naive_implementation(rules):
    one, by = acl_rules_and_naive_arguments(rules)
    for principal in (ALICE, BOB):
        for kind in (TOPIC, GROUP):
            for name in ("a", "ab", "abcd", "c"):
                asked = principal, HOST, kind, name
                assert one.operations(*asked) == naive.operations(*by, *asked), asked


@given(st.one_of(RULES, st.tuples(DENSE, st.just([]), st.just(False), st.just(()))))
def test_function_may_somewhere_equals_the_naive_implementation_except_for_implied_operations(
    rules,
):
    """`may_somewhere` returns whether an operation is allowed on at least one resource of a type.
    It differs from the naive implementation only for operations that an allowed operation implies:
    for these it may return False, as in Kafka."""
    one, by = acl_rules_and_naive_arguments(rules)
    for principal in (ALICE, BOB):
        for kind in (TOPIC, GROUP):
            for operation in OPERATIONS[TOPIC]:
                asked = principal, HOST, operation, kind
                said, found = result_of(one.may_somewhere(*asked)), naive.may_somewhere(*by, *asked)
                assert said == found or (found and operation in GRANTS), asked


def test_200_decisions_with_100_000_entries_take_less_than_500_ms():
    entries = [entry(ALLOW, f"User:{n}", READ, "*") for n in range(50_000)]
    entries += [entry(ALLOW, ALICE, READ, f"orders-{n}", prefix=True) for n in range(50_000)]
    one = AclRules(AclIndex(entries))
    began_s = time.thread_time()
    for _ in range(100):
        assert allowed(one, ALICE, READ, "orders-49999-x")
        assert not allowed(one, BOB, READ, "orders-49999-x")
    # Reading all entries for each decision would take seconds.
    assert time.thread_time() - began_s < 0.5


def test_acl_index_returns_entries_for_the_requested_operation_and_for_operation_all():
    index = AclIndex(entry(ALLOW, ALICE, READ, f"t{number}") for number in range(1000))
    assert not [*index.entries_for(TOPIC, ALICE, WRITE)]
    index.add(entry(ALLOW, ALICE, WRITE, "t"))
    index.add(entry(ALLOW, ALICE, ALL, "u"))
    found = index.entries_for(TOPIC, ALICE, WRITE)
    assert [each.pattern.name for each in found] == ["t", "u"]
    index.remove(entry(ALLOW, ALICE, WRITE, "t"))
    assert [each.pattern.name for each in index.entries_for(TOPIC, ALICE, WRITE)] == ["u"]


def test_access_check_for_any_topic_runs_in_short_steps_when_many_acls_exist():
    entries = [
        entry(permission, ALICE, WRITE, f"t{number}")
        for number in range(1000)
        for permission in (ALLOW, DENY)
    ]
    steps = acl_rules(*entries).may_somewhere(ALICE, HOST, WRITE, TOPIC)
    assert len(list(steps)) >= 2000 / AT_A_TIME + 1000
    assert not result_of(acl_rules(*entries).may_somewhere(ALICE, HOST, WRITE, TOPIC))
