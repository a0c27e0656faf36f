"""Muster's HTTP API for commands: finds the address, checks the cluster, and formats errors. The
brokers of --bootstrap return the address of the API. The server at that address must belong to the
same cluster: two clusters often have groups with the same name, and a result from the wrong cluster
would mislead."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, unquote, urlencode

from cli.client.at_once import all_at_once
from cli.client.cluster import Cluster, Connection, is_port
from cli.client.configs import BROKER_RESOURCE, Entry, Resource, describe
from cli.client.http_calls import HTTPS, HttpEndpoint, host_and_port, is_address, is_loopback
from cli.clock import Deadline
from cli.errors import REFUSED, UNREACHABLE, CommandError
from cli.names import with_plain_hosts
from cli.patterns import nearest
from client.errors import ClientError
from client.security import PLAINTEXT, Security

Value = dict[str, Any]

EACH_S = 5.0
"""The timeout in seconds for each broker if a command uses the HTTP servers of many brokers. The
request for the address of an HTTP server and the request to this server each have this timeout."""
_LISTENER = "http.listener"
_ADVERTISED = "http.advertised.listener"
_PROTOCOL = "http.security.protocol"
_WITH_ANY_KAFKA = {
    "groups why": "`muster groups describe GROUP` works with any Kafka broker",
    "groups watch": "`muster groups list` and `muster groups describe GROUP` work with any Kafka"
    " broker",
    "share describe": "`kafka-share-groups --describe` works with any Kafka broker",
    "transactions why": "`muster transactions describe ID` works with any Kafka broker",
    "offsets expiring": "`muster offsets get GROUP` works with any Kafka broker",
    "top": "`muster cluster` and `muster groups lag` work with any Kafka broker",
}
"""By command that needs a Muster broker: advice that names a command with similar output for any
Kafka broker."""


_HINT = re.compile(r"/api/(groups|topics|transactions) lists all \w+")
"""Matches the part of an HTTP API error that advises a path, such as `/api/groups lists all
groups`. `_as_commands` replaces it by a command of `muster`."""


_NAMED_BY = {"groups": "group", "topics": "topic", "transactions": "id"}
"""By list of the HTTP API, such as ``groups``: the field with the name of a listed object."""


def _as_commands(hint: re.Match[str]) -> str:
    return f"`muster {hint[1]} list` shows all {hint[1]}"


def group_path(group_id: str, *more: str) -> str:
    """Returns the API's path for a group. Special characters in the group id are
    percent-encoded."""
    return "/".join(["/api/groups", quote(group_id, safe=""), *more])


# ---------------------------------------------------------------------------------- finding it


def api_at(
    bootstrap: str, what: str, http: str | None, timeout_s: float, group: str | None = None
) -> Api:
    """Returns the HTTP API as `api_of` does, for a command that sends no other requests to the
    cluster."""
    if http is not None:
        host_and_port(http)
    with closing(Cluster(bootstrap, timeout_s=timeout_s)) as cluster:
        return api_of(cluster, what, http, timeout_s, group)


def api_of(
    cluster: Cluster, what: str, http: str | None, timeout_s: float, group: str | None = None
) -> Api:
    """Returns the HTTP API of a cluster for the command ``what``. Raises CommandError if no API is
    found.

    The address of the API is ``http``, the value of --http, if it is set. Otherwise it is the
    address of the coordinator of ``group`` or, without a group, of the first broker that serves
    HTTP. The cluster's timeout limits this function and the requests to the API. `Api.renew`
    restarts the timeout with ``timeout_s``.
    """
    found = find_api(cluster, what, http, timeout_s, group)
    if found is None:
        instead = _WITH_ANY_KAFKA.get(what)
        raise CommandError(
            f"the broker at {cluster.any.address} is not a Muster broker, and `muster {what}` needs"
            " the history that only Muster keeps" + (f"; {instead}" if instead else ""),
            REFUSED,
        )
    return found


def find_api(
    cluster: Cluster, what: str, http: str | None, timeout_s: float, group: str | None = None
) -> Api | None:
    """Returns the HTTP API of a cluster; None if its brokers are not Muster brokers."""
    answer = cluster.metadata([], cluster.deadline.left_s())
    try:
        address = _advertised_address(cluster, answer["brokers"], what, group)
    except CommandError:
        if http is None:
            raise
        address = http
    if address is None:
        return None
    where = address
    if http is not None:
        where = HTTPS + http if address.startswith(HTTPS) and "://" not in http else http
    cluster_id = answer.get("cluster_id")
    api = Api(where, what, timeout_s, cluster_id, cluster.any.address, cluster.security)
    api.check(cluster.deadline)
    return api


def _advertised_address(
    cluster: Cluster, brokers: Sequence[Value], what: str, group: str | None
) -> str | None:
    """Returns the HTTP address that the brokers advertise; None if no broker is a Muster broker."""
    if len(brokers) == 1:
        # The address of --bootstrap may be the only address that this machine can reach.
        return _http_address(cluster.deadline, cluster.any, brokers[0]["node_id"], what)
    trouble: CommandError | None = None
    for broker in brokers if group is None else [cluster.coordinator_node(group)]:
        try:
            reached = cluster.connect(broker["host"], broker["port"])
            address = _http_address(cluster.deadline, reached, broker["node_id"], what)
            if address is not None:
                return address
        except CommandError as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return None


def every_api(cluster: Cluster, what: str) -> dict[int, Api | str]:
    """Returns the HTTP API of each broker by broker id, or the reason why it can't be reached. The
    brokers are queried in parallel, each with the timeout EACH_S, so that a stuck broker does not
    delay the others."""
    answer = cluster.metadata([], cluster.deadline.left_s())
    brokers, limit_s = answer["brokers"], min(cluster.timeout_s, EACH_S)

    def reach(broker: Value) -> Api | str:
        try:
            deadline = Deadline(limit_s)
            if len(brokers) == 1:
                reached = cluster.any
            else:
                security = cluster.security
                place = broker["host"], broker["port"]
                reached = Connection(*place, cluster.client_id, limit_s, security)
            with nullcontext() if reached is cluster.any else closing(reached):
                address = _http_address(deadline, reached, broker["node_id"], what)
            if address is None:
                return f"the broker at {reached.address} is not a Muster broker"
            cluster_id, security = answer.get("cluster_id"), cluster.security
            api = Api(address, what, limit_s, cluster_id, reached.address, security)
            api.check(deadline)
        except CommandError as error:
            return error.why  # without the advice on --http, which these commands do not have
        return api

    nodes = [each["node_id"] for each in brokers]
    return dict(zip(nodes, all_at_once(reach, brokers), strict=True))


def _http_address(deadline: Deadline, broker: Connection, node_id: int, what: str) -> str | None:
    where = Resource(BROKER_RESOURCE, str(node_id))
    try:
        settings = describe(broker, where, [_LISTENER, _ADVERTISED, _PROTOCOL], deadline.left_s())
    except CommandError as error:
        if error.exit_code != REFUSED:
            raise
        raise CommandError(
            f"{what} needs Muster's HTTP API, and the broker at {broker.address} does not advertise"
            f" the API's address ({error})",
            REFUSED,
            "; name the address with --http HOST:PORT",
        ) from None
    if _LISTENER not in settings:
        return None
    protocol = settings[_PROTOCOL]["value"] if _PROTOCOL in settings else None
    address = _address(broker, settings, what)
    return HTTPS + address if protocol == "SSL" else address


def _address(broker: Connection, settings: Mapping[str, Entry], what: str) -> str:
    """Returns HOST:PORT of a broker's HTTP listener, as seen from this machine. Raises CommandError
    with advice if this machine can't reach it."""
    wanted = settings[_LISTENER]["value"]
    address = settings[_ADVERTISED]["value"] if _ADVERTISED in settings else wanted
    there = f"{what} needs Muster's HTTP API, and the broker at {broker.address}"
    host, _, port = address.rpartition(":")
    if not is_port(port):
        why = (
            f"address {wanted} was in use when the broker started"
            if wanted != address
            else f"{_LISTENER} is {address}"
        )
        raise CommandError(
            f"{there} does not serve the API ({why}); start the broker with `muster serve --http"
            " HOST:PORT`",
            UNREACHABLE,
        )
    host = host.strip("[]")
    if not host or (is_address(host) and ip_address(host).is_unspecified):
        host = broker.host
    elif is_loopback(host) and not broker.is_here:
        raise CommandError(
            f"{there} serves the API on {address}, which only the broker's own machine can reach;"
            f" connect with `ssh -L {port}:{address} {broker.host}` and --http 127.0.0.1:{port}, or"
            " open the listener as docs/operate/security.md describes (http.listener,"
            " http.authentication, http.security.protocol)",
            UNREACHABLE,
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# ----------------------------------------------------------------------------------- asking it


class Api:
    """The HTTP API of one Muster broker in the cluster ``cluster_id`` at ``bootstrap``. Errors name
    the command ``what``. The cluster id is checked before the first request and after a failed
    request, because another server may have taken the address."""

    def __init__(
        self,
        address: str,
        what: str,
        timeout_s: float,
        cluster_id: str | None,
        bootstrap: str,
        security: Security = PLAINTEXT,
    ) -> None:
        """``security`` contains the user and the certificate, for Kafka's listeners and for this
        API."""
        self._endpoint = HttpEndpoint(address, security)
        self.address = address
        self.what = what
        self.cluster_id = cluster_id
        self.broker: Value = {}
        """The response of /api/broker at the last check of the broker. Empty if the broker must be
        checked before the next request."""
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._deadline = Deadline(timeout_s)

    def check(self, deadline: Deadline) -> None:
        """Raises CommandError if the server belongs to another cluster or is not a Muster
        broker."""
        broker = self._json("/api/broker", {}, deadline)
        found = broker.get("cluster")
        if found != self.cluster_id:
            raise CommandError(
                f"the HTTP API at {self.address} belongs to cluster {found}, and the broker at"
                f" {self._bootstrap} to cluster {self.cluster_id}: choose the same cluster with"
                " --bootstrap and --http",
                REFUSED,
            )
        self.broker = broker
        self._deadline = deadline

    def renew(self, timeout_s: float | None = None) -> None:
        """Restarts the timeout for later requests. ``timeout_s`` replaces the usual number of
        seconds."""
        self._deadline = Deadline(self._timeout_s if timeout_s is None else timeout_s)

    def get(self, path: str, **query: Any) -> Any:
        """Returns the JSON at a path. Raises CommandError for an error response, or if the server
        belongs to another cluster."""
        self._make_sure()
        return with_plain_hosts(self._json(path, query, self._deadline))

    def text(self, path: str) -> str:
        """Returns the text at a path such as /metrics."""
        self._make_sure()
        status, body = self._ask(path, {}, self._deadline)
        if status in (401, 403):
            may_not = f"not authorized to read {path}: the user needs DESCRIBE on the cluster"
            raise CommandError(may_not + self._endpoint.advice(status), REFUSED)
        if status != 200:
            raise self._no_muster(status)
        return body.decode(errors="replace")

    def _make_sure(self) -> None:
        if not self.broker:
            self.check(self._deadline)

    def _json(self, path: str, query: Value, deadline: Deadline) -> Value:
        status, body = self._ask(path, query, deadline)
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if status == 200 and isinstance(value, dict):
            return value
        if isinstance(value, dict) and isinstance(value.get("error"), str):
            sentence = value["error"] + self._endpoint.advice(status)
            raise self._refused(sentence, path, query, deadline)
        raise self._no_muster(status)

    def _refused(self, sentence: str, path: str, query: Value, deadline: Deadline) -> CommandError:
        """Returns the error for a rejected request. Its text suggests a similar existing name."""
        text = _HINT.sub(_as_commands, sentence)
        hint = _HINT.search(sentence)
        if hint is not None:
            nouns = hint[1]
            name = query.get(nouns.removesuffix("s")) or unquote(path.split("/")[3])
            rows = self._json(f"/api/{nouns}", {}, deadline)[nouns]
            meant = nearest([name], [row[_NAMED_BY[nouns]] for row in rows])
            text += f"; did you mean {meant}?" if meant else ""
        return CommandError(text, REFUSED)

    def _no_muster(self, status: int) -> CommandError:
        return CommandError(
            f"{self.what} needs Muster's HTTP API, but the server at {self.address} is not Muster"
            f" (status {status})",
            UNREACHABLE,
        )

    def _ask(self, path: str, query: Value, deadline: Deadline) -> tuple[int, bytes]:
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        try:
            return self._endpoint.get(target, deadline)
        except ClientError as error:
            raise CommandError(
                f"{self.what} needs Muster's HTTP API: {error}", UNREACHABLE
            ) from None
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            self.broker = {}
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if isinstance(error, TimeoutError):
                reason = f"no response within {deadline.seconds:g} s"
            raise CommandError(
                f"{self.what} needs Muster's HTTP API, but no server answers at {self.address}"
                f" ({reason})",
                UNREACHABLE,
                "; name the API's address with --http HOST:PORT, as in `muster serve --http`",
            ) from error
