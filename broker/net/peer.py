"""The address of a peer in Kafka's form, the client id for log lines, the descriptor of its socket,
and a check whether the peer has disconnected."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket

_CLIENT_ID_SHOWN = 120
_TCP_ESTABLISHED = 1


def java_address(address: str) -> str:
    """Returns ``address`` in the form of Java's ``InetAddress.toString`` without a host name, such
    as ``/127.0.0.1``. An IPv6 address is written uncompressed and without leading zeros. An
    IPv4-mapped IPv6 address is written as IPv4."""
    plain, _, scope = address.partition("%")
    try:
        parsed = ipaddress.ip_address(plain)
    except ValueError:
        return f"/{address}"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return f"/{parsed.ipv4_mapped}"
        groups = ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
        return f"/{groups}%{scope}" if scope else f"/{groups}"
    return f"/{parsed}"


def network_of(host: str) -> str:
    """Returns the address under which limits count a host: for IPv6 its /64 network, otherwise the
    address itself."""
    groups = host.split(":")
    return ":".join(groups[:4]) if len(groups) > 4 else host


def display_client_id(client_id: str) -> str:
    """Returns ``client_id`` for a log line: at most 120 characters, with control characters
    escaped."""
    shown = client_id[:_CLIENT_ID_SHOWN]
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return escaped if len(client_id) <= _CLIENT_ID_SHOWN else escaped + "..."


def plain_descriptor(transport: asyncio.Transport) -> int:
    """Returns the descriptor of the peer's socket if the transport sends bytes unchanged; -1 with
    TLS, and for transports without a socket."""
    socket_ = transport.get_extra_info("socket")
    if socket_ is None or transport.get_extra_info("ssl_object") is not None:
        return -1
    return int(socket_.fileno())


def peer_gone(transport: asyncio.Transport) -> bool:
    """Returns True if the kernel reports that the TCP connection is no longer ESTABLISHED.

    Reads no data. Returns False on platforms that do not report the state. Source: Linux tcp(7),
    the first byte of TCP_INFO.
    """
    ours = transport.get_extra_info("socket")
    if ours is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        copy = socket.socket(fileno=os.dup(ours.fileno()))
    except OSError:
        return True
    with copy:
        try:
            return copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _TCP_ESTABLISHED
        except OSError:
            return False
