"""Parses `listeners` and `advertised.listeners` as Kafka does."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

_ENTRY = re.compile(r"([^:/]+)://(?:\[([^\]]*)\]|([^:]*)):(-?\d+)")
_HOST_AND_PORT = re.compile(r"(?:\[([^\]]*)\]|([^:]*)):(\d+)")
_NAME = re.compile(r"(?:^|,)\s*([^:/,]+)://")
_HOST_NAME = re.compile(r"(?![\d.]*$)[0-9A-Za-z_]([-.]?[0-9A-Za-z_])*\.?")
_EVERYWHERE = ("", "0.0.0.0", "::", "0:0:0:0:0:0:0:0")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Endpoint(NamedTuple):
    """A listener. ``host`` is "" for all interfaces. An IPv6 address in ``host`` has no
    brackets."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def has_tls(self) -> bool:
        """True if connections to the listener use TLS."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """True if clients of the listener must log in by SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def is_everywhere(self) -> bool:
        """True if the host is an address of all interfaces, to which clients can't connect."""
        return self.host in _EVERYWHERE

    @property
    def address(self) -> str:
        """The address as HOST:PORT, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_host_and_port(text: str) -> tuple[str, int]:
    """Returns the host and port in ``HOST:PORT`` or ``[IPV6]:PORT``. Raises ValueError for any
    other text."""
    found = _HOST_AND_PORT.fullmatch(text.strip())
    if found is None or int(found[3]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    return found[1] if found[1] is not None else found[2], int(found[3])


def is_address(host: str) -> bool:
    """Returns True if ``host`` is an IP address, which may have a scope. Returns False for a host
    name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_name(host: str) -> bool:
    """Returns True if ``host`` can be a host name. 1.2.3 is not accepted, since some libraries
    parse it as 1.2.0.3."""
    return _HOST_NAME.fullmatch(host) is not None


def names_in(text: str) -> list[str]:
    """Returns the names of the listeners in a ``listeners`` value, even if the value has faults."""
    return [name.strip().upper() for name in _NAME.findall(text)]


def parse_listeners(text: str, protocols: str) -> list[Endpoint]:
    """Returns the listeners in a value of ``listeners`` or ``advertised.listeners``.

    ``protocols`` is the value of listener.security.protocol.map. Raises ValueError with all faults;
    Kafka refuses the same values.
    """
    known = _protocol_map(protocols)
    endpoints: list[Endpoint] = []
    problems: list[str] = []
    for entry in (part.strip() for part in text.split(",")):
        found = _ENTRY.fullmatch(entry)
        if found is None or not 0 <= int(found[4]) <= 65535:
            problems.append(
                f"{entry!r} is not NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092"
            )
            continue
        name = found[1].upper()
        if name not in known:
            problems.append(f"listener {name} is not in listener.security.protocol.map")
        elif known[name] not in PROTOCOLS:
            problems.append(
                f"listener {name}: security protocol {known[name]} is unknown; use one of"
                f" {', '.join(PROTOCOLS)}"
            )
        host = found[2] if found[2] is not None else found[3]
        endpoints.append(Endpoint(name, host, int(found[4]), known.get(name, "")))
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        problems.append("two listeners have the same name")
    ports = [endpoint.port for endpoint in endpoints if endpoint.port]
    if len(set(ports)) < len(ports):
        problems.append("two listeners have the same port")
    if problems:
        raise ValueError("; ".join(problems))
    return endpoints


def advertise(listening: list[Endpoint], advertised: list[Endpoint]) -> list[Endpoint]:
    """Returns the advertised address of each listener, in the order of ``listening``.

    A listener without an advertised address has its own address or, if it listens on all
    interfaces, the name of this host. Raises ValueError for an advertised 0.0.0.0, and for a name
    that is not in ``listening``.
    """
    by_name = {endpoint.name: endpoint for endpoint in advertised}
    for endpoint in advertised:
        if endpoint.is_everywhere and endpoint.host:
            raise ValueError(
                f"clients can't connect to {endpoint.host}: advertise an address of this host"
            )
        if endpoint.name not in {other.name for other in listening}:
            raise ValueError(f"advertised listener {endpoint.name} is not in listeners")
    endpoints = []
    for endpoint in listening:
        shown = by_name.get(endpoint.name, endpoint)
        host = socket.getfqdn() if shown.is_everywhere else shown.host
        endpoints.append(endpoint._replace(host=host, port=shown.port))
    return endpoints


def _protocol_map(text: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = part.partition(":")
        if not colon:
            raise ValueError(f"listener.security.protocol.map: {part!r} is not NAME:PROTOCOL")
        pairs[name.strip().upper()] = protocol.strip().upper()
    return pairs
