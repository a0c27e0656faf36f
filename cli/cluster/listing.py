"""`muster cluster` without a subcommand: the brokers of any Kafka cluster, their log sizes and
their APIs."""

from __future__ import annotations

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import list_groups
from cli.errors import check
from client.connection import Value
from protocol.messages import BY_KEY

_BROKERS = ["broker", "address", "rack", "controller", "leads", "log_bytes"]
_APIS = ["broker", "api", "key", "from", "to", "ours"]


def show_apis(bootstrap: str, timeout_s: float, json: bool, wide: bool) -> None:
    """Prints each broker's APIs with the versions that the broker and this command support."""
    _, _, connections = _reached(bootstrap, timeout_s)
    rows = [row for node, found in connections.items() for row in _apis(node, found)]
    output.show(rows, _APIS, "No brokers", json, wide=wide)


def show_brokers(bootstrap: str, timeout_s: float, json: bool, wide: bool) -> None:
    """Prints the brokers with their log sizes, and the totals of the cluster."""
    reached, answer, connections = _reached(bootstrap, timeout_s)
    partitions = [p for topic in answer["topics"] for p in topic["partitions"]]
    brokers = [
        {
            "broker": broker["node_id"],
            "address": connections[broker["node_id"]].address,
            "rack": broker["rack"],
            "controller": broker["node_id"] == answer["controller_id"],
            "leads": sum(p["leader_id"] == broker["node_id"] for p in partitions),
            "log_bytes": _log_bytes(connections[broker["node_id"]]),
        }
        for broker in answer["brokers"]
    ]
    view = {
        "cluster": answer["cluster_id"],
        "topics": len(answer["topics"]),
        "partitions": len(partitions),
        "without_leader": sum(p["leader_id"] < 0 for p in partitions),
        "under_replicated": sum(len(p["isr_nodes"]) < len(p["replica_nodes"]) for p in partitions),
        "groups": len(list_groups(reached)),
        "brokers": brokers,
    }
    if json:
        output.show_json(view)
        return
    nouns = ("topic", "partition", "group")
    counts = [output.counted(int(str(view[f"{noun}s"])), noun) for noun in nouns]
    title = f"cluster {view['cluster'] or 'without an id'}  {'  '.join(counts)}"
    for trouble in ("without_leader", "under_replicated"):
        title += f"  {view[trouble]} {trouble.replace('_', ' ')}" if view[trouble] else ""
    output.show_table(brokers, _BROKERS, "No brokers", title, wide=wide)


def _reached(bootstrap: str, timeout_s: float) -> tuple[Cluster, Value, dict[int, Connection]]:
    """Returns the cluster, its Metadata response with brokers ordered by id, and the connection to
    each broker."""
    reached = Cluster(bootstrap, timeout_s=timeout_s)
    answer = reached.metadata(None)
    nodes = sorted(answer["brokers"], key=lambda broker: int(broker["node_id"]))
    connections = {
        broker["node_id"]: reached.connect(broker["host"], broker["port"])
        for broker in output.progress(nodes, "querying brokers")
    }
    return reached, {**answer, "brokers": nodes}, connections


def _log_bytes(connection: Connection) -> int | None:
    """Returns the total size of a broker's logs in bytes; None if the broker can't report it."""
    if not connection.supports("DescribeLogDirs", 1):
        return None
    answer = connection.call("DescribeLogDirs", {"topics": None})
    total = 0
    for folder in answer["results"]:
        check(f"log directory {folder['log_dir']}", folder)
        for topic in folder["topics"]:
            total += sum(p["partition_size"] for p in topic["partitions"])
    return total


def _apis(node: int, connection: Connection) -> list[output.Row]:
    rows: list[output.Row] = []
    for key, (least, most) in sorted(connection.ranges.items()):
        api = BY_KEY.get(key)
        ours = None if api is None else f"{api.versions[0]}-{api.versions[-1]}"
        rows.append(
            {
                "broker": node,
                "api": "unknown" if api is None else api.name,
                "key": key,
                "from": least,
                "to": most,
                "ours": ours,
            }
        )
    return rows
