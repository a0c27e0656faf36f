"""Names of cipher suites: IANA's, which Kafka's settings have, to OpenSSL's.

For TLS 1.2 the one name follows from the other. The three suites of TLS 1.3 can't be chosen from
Python: all of them are on where that version is.
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
    """The argument of ``set_ciphers`` for some suites. ValueError, as a sentence."""
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
    # CHACHA20-POLY1305 has its hash in IANA's name alone.
    ending = [] if cipher == "CHACHA20-POLY1305" else [found["hash"]]
    return "-".join([*exchange, cipher, *ending])
