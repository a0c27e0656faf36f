"""Measures the cost of TLS, compared with Apache Kafka 4.3.1, and the effect of many handshakes.

    .venv/bin/python -m bench.tls [--megabytes 100] [--rounds 3] [--storm 1000]

The output has the lines of `bench.throughput`, measured over a listener with TLS 1.3; both brokers
use the same certificate (ECDSA P-256). Then it has the latency of a client's heartbeats over a
plain listener of each broker (median, p99 and maximum): without other load, and while another
process makes ``--storm`` TLS connections.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.throughput import FullKafka, Over, all_work, print_table
from tests.brokers import Broker, free_port
from tests.certificates import Authority
from tests.raw_connection import RawConnection

QUIET_S = 2.0
STORM_S_MAX = 60.0
AT_ONCE = 100


class TlsMuster(Broker):
    """A Muster broker with a plaintext listener and a TLS listener."""

    def __init__(self, data: Path, settings: dict[str, str]) -> None:
        super().__init__(data, settings)
        self.port, self.tls_port = free_port(), free_port()
        self.settings["listeners"] = f"PLAINTEXT://{self.bootstrap},SSL://127.0.0.1:{self.tls_port}"

    def _command(self) -> list[str]:
        command = super()._command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]


def beats(port: int, until: subprocess.Popen[bytes] | None) -> list[float]:
    """Returns the latencies of heartbeats in ms. The heartbeats have an unknown member id. Measures
    for `QUIET_S` seconds or, if ``until`` is a process, until this process exits."""
    waited = []
    end = time.monotonic() + (QUIET_S if until is None else STORM_S_MAX)
    with RawConnection(port) as connection:
        while time.monotonic() < end and (until is None or until.poll() is None):
            began = time.perf_counter()
            connection.call("Heartbeat", 0, group_id="g", generation_id=1, member_id="m")
            waited.append((time.perf_counter() - began) * 1000)
            time.sleep(0.002)
    return waited


def said(waited: list[float]) -> str:
    """Returns the median, the p99 and the maximum of the latencies in ms, as text."""
    ordered = sorted(waited)
    p99 = ordered[int(len(ordered) * 0.99)]
    return f"{statistics.median(ordered):6.2f} {p99:6.2f} {ordered[-1]:6.2f} ms"


async def storm(port: int, trusted: str, connections: int) -> None:
    """Opens ``connections`` connections, at most `AT_ONCE` at the same time, and keeps them
    open."""
    context = ssl.create_default_context(cafile=trusted)
    free = asyncio.Semaphore(AT_ONCE)

    async def one() -> asyncio.StreamWriter:
        async with free:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            return writer

    began = time.perf_counter()
    kept = await asyncio.gather(*[one() for _ in range(connections)])
    print(f"  {len(kept)} handshakes in {time.perf_counter() - began:.2f} s", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--megabytes", type=int, default=100, help="the size of the records of each line"
    )
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--only", default="", help="only lines that contain all these words: produce,100,lz4"
    )
    options.add_argument(
        "--storm",
        type=int,
        default=1000,
        help="the number of TLS handshakes; 0 leaves the heartbeats out",
    )
    options.add_argument("--against", nargs=2, metavar=("PORT", "CA"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.against:
        asyncio.run(storm(int(given.against[0]), given.against[1], given.storm))
        return
    words = [word for word in given.only.split(",") if word]
    chosen = [w for w in all_work() if all(word in str(w).split() for word in words)]
    with tempfile.TemporaryDirectory(prefix="tls-") as folder:
        authority = Authority(Path(folder))
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("broker").pem),
        }
        ours = TlsMuster(Path(folder, "muster"), settings)
        kafka = FullKafka(Path(folder, "kafka"), settings, listeners=["SSL"])
        properties = (
            "security.protocol=SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={authority.certificate}",
        )
        try:
            for broker in (ours, kafka):
                broker.start()
            ports = {
                "muster": ours.tls_port,
                "kafka": int(kafka.listeners["SSL"].rpartition(":")[2]),
            }
            over = {name: Over(f"127.0.0.1:{port}", properties) for name, port in ports.items()}
            brokers: dict[str, Broker] = {"muster": ours, "kafka": kafka}
            if chosen and given.rounds:
                print_table(brokers, chosen, given.megabytes << 20, given.rounds, over)
            for name, broker in brokers.items() if given.storm else ():
                print(
                    f"{name}, heartbeats without other load: {said(beats(broker.port, None))}",
                    flush=True,
                )
                asked = ["--against", str(ports[name]), str(authority.certificate)]
                command = [sys.executable, "-m", "bench.tls", "--storm", str(given.storm), *asked]
                process = subprocess.Popen(command)
                felt = beats(broker.port, process)
                process.kill()
                process.wait()
                print(f"{name}, heartbeats during handshakes:  {said(felt)}", flush=True)
        finally:
            for broker in (ours, kafka):
                broker.kill()


if __name__ == "__main__":
    main()
