"""Builds the wheel with compiled codecs from the pure Python wheel, for ``make_dist.py``."""

from __future__ import annotations

import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools import installed, make_fast

PURE = "py3-none-any"
PLACE = f"musterd/_rooms/protocol/{make_fast.NAME}"


def tag() -> str:
    """Returns the tag of the wheel: the stable ABI of Python 3.11 on this platform."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"


def make(pure: Path, folder: Path) -> Path:
    """Writes the wheel with compiled codecs to ``folder`` and returns its path. Requires a C
    compiler and the headers of Python."""
    target = folder / pure.name.replace(PURE, tag())
    with tempfile.TemporaryDirectory() as built:
        module = Path(built) / make_fast.NAME
        make_fast.build(module, "-s")
        compiled = module.read_bytes()
    record = []
    with zipfile.ZipFile(pure) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        names = [name for name in old.namelist() if not name.endswith(".dist-info/RECORD")]
        files = {name: old.read(name) for name in names} | {PLACE: compiled}
        info = next(name for name in names if name.endswith(".dist-info/WHEEL"))
        about = files[info].decode().replace(PURE, tag())
        files[info] = about.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false").encode()
        for name, data in files.items():
            installed.add(new, name, data)
            record.append(installed.record_line(name, data))
        at = info.replace("/WHEEL", "/RECORD")
        installed.add(new, at, "\n".join([*record, f"{at},,", ""]).encode())
    return target
