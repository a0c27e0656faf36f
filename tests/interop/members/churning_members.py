"""Members of a group (librdkafka) that crash, restart and leave according to a plan. Prints one
line at the end.

Each member is a process that is forked before any consumer exists, so that its start is cheap. The
plan is a list of [seconds, member, "start", "kill" or "stop"]. The printed line contains the share
of time in which live members owned partitions.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from confluent_kafka import Consumer

settings = json.loads(sys.argv[1])
read_end, write_end = os.pipe()
os.set_blocking(read_end, False)
pids: dict[str, int] = {}
owned: dict[str, set[int]] = {}


def say(pid: int, partitions: object) -> None:
    os.write(write_end, json.dumps([pid, partitions]).encode() + b"\n")


def member(name: str) -> None:
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
    options = {
        "bootstrap.servers": settings["bootstrap"],
        "group.id": settings["group"],
        "client.id": name,
        "enable.auto.commit": False,
        "session.timeout.ms": settings["session_ms"],
        "heartbeat.interval.ms": settings["heartbeat_ms"],
        "max.poll.interval.ms": 300_000,
        "log_level": 0,
    }
    if name.startswith("static"):
        options["group.instance.id"] = name
    pid = os.getpid()
    consumer = Consumer(options)
    consumer.subscribe(
        [settings["topic"]],
        on_assign=lambda _, got: say(pid, [each.partition for each in got]),
        on_revoke=lambda _, lost: say(pid, []),
        on_lost=lambda _, lost: say(pid, []),
    )
    while not ends:
        consumer.poll(0.1)
    consumer.close()


def start(name: str) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            member(name)
        finally:
            os._exit(0)
    pids[name] = pid


def end(name: str, how: signal.Signals) -> None:
    pid = pids.pop(name)
    os.kill(pid, how)
    owned.pop(pid, None)
    if how is signal.SIGKILL:
        os.waitpid(pid, 0)


def run() -> float:
    began_s = at_s = time.monotonic()
    ends_s = began_s + settings["lasts_s"]
    plan = sorted((began_s + after_s, *rest) for after_s, *rest in settings["plan"])
    total, unread = 0.0, b""
    while at_s < ends_s:
        now_s = min(time.monotonic(), ends_s)
        total += (now_s - at_s) * len(set().union(*owned.values()))
        at_s = now_s
        while plan and plan[0][0] <= now_s:
            _, name, what = plan.pop(0)
            if what == "start":
                start(name)
            else:
                end(name, signal.SIGKILL if what == "kill" else signal.SIGTERM)
        until_s = min(ends_s, plan[0][0] if plan else ends_s)
        if select.select([read_end], [], [], max(0, until_s - time.monotonic()))[0]:
            *lines, unread = (unread + os.read(read_end, 65536)).split(b"\n")
            for pid, partitions in map(json.loads, lines):
                if pid in pids.values():
                    owned[pid] = set(partitions)
    return total / settings["partitions"] / settings["lasts_s"]


try:
    share = run()
    print(json.dumps({"event": "share", "share": share}), flush=True)
finally:
    for name in list(pids):
        end(name, signal.SIGKILL)
