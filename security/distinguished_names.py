r"""Formats the subject of a certificate as Java does (RFC 2253). Mapping rules are applied to the
result.

    CN=alice,OU=Stores\, North,O=Acme,C=DE

The last name in the certificate comes first. An attribute for which RFC 2253 has no keyword is
written as a dotted number with the hexadecimal bytes of its value: 1.2.840.113549.1.9.1=#1605... is
an e-mail address. Source: Java 17, ``sun.security.x509.AVA``; tests compare with Java's output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_WORDS: Final = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
"""The keywords of RFC 2253, by the encoded object identifier of the attribute."""
_STRINGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E))
"""The tags of those ASN.1 strings that are written as text."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION_TAG: Final = 0xA0
_BEFORE_SUBJECT: Final = 4
"""The number of fields before the subject: serial number, algorithm, issuer and validity."""


def subject_of(certificate: bytes) -> str:
    """Returns the subject of a certificate in DER. Raises ValueError if the bytes are not a
    certificate."""
    try:
        _, outer, _ = _element(certificate, 0)
        _, signed, _ = _element(outer, 0)
        at = 0
        if signed[0] == _VERSION_TAG:
            _, _, at = _element(signed, at)
        for _ in range(_BEFORE_SUBJECT):
            _, _, at = _element(signed, at)
        _, name, _ = _element(signed, at)
        relative = [list(_elements(each)) for _, each, _ in _elements(name)]
    except IndexError:
        raise ValueError("the data is not an X.509 certificate") from None
    return ",".join(
        "+".join(map(_attribute, (pair for _, pair, _ in each))) for each in relative[::-1]
    )


def _attribute(pair: bytes) -> str:
    """Formats an attribute as ``TYPE=value``."""
    _, identifier, at = _element(pair, 0)
    tag, value, _ = _element(pair, at)
    word = _WORDS.get(identifier)
    if word is None or tag not in _STRINGS:
        return f"{word or _dotted(identifier)}=#{pair[at:].hex()}"
    return f"{word}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if inner else len(text)
    after = len(text) - before - len(inner)
    escaped = "".join(f"\\{char}" if char in _ESCAPED else char for char in inner)
    return "\\ " * before + escaped.replace("\0", "\\00") + "\\ " * after


def _dotted(identifier: bytes) -> str:
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    at = 0
    while at < len(data):
        element = _element(data, at)
        at = element[2]
        yield element


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Returns the tag and the content of an ASN.1 element, and the position of the next element.
    Raises IndexError if the element is incomplete."""
    tag, size = data[at], data[at + 1]
    begin = at + 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(data[begin : begin + count])
        begin += count
    if begin + size > len(data):
        raise IndexError
    return tag, data[begin : begin + size], begin + size
