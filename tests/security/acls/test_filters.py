"""Tests of ACL filters, which select the entries that DescribeAcls returns and that DeleteAcls
removes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.acls.filters import AclFilter
from security.acls.index import AclIndex
from security.acls.model import (
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tests.security.acls.test_acl_decision import ENTRIES

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def entry(name, pattern_type=LITERAL, kind=TOPIC):
    return AclEntry(
        Pattern(kind, name, pattern_type), "User:alice", "*", Operation.READ, Permission.ALLOW
    )


T1, STAR, PREFIX = entry("t1"), entry("*"), entry("t", PREFIXED)
SAME, OTHER, GROUP = entry("t1", PREFIXED), entry("t2"), entry("t1", kind=ResourceType.GROUP)
INDEX = AclIndex([T1, STAR, PREFIX, SAME, OTHER, GROUP])


@pytest.mark.proves("security 13")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {T1, STAR, PREFIX, SAME, OTHER, GROUP}),
        (AclFilter(TOPIC, "t1", PatternType.MATCH), {T1, STAR, PREFIX, SAME}),
        (AclFilter(TOPIC, "t1", PatternType.ANY), {T1, SAME}),
        (AclFilter(TOPIC, "t1", LITERAL), {T1}),
        (AclFilter(TOPIC, "t1", PREFIXED), {SAME}),
        (AclFilter(TOPIC, None, PREFIXED), {PREFIX, SAME}),
        (AclFilter(name="t1"), {T1, SAME, GROUP}),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(operation=Operation.ALL), set()),
        (AclFilter(TOPIC, "t2", operation=Operation.READ, permission=Permission.ALLOW), {OTHER}),
        (AclFilter(host="*", permission=Permission.DENY), set()),
    ],
)
def test_acl_filter_matches_the_same_entries_as_in_kafka(wanted, found):
    assert set(INDEX.matching(wanted)) == found


@given(
    st.lists(ENTRIES, max_size=12),
    st.builds(
        AclFilter,
        st.sampled_from([ResourceType.ANY, TOPIC]),
        st.none() | st.sampled_from(["*", "a", "ab", "abc", "b"]),
        st.sampled_from([PatternType.ANY, PatternType.MATCH, LITERAL, PREFIXED]),
    ),
)
def test_acl_index_finds_all_entries_that_a_filter_matches(entries, wanted):
    found = AclIndex(entries).matching(wanted)
    assert len(found) == len(set(found))
    assert set(found) == {each for each in entries if wanted.takes(each)}


def test_error_about_a_filter_names_its_unknown_field():
    assert AclFilter(operation=Operation.UNKNOWN).wrong == "Unknown entryFilter."
    assert AclFilter(pattern_type=PatternType.UNKNOWN).wrong == "Unknown patternFilter."
    assert AclFilter().wrong is None
