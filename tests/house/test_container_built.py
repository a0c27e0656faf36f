"""Builds the container image with buildah, which needs no daemon, and runs it.

This takes minutes. The base image must be in the storage of buildah: `buildah pull
python:3.12-slim`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.absent import absent, program
from tests.waiting import until

pytestmark = pytest.mark.soak

ROOT = Path(__file__).resolve().parents[2]
BASE = "docker.io/library/python:3.12-slim"
IMAGE = "localhost/muster-under-test"


def buildah(*words: str, within_s: float = 600) -> str:
    command = [program("buildah", "buildah"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=within_s)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """Builds the image as docs/operate/operating.md says. Yields the name of a container with this
    image."""
    if not buildah("images", "--filter", f"reference={BASE}", "--quiet"):
        absent(f"this test builds on {BASE}: buildah pull {BASE}")
    in_place = ("--isolation", "chroot", "--network", "host", "--pull=never")
    buildah("build", *in_place, "-f", "deploy/Containerfile", "-t", IMAGE, str(ROOT))
    name = buildah("from", "--pull-never", IMAGE)
    yield name
    buildah("rm", name)
    buildah("rmi", IMAGE)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_container_image_runs_a_broker_without_root(container: str, tmp_path: Path) -> None:
    run = [program("buildah", "buildah"), "run", "--isolation", "chroot", "--network", "host"]
    address = f"127.0.0.1:{free_port()}"
    listen = ["--listen", address, "--http", f"127.0.0.1:{free_port()}"]
    serve = ["muster", "serve", "--data", "/var/lib/muster", *listen]
    log = tmp_path / "log"
    with log.open("w") as out:
        broker = subprocess.Popen([*run, container, "--", *serve], stdout=out, stderr=out)
    try:
        until("the broker listens", lambda: "accepts connections" in log.read_text(), 60)
        inside = (
            f"id -u; muster topics create orders --bootstrap {address};"
            f" muster topics list --bootstrap {address}; touch /opt/muster/mine || echo refused"
        )
        said = buildah("run", *run[2:], container, "--", "sh", "-c", inside).split("\n")
        assert said[:2] == ["10001", "Created topic orders"]
        assert said[-1] == "refused", "the broker's user can't write the program files"
        pids = [
            int(each.name)
            for each in Path("/proc").iterdir()
            if each.name.isdigit() and is_serving(each, address)
        ]
        assert [Path(f"/proc/{pid}").stat().st_uid for pid in pids] == [10001]
        os.kill(pids[0], signal.SIGTERM)
        assert broker.wait(30) == 0, log.read_text()
    finally:
        if broker.poll() is None:
            broker.kill()
            broker.wait()


def is_serving(process: Path, address: str) -> bool:
    """Returns True if a process in /proc is the broker itself. The chroot process that started the
    broker does not count."""
    try:
        words = (process / "cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return (
        words[1:3] == ["/opt/muster/bin/muster", "serve"]
        and address in words
        and ("chroot-exec" not in words[0])
    )
