"""Packs the sources that executors need into one archive of pure Python."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

ARCHIVE = "muster.zip"
MAIN_FILE = "muster_submit.py"
"""The name of the main file that `write_package` writes, next to `ARCHIVE`."""
ROOMS = ("protocol", "offsets", "security", "client", "pipeline")
_ROOT = Path(__file__).resolve().parent.parent
_WRITTEN_AT = (1980, 1, 1, 0, 0, 0)  # the same sources make the same archive


def make_archive(folder: Path | None = None) -> Path:
    """Write `muster-DIGEST.zip` into ``folder``, by default a temporary folder. Return its path.

    The archive has only `.py` files, because an executor can be unable to run code that was
    compiled for this machine. If this process already runs from such an archive, return that
    archive.
    """
    if _ROOT.is_file():
        return _ROOT
    sources = [
        path for room in ROOMS for path in sorted((_ROOT / room).rglob("*.py")) if path.is_file()
    ]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    where = folder or Path(tempfile.gettempdir())
    whole = where / f"muster-{digest.hexdigest()[:12]}.zip"
    if whole.exists():
        return whole
    partial = whole.with_name(f"{whole.name}.{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            entry = zipfile.ZipInfo(str(path.relative_to(_ROOT)), _WRITTEN_AT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    partial.replace(whole)
    return whole


def write_package(folder: Path) -> tuple[Path, Path]:
    """Write the archive and the main file for spark-submit into a folder. Return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, main_file = folder / ARCHIVE, folder / MAIN_FILE
    make_archive(folder).replace(archive)
    shutil.copyfile(_ROOT / "pipeline" / "submit.py", main_file)
    return archive, main_file


def main() -> None:
    """Write the files that spark-submit needs into a folder, and print their paths."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.package", description=__doc__)
    parser.add_argument("folder", type=Path)
    print(*write_package(parser.parse_args().folder), sep="\n")


if __name__ == "__main__":
    main()
