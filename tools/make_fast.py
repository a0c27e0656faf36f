"""Builds the compiled codecs (`protocol/compiled.py`) with the system's C compiler.

    make fast

The module uses only Python's stable ABI of 3.11, so one build serves every later Python. `CC` and
`CFLAGS` choose the compiler and more options, such as `CFLAGS="-fsanitize=address,undefined -g"`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PROTOCOL = Path(__file__).resolve().parent.parent / "protocol"
SOURCES = PROTOCOL / "c"
NAME = "_compiled.abi3.so"


def compiler() -> list[str] | None:
    """Returns the command of the C compiler, or None if the compiler or the headers of Python are
    missing."""
    words = shlex.split(os.environ.get("CC", "cc"))
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return words if shutil.which(words[0]) and headers.exists() else None


def digest() -> str:
    """Returns a digest of all C source files."""
    whole = hashlib.sha256()
    for path in sorted((*SOURCES.glob("*.c"), *SOURCES.glob("*.h"))):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def build(target: Path, flags: str = "") -> None:
    """Compiles the module to the file ``target``. Raises CalledProcessError if the compiler
    fails."""
    words = compiler()
    if words is None:
        raise SystemExit("make fast needs a C compiler and Python's headers (python3-dev)")
    shared = (
        ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    )
    command = [*words, "-O2", "-Wall", "-Wextra", "-fPIC", *shared, "-fvisibility=hidden"]
    command += [f'-DSOURCES="{digest()}"', f"-I{sysconfig.get_path('include')}"]
    partial = target.with_suffix(".partial")
    files = [str(SOURCES / "module.c"), "-o", str(partial)]
    subprocess.run([*command, *shlex.split(flags), *files], check=True)
    partial.replace(target)  # a running process keeps the file that it has mapped


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("target", type=Path, nargs="?", default=PROTOCOL / NAME)
    target = options.parse_args().target
    build(target, os.environ.get("CFLAGS", ""))
    print(target)


if __name__ == "__main__":
    main()
