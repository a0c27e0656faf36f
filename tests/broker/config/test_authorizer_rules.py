"""Tests the settings of the authorizer: Kafka's authorizer classes are accepted, and any other
class is an error."""

from __future__ import annotations

import pytest

from broker.config.authorizer_rules import CLASSES, STANDARD
from broker.config.config import BadConfig, Config
from broker.config.sources import load

CLASS = f"authorizer.class.name={STANDARD}"


def refusal(*sets: str) -> str:
    with pytest.raises(BadConfig) as refused:
        load(None, {}, sets, {})
    return str(refused.value)


@pytest.mark.parametrize("name", CLASSES)
def test_authorizer_classes_of_kafka_are_accepted(name: str) -> None:
    config = load(None, {}, [f"authorizer.class.name={name}", "super.users=User:a;User:b"], {})
    assert config["authorizer.class.name"] == name
    assert config["super.users"] == "User:a;User:b"
    assert config["allow.everyone.if.no.acl.found"] is False
    assert config.unknown == []


def test_unsupported_authorizer_class_is_refused() -> None:
    assert refusal("authorizer.class.name=org.apache.ranger.Authorizer") == (
        "authorizer.class.name=org.apache.ranger.Authorizer: not supported; the only"
        " authorizer is Kafka's own, org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    )


def test_super_users_are_refused_when_no_authorizer_is_set() -> None:
    assert refusal("super.users=User:admin") == (
        "super.users has no effect without authorizer.class.name: set"
        f" authorizer.class.name={STANDARD}, or remove super.users"
    )


def test_super_user_without_a_principal_type_is_refused() -> None:
    assert refusal(CLASS, "super.users=admin") == (
        "super.users: 'admin' is not a principal such as User:alice"
    )


@pytest.mark.parametrize(
    "pair",
    [
        "allow.everyone.if.no.acl.found=true",
        "allow.everyone.if.no.acl.found=false",  # Kafka's default, set explicitly
        "super.users=",
    ],
)
def test_authorizer_settings_without_effect_are_accepted_without_an_authorizer(pair: str) -> None:
    assert load(None, {}, [pair], {}).unknown == []


def test_allow_everyone_false_is_reported_as_ignored_without_an_authorizer() -> None:
    name = "allow.everyone.if.no.acl.found"

    assert "without authorizer.class.name" in Config({name: "false"}).not_followed[name]
    assert not Config({name: "true"}).not_followed
    assert not Config({name: "false", "authorizer.class.name": STANDARD}).not_followed
