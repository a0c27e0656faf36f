"""The TLS context for new connections of a listener, validated before use. A context never changes.
When settings or files change, a new context is created and must first complete a handshake in
memory; existing connections keep the old context. Thus an incomplete change, such as a certificate
without its key, never takes effect. Source: KIP-226, 651, 684, 978."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from cryptography import x509

from broker.net.tls.ciphers import openssl_ciphers
from security.stores import (
    StoreError,
    certificates_in,
    key_and_certificates_in,
    pem,
    refuse_password,
)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

Stamps = tuple[tuple[int, int, int] | None, ...]
"""The modification time, size and inode of each file; None for a missing file."""


class TlsError(ValueError):
    """Raised if the TLS settings or files of a listener can't be used; the exception's text
    contains no secret."""


@dataclass(frozen=True)
class TlsSettings:
    """The ``ssl.*`` settings of one listener, by Kafka's names; "" for a setting that is not
    set."""

    keystore_location: str = ""
    keystore_password: str = field(default="", repr=False)
    keystore_key: str = field(default="", repr=False)
    keystore_certificate_chain: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    truststore_location: str = ""
    truststore_password: str = field(default="", repr=False)
    truststore_certificates: str = field(default="", repr=False)
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()

    def stamps(self) -> Stamps:
        """Returns a stamp of each file, read from the disk. A stamp changes when its file
        changes."""
        found: list[tuple[int, int, int] | None] = []
        for file in filter(None, (self.keystore_location, self.truststore_location)):
            try:
                there = os.stat(file)  # follows symlinks: cert-manager replaces their targets
                found.append((there.st_mtime_ns, there.st_size, there.st_ino))
            except OSError:
                found.append(None)
        return tuple(found)


@dataclass(frozen=True)
class Certificate:
    """The data of a listener's certificate."""

    subject: str
    """The subject in the format of RFC 4514."""
    names: frozenset[str]
    serial: str
    expires: datetime

    def days_left(self, wall_ms: int) -> float:
        """Returns the number of days until the certificate expires; negative if it has expired."""
        return (self.expires.timestamp() - wall_ms / 1000) / 86_400


@dataclass(frozen=True)
class ListenerTls:
    """The server context of a listener, the listener's certificate, and the client context with
    which changed certificates are tested."""

    context: ssl.SSLContext
    certificate: Certificate
    as_client: ssl.SSLContext | None
    """The client context with which another broker would connect to this listener, if it had the
    same key and truststore files. None without a truststore."""


def listener_tls(settings: TlsSettings) -> ListenerTls:
    """Reads the files, creates a context, and tests it with a handshake. Raises TlsError."""
    key, chain = _own(settings)
    trusted = _trusted(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _restrict(context, settings)
    _load_own(context, key, chain, settings)
    try:
        context.verify_mode = _CLIENT_AUTH[settings.client_auth.lower()]
    except KeyError:
        raise TlsError(
            f"ssl.client.auth={settings.client_auth}: use one of {', '.join(_CLIENT_AUTH)}"
        ) from None
    as_client = None
    if trusted:
        _trust(context, trusted)
        as_client = _client_context(settings, key, chain, trusted, checks_names=False)
    elif context.verify_mode != ssl.CERT_NONE:
        # Java would use its built-in CAs here, and so accept any client with a certificate of one
        # of them.
        raise TlsError(
            f"ssl.client.auth={settings.client_auth} needs the CAs of the clients: set"
            " ssl.truststore.location or ssl.truststore.certificates"
        )
    _try(context)
    return ListenerTls(context, certificate_of(chain), as_client)


def check_change(
    old: ListenerTls,
    new: ListenerTls,
    *,
    other_subject: bool = False,
    other_names: bool = False,
    is_inter_broker: bool = False,
) -> None:
    """Raises TlsError if ``new`` must not replace ``old`` on a running broker.

    ``other_subject`` and ``other_names`` are the settings ``ssl.allow.dn.changes`` and
    ``ssl.allow.san.changes``.
    """
    if old.as_client is None and new.as_client is not None:
        raise TlsError("a truststore can't be added while the broker runs: restart the broker")
    was, becomes = old.certificate, new.certificate
    if was.subject != becomes.subject and not other_subject:
        raise TlsError(
            f"the subject of the certificate changes from {was.subject} to"
            f" {becomes.subject}: set ssl.allow.dn.changes=true to allow it"
        )
    missing = was.names - becomes.names
    if missing and not other_names:
        raise TlsError(
            f"the new certificate lacks the names {', '.join(sorted(missing))}: set"
            " ssl.allow.san.changes=true to allow it"
        )
    if is_inter_broker:
        # During a rolling change some brokers have the old certificate, others the new one.
        for server, client, which in ((old, new, "new"), (new, old, "old")):
            if client.as_client is not None:
                _shake_hands(
                    server.context, client.as_client, f"a broker with the {which} certificate"
                )


def peer_context(settings: TlsSettings, *, checks_names: bool) -> ssl.SSLContext:
    """Returns the context for connections to other brokers, whose listeners have the same settings.
    The context presents this broker's certificate if the other broker requests one. Reads files;
    raises TlsError."""
    key, chain = _own(settings)
    return _client_context(settings, key, chain, _trusted(settings), checks_names=checks_names)


def _client_context(
    settings: TlsSettings, key: str, chain: str, trusted: str, *, checks_names: bool
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_names
    _restrict(context, settings)
    _load_own(context, key, chain, settings)
    if trusted:
        _trust(context, trusted)
    else:
        context.load_default_certs()
    return context


def certificate_of(chain: str) -> Certificate:
    first = x509.load_pem_x509_certificates(chain.encode())[0]
    try:
        found = first.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = frozenset(str(name.value) for name in found.value)
    except x509.ExtensionNotFound:
        names = frozenset()
    return Certificate(
        first.subject.rfc4514_string(),
        names,
        f"{first.serial_number:x}",
        first.not_valid_after_utc.astimezone(UTC),
    )


def _own(settings: TlsSettings) -> tuple[str, str]:
    """Returns the listener's private key and its certificate chain in PEM format."""
    inline = settings.keystore_key, settings.keystore_certificate_chain
    place = settings.keystore_location
    if any(inline):
        if place:
            raise TlsError(
                "ssl.keystore.location and ssl.keystore.key are both set: remove one of them"
            )
        if not all(inline):
            raise TlsError(
                "only one of ssl.keystore.key and ssl.keystore.certificate.chain is set:"
                " set both or neither"
            )
        key, chain = pem(inline[0], "PRIVATE KEY"), pem(inline[1], "CERTIFICATE")
        if not key or not chain:
            raise TlsError(
                "ssl.keystore.key and ssl.keystore.certificate.chain must be PEM, with BEGIN"
                " PRIVATE KEY and BEGIN CERTIFICATE"
            )
        _refuse_password("ssl.keystore.password", settings.keystore_password, "ssl.keystore.key")
        return key, chain
    if not place:
        raise TlsError(
            "TLS needs a certificate with its key: set ssl.keystore.location, or"
            " ssl.keystore.key with ssl.keystore.certificate.chain"
        )
    try:
        return key_and_certificates_in(_read(place), place, settings.keystore_password or None)
    except StoreError as error:
        raise TlsError(str(error)) from None


def _trusted(settings: TlsSettings) -> str:
    """Returns the trusted certificates in PEM format; "" if no truststore is set."""
    inline, place = settings.truststore_certificates, settings.truststore_location
    if inline and place:
        raise TlsError(
            "ssl.truststore.location and ssl.truststore.certificates are both set:"
            " remove one of them"
        )
    if inline:
        found = pem(inline, "CERTIFICATE")
        if not found:
            raise TlsError("ssl.truststore.certificates has no certificate in PEM")
        _refuse_password(
            "ssl.truststore.password", settings.truststore_password, "ssl.truststore.certificates"
        )
        return found
    if not place:
        if settings.truststore_password:
            raise TlsError(
                "ssl.truststore.password is set without ssl.truststore.location:"
                " set both or neither"
            )
        return ""
    try:
        return certificates_in(_read(place), place, settings.truststore_password or None)
    except StoreError as error:
        raise TlsError(str(error)) from None


def _refuse_password(setting: str, password: str, other: str) -> None:
    try:
        refuse_password(setting, password, other)
    except StoreError as error:
        raise TlsError(str(error)) from None


def _read(place: str) -> bytes:
    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise TlsError(f"{place} can't be read: {error.strerror}") from None


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Restricts a context to the allowed TLS versions and ciphers."""
    wanted = {version.strip() for version in settings.enabled_protocols}
    unknown = wanted - _VERSIONS.keys()
    if unknown or not wanted:
        raise TlsError(
            f"ssl.enabled.protocols={','.join(settings.enabled_protocols)}: use"
            f" {' or '.join(_VERSIONS)}"
        )
    versions = sorted(_VERSIONS[each] for each in wanted)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if settings.cipher_suites:
        _restrict_ciphers(context, settings.cipher_suites, has_13="TLSv1.3" in wanted)


def _restrict_ciphers(context: ssl.SSLContext, suites: Sequence[str], *, has_13: bool) -> None:
    try:
        context.set_ciphers(openssl_ciphers(suites, has_13=has_13))
    except (ssl.SSLError, ValueError) as error:
        reason = (
            str(error) if type(error) is ValueError else "OpenSSL supports none of these suites"
        )
        raise TlsError(f"ssl.cipher.suites={','.join(suites)}: {reason}") from None


def _load_own(context: ssl.SSLContext, key: str, chain: str, settings: TlsSettings) -> None:
    password = settings.key_password or settings.keystore_password
    try:
        with _file_of(f"{key}\n{chain}\n") as name:
            context.load_cert_chain(name, password=password)
    except (ssl.SSLError, ValueError) as error:
        said = getattr(error, "reason", None) or str(error)
        raise TlsError(
            "the private key can't be used with its certificate: does the certificate"
            " match the key, and is ssl.key.password right?"
            f" ({said.replace('_', ' ').lower()})"
        ) from None
    except OSError as error:  # such as a full disk
        raise TlsError(f"OpenSSL can't read the private key: {error}") from None


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """Yields the path of a temporary file that contains ``text`` and that only this process can
    read: OpenSSL loads keys only from files. If the system supports it, the file exists only in
    memory, so that a killed process leaves no key on the disk."""
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):
        with os.fdopen(os.memfd_create("muster-key"), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with NamedTemporaryFile("w", prefix="muster-", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name


def _trust(context: ssl.SSLContext, trusted: str) -> None:
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise TlsError(f"the certificates of the truststore can't be read: {error}") from None


def _try(context: ssl.SSLContext) -> None:
    """Checks a TLS context: completes a handshake in memory between the context and a client that
    does not verify certificates. Raises TlsError."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    _shake_hands(context, client, "a client", may_lack_certificate=True)


def _shake_hands(
    server_context: ssl.SSLContext,
    client_context: ssl.SSLContext,
    who: str,
    *,
    may_lack_certificate: bool = False,
) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                if may_lack_certificate and "peer_did_not_return" in (error.reason or "").lower():
                    # The server requires a certificate of the client; all steps before were
                    # successful.
                    return
                said = (error.reason or str(error)).replace("_", " ").lower()
                raise TlsError(f"{who} could not connect: {said}") from None
