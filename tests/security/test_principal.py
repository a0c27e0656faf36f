from __future__ import annotations

import pytest

from security.principal import ANONYMOUS, parse_principal, parse_super_users, user


def test_principal_is_read_as_its_type_and_name():
    assert parse_principal("User:CN=alice:x,O=Acme") == ("User", "CN=alice:x,O=Acme")
    assert str(user("bob")) == "User:bob"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_malformed_principal_is_refused_with_the_reason(text):
    with pytest.raises(ValueError, match="is not a principal such as User:alice"):
        parse_principal(text)


def test_super_users_are_separated_by_semicolons():
    assert parse_super_users("User:a; User:CN=b,O=c;") == {"User:a", "User:CN=b,O=c"}
    assert parse_super_users("") == frozenset()
    with pytest.raises(ValueError, match="'b' is not a principal"):
        parse_super_users("User:a;b")
