"""Tests of the parser of sasl.jaas.config."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.jaas import JaasError, LoginModule, parse_jaas


def test_jaas_login_module_is_parsed_with_its_options():
    text = """org.apache.kafka.Plain required // of the broker
        username="broker" /* its own */ user_a="x\\"y;=\\n" serviceName=kafka-1.prod;"""
    assert parse_jaas(text) == LoginModule(
        "org.apache.kafka.Plain",
        {"username": "broker", "user_a": 'x"y;=\n', "serviceName": "kafka-1.prod"},
    )


@pytest.mark.parametrize("flag", ["required", "Requisite", "SUFFICIENT", "optional"])
def test_flag_of_a_login_module_is_case_insensitive(flag):
    assert parse_jaas(f"M {flag};") == LoginModule("M", {})


def test_escapes_in_jaas_text_are_decoded_as_by_java():
    assert parse_jaas(r'M required a="\101\t\q\60x";').options == {"a": "A\tq0x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the name of a login module is missing"),
        ("M", r"the flag \(required, requisite, sufficient, optional\) is missing"),
        ("M perhaps;", "'perhaps' after M is not one of required, requisite, sufficient, optional"),
        ("M required", "expected a semicolon after the options of M"),
        ('M required a="secret"', "expected a semicolon after the options of M"),
        ("M required a;", "expected = and a value after the option a"),
        ("M required a=;", "the quoted value of the option a is missing"),
        ("M required a=1secret;", "unexpected character at position 14: put values in quotes"),
        ('M required a="secret;', "unexpected character at position 14: put values in quotes"),
        ("M required; M required;", "only one login module is allowed"),
    ],
)
def test_jaas_error_names_the_mistake_without_option_values(text, said):
    with pytest.raises(JaasError, match=said) as raised:
        parse_jaas(text)
    assert "secret" not in str(raised.value)


@given(st.text(max_size=100))
def test_random_text_is_parsed_as_a_login_module_or_raises_jaas_error(text):
    with suppress(JaasError):
        assert parse_jaas(text).name


def test_repr_of_a_login_module_hides_option_values():
    assert repr(parse_jaas('M required b="secret" a="x";')) == "LoginModule('M', ['a', 'b'])"
