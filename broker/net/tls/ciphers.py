"""Translates the names of cipher suites from IANA's names, which Kafka's settings use, to OpenSSL's
names.

For TLS 1.2 the OpenSSL name follows from the IANA name. Python can't select among the three suites
of TLS 1.3: if TLS 1.3 is enabled, all three are enabled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

SUITES_OF_13: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_SUITE = re.compile(
    r"TLS_(?P<exchange>[A-Z_]+?)_WITH_(?P<cipher>\w+?)(?P<cbc>_CBC)?_(?P<hash>SHA\d*)"
)


def openssl_ciphers(suites: Sequence[str], *, has_13: bool) -> str:
    """Returns the argument of ``set_ciphers`` that enables ``suites``. Raises ValueError, with a
    reason for the operator, if a suite is unknown. Also raises ValueError if TLSv1.3 is enabled
    (``has_13``), but ``suites`` lacks a suite that can't be disabled in TLSv1.3."""
    missing = [name for name in SUITES_OF_13 if name not in suites]
    if has_13 and missing:
        raise ValueError(
            f"TLSv1.3 always enables {', '.join(SUITES_OF_13)}: list all of them, or"
            " remove TLSv1.3 from ssl.enabled.protocols"
        )
    names = [_openssl_name(suite) for suite in suites if suite not in SUITES_OF_13]
    return ":".join(names) if names else "DEFAULT"


def _openssl_name(suite: str) -> str:
    found = _SUITE.fullmatch(suite)
    if found is None:
        raise ValueError(f"{suite} is not the IANA name of a cipher suite of TLS 1.2 or 1.3")
    exchange = [] if found["exchange"] == "RSA" else [found["exchange"].replace("_", "-")]
    cipher = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", found["cipher"]).replace("_", "-")
    # Only IANA's name of CHACHA20-POLY1305 includes the hash.
    ending = [] if cipher == "CHACHA20-POLY1305" else [found["hash"]]
    return "-".join([*exchange, cipher, *ending])
