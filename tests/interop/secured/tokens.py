"""Signed OAUTHBEARER tokens of an issuer. A JWKS file contains the public key of the issuer."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
JUDGE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The Java system property that lists the URLs from which Kafka 4 may read keys or tokens."""
VALID_S = 3600
KEY_ID = "of-tests"


class Issuer:
    """Signs tokens. A broker that trusts the issuer reads the keys at ``keys_url``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = rsa.generate_private_key(65537, 2048)
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [public | {"kid": KEY_ID, "use": "sig"}]}))
        self.keys_url = keys.as_uri()

    def token(self, user: str) -> str:
        return _signed(self._key, user)

    def forged(self, user: str) -> str:
        """Returns a token that has the key id of this issuer, but is signed with another key."""
        return _signed(rsa.generate_private_key(65537, 2048), user)

    def url_of(self, token: str) -> str:
        """Writes a token to a file. Returns its URL, for clients that read the token from a URL."""
        file = self._folder / f"{hashlib.sha256(token.encode()).hexdigest()[:16]}.jwt"
        file.write_text(token)
        return file.as_uri()


def _signed(key: rsa.RSAPrivateKey, user: str) -> str:
    now_s = int(time.time())
    claims = {"sub": user, "iat": now_s, "exp": now_s + VALID_S}
    return jwt.encode(claims, key, "RS256", {"kid": KEY_ID})
