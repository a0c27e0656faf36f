"""Variables that Kubernetes sets in every pod, and Docker for linked containers, for each service.

A service called ``muster`` gives ``MUSTER_PORT=tcp://10.0.0.1:9092``, ``MUSTER_SERVICE_HOST`` and
more; one called ``muster-http`` the same after ``MUSTER_HTTP_``. They begin as settings do and are
none. Source: Kubernetes, "Services: environment variables".
"""

from __future__ import annotations

import re

_ONE_PORT = r"MUSTER_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)"
_SHAPES = [
    (re.compile(name), re.compile(value))
    for name, value in (
        (r"MUSTER_(\w+_)?SERVICE_HOST", r".*"),
        (r"MUSTER_(\w+_)?SERVICE_PORT(_\w+)?", r"\d+"),
        (r"MUSTER_(\w+_)?PORT", r"(tcp|udp|sctp)://.*"),
        (_ONE_PORT, r"(tcp|udp|sctp)://.*"),
        (_ONE_PORT + "_PROTO", r"tcp|udp|sctp"),
        (_ONE_PORT + "_PORT", r"\d+"),
        (_ONE_PORT + "_ADDR", r".*"),
    )
]
"""What their names and their values look like."""


def is_of_a_service(variable: str, text: str) -> bool:
    """Whether a variable of the environment tells where a service is.

    ``MUSTER_PORT=9092`` is not such a one: a person wrote it and means a setting.
    """
    return any(name.fullmatch(variable) and value.fullmatch(text) for name, value in _SHAPES)
