"""Object storage for tests: an S3 server in a child process on a free port."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyarrow import fs

BUCKET = "tables"
_SERVE = """
import sys, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@contextmanager
def object_storage() -> Iterator[dict[str, str]]:
    """Yields environment variables for access to an S3 server with one bucket. The server ends when
    its stdin is closed."""
    quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", _SERVE], text=True, **quiet) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        while "127.0.0.1 " not in (line := server.stdout.readline()):
            assert line, "the server ended"
        host, port = line.split()
        endpoint = f"{host}:{port}"
        fs.S3FileSystem(
            access_key="id", secret_key="secret", region="eu-west-1", scheme="http",
            endpoint_override=endpoint, allow_bucket_creation=True,
        ).create_dir(BUCKET)  # fmt: skip
        yield {
            "AWS_ENDPOINT_URL": f"http://{endpoint}",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-west-1",
        }
        server.stdin.close()
        server.wait(timeout=20)


def without_aws() -> dict[str, str]:
    """Returns the environment of this process without the variables that configure object
    storage."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
