"""Tests of ssl.principal.mapping.rules, which map the subject of a certificate to a user name."""

from __future__ import annotations

import time

import pytest

from security.name_mapping import NAME_CHARS_MAX, parse_mapping_rules

NAME = "CN=Alice,OU=ServiceUsers,O=Acme\\, Inc,C=DE"


@pytest.mark.parametrize(
    ("rules", "mapped"),
    [
        ("DEFAULT", NAME),
        (" , DEFAULT,, ", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U , DEFAULT", "ALICE@SERVICEUSERS"),
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/,DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/", None),
        ("RULE:CN=Alice/x/", None),  # the pattern must match the whole name
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/, RULE:^.*?O=(.*?)\\\\,.*$/$1/", "Acme"),
        ("RULE:^CN=(.*?),.*$/$1\\/$9/", "Alice/$9"),  # the pattern has one group, so $9 stays text
        ("RULE:^CN=(.*?),.*$/$10/", "Alice0"),
        ("RULE:^CN=(.*?),.*$/\\$1/", "$1"),
        ("RULE:^CN=(?<name>.*?),OU=(?<unit>.*?),.*$/${unit}-${name}/", "ServiceUsers-Alice"),
        ("RULE:^CN=(.*?),.*$/$0/", NAME),
        ("RULE:^CN=(.*?),.*$/$01/", "Alice"),
        ("RULE:^CN=(.*?),OU=(.*?)(,X=(.*))?,O=.*$/$1-$4/", "Alice-"),
        ("RULE:(.*)/u-$1/", f"u-{NAME}u-"),  # the pattern also matches the empty end of the name
        ("RULE:^CN=([\\w\\[]+),.*$/$1/", "Alice"),
    ],
)
def test_first_matching_rule_determines_the_user_name(rules, mapped):
    """Each expected name was returned by ``SslPrincipalMapper`` of Kafka 4.3.1."""
    assert parse_mapping_rules(rules).map(NAME) == mapped


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("RULE:^CN=(.*)", "write rules separated by commas"),
        ("default", "unexpected text at 'default'"),
        ("DEFAULT, RULE:a/b/X", "unexpected text at ' RULE:a/b/X'"),
        ("RULE:(/x/", "the pattern '\\(' can't be used: missing"),
        ("RULE:(?=a)b/x/", "can't be used: invalid perl operator"),
        ("", "no rule is set, so every client would be rejected"),
        (" , ", "no rule is set, so every client would be rejected"),
        ("RULE:^CN=.*$/$1/", r"refers to '\$1', a group that the pattern does not have"),
        ("RULE:^CN=(.*?),.*$/a$/", r"refers to '\$', a group that"),
        ("RULE:^CN=(.*?),.*$/$a/", r"refers to '\$', a group that"),
        ("RULE:^CN=(?<user>.*?),.*$/${name}/", r"refers to '\$\{name\}', a group that"),
        (r"RULE:^CN=([a-z[A-Z]]+),.*$/$1/", "only Java supports the combined character classes in"),
        (r"RULE:^CN=([\w&&[^_]]+),.*$/$1/", "only Java supports the combined character classes in"),
        (
            r"RULE:^CN=([[:alpha:]]+),.*$/$1/",
            "only Java supports the combined character classes in",
        ),
    ],
)
def test_malformed_mapping_rule_is_refused_with_the_reason(rules, said):
    with pytest.raises(ValueError, match=said):
        parse_mapping_rules(rules)


@pytest.mark.parametrize("char", ["\r", "\n", "\x85", "\u2028", "\u2029"])
def test_pattern_does_not_match_a_name_with_a_line_break(char):
    """In Java, the dot of a pattern matches no line terminator. In RE2, the dot excludes only the
    line feed."""
    rules = parse_mapping_rules("RULE:^CN=(.*?),OU=(.*)$/$1/")
    assert rules.map(f"CN=ali{char}ce,OU=x") is None
    assert rules.map(f"CN=alice,OU={char}") is None
    assert parse_mapping_rules("DEFAULT").map(f"CN={char}") == f"CN={char}"


def test_backtracking_pattern_is_matched_quickly():
    rules = parse_mapping_rules("RULE:(a+)+b/$1/")
    began_s = time.thread_time()
    assert rules.map("a" * NAME_CHARS_MAX) is None
    assert time.thread_time() - began_s < 0.5


def test_name_above_the_length_limit_matches_no_rule():
    assert parse_mapping_rules("DEFAULT").map("a" * (NAME_CHARS_MAX + 1)) is None
