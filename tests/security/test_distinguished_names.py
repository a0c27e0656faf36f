"""Tests of certificate subjects as text. The text equals that of ``X500Principal`` in Java 17."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from security.distinguished_names import subject_of
from security.name_mapping import parse_mapping_rules

C, O, OU, CN = (  # noqa: E741
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.COMMON_NAME,
)

SUBJECTS = {
    r"CN=\ al ice\ ,OU=a\=b\+c\<d\>e\#f\;g\"h\\i,O=Acme\, Inc,C=DE": [
        {C: "DE"},
        {O: "Acme, Inc"},
        {OU: 'a=b+c<d>e#f;g"h\\i'},
        {CN: " al ice "},
    ],
    r"1.2.840.113549.1.9.1=#16056140622e63,CN=\#lead": [
        {CN: "#lead"},
        {NameOID.EMAIL_ADDRESS: "a@b.c"},
    ],
    "STREET=s 1,ST=NRW,L=Köln,DC=org,CN=x+UID=u1": [
        {CN: "x", NameOID.USER_ID: "u1"},
        {NameOID.DOMAIN_COMPONENT: "org"},
        {NameOID.LOCALITY_NAME: "Köln"},
        {NameOID.STATE_OR_PROVINCE_NAME: "NRW"},
        {NameOID.STREET_ADDRESS: "s 1"},
    ],
    "1.2.3.4.5=#0c027a7a,CN=a,2.5.4.42=#0c02c389,2.5.4.12=#0c024472,2.5.4.5=#13023132": [
        {NameOID.SERIAL_NUMBER: "12"},
        {NameOID.TITLE: "Dr"},
        {NameOID.GIVEN_NAME: "É"},
        {CN: "a"},
        {ObjectIdentifier("1.2.3.4.5"): "zz"},
    ],
    r"CN=\ \ two\ \ ": [{CN: "  two  "}],
    r"CN=a\00b": [{CN: "a\0b"}],
}


def issued(subject: list[dict[ObjectIdentifier, str]]) -> bytes:
    name = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(*pair) for pair in each.items()])
            for each in subject
        ]
    )
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    dated = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return dated.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.proves("security 10")
@pytest.mark.parametrize("shown", SUBJECTS)
def test_subject_has_the_same_text_as_in_java(shown: str) -> None:
    assert subject_of(issued(SUBJECTS[shown])) == shown


def test_certificate_without_a_subject_has_an_empty_name() -> None:
    assert subject_of(issued([])) == ""


def test_malformed_certificate_is_refused_with_the_reason() -> None:
    whole = issued([{CN: "x"}])
    for data in (b"", b"\x30", whole[:60], b"\x30\x82\xff\xff"):
        with pytest.raises(ValueError, match=r"not an X\.509 certificate"):
            subject_of(data)


def test_principal_mapping_rules_match_the_text_of_the_certificate_subject() -> None:
    rules = parse_mapping_rules(r"RULE:^CN=(.*?),OU=Stores.*$/$1/L")

    assert rules.map(subject_of(issued([{OU: "Stores"}, {CN: "Alice"}]))) == "alice"
    assert rules.map(subject_of(issued([{OU: "Guests"}, {CN: "Alice"}]))) is None
