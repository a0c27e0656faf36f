"""Finds the installed packages that a project needs, and builds wheels from their files.

`make` verifies each package against requirements/*.txt when it installs the package, so a build
needs no network and no cache. A build fails if a file has changed since the installation.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement

WRITTEN_AT = (2020, 2, 2, 0, 0, 0)
_OF_THE_INSTALLER = {
    "INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json",
}  # fmt: skip


def needed(requirements: Iterable[str]) -> list[Distribution]:
    """Returns the installed packages that ``requirements`` need directly or indirectly, sorted by
    name."""
    found: dict[str, Distribution] = {}
    seen = set()
    todo = [Requirement(each) for each in requirements]
    while todo:
        wanted = todo.pop()
        key = (wanted.name, *sorted(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        package = distribution(wanted.name)
        if not wanted.specifier.contains(package.version, prereleases=True):
            raise SystemExit(
                f"{wanted} is needed, but version {package.version} is installed: run make again"
            )
        found[package.metadata["Name"].lower()] = package
        extras = ["", *wanted.extras]
        for each in map(Requirement, package.requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in extras):
                todo.append(each)
    return [found[name] for name in sorted(found)]


def files(package: Distribution) -> list[tuple[PackagePath, Path]]:
    """Returns the relative and the absolute path of each file of a package in site-packages,
    without scripts."""
    found = []
    for file in sorted(package.files or ()):
        skipped = file.suffix == ".pyc" or file.name in _OF_THE_INSTALLER
        if ".." in file.parts or skipped:
            continue
        at = Path(str(package.locate_file(file)))
        if file.hash is not None and _hash(at.read_bytes()) != file.hash.value:
            raise SystemExit(f"{at} has changed since it was installed: remove .venv, run make")
        found.append((file, at))
    return found


def wheel(package: Distribution) -> tuple[str, bytes]:
    """Builds a wheel of an installed package without its scripts. Returns its file name and its
    bytes."""
    out = io.BytesIO()
    record = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, at in files(package):
            data = at.read_bytes()
            if file.hash is not None and _hash(data) != file.hash.value:
                raise SystemExit(
                    f"{at} has changed since it was installed: run make clean, then make"
                )
            add(archive, str(file), data)
            record.append(record_line(str(file), data))
        info = next(str(f.parent) for f, _ in files(package) if f.name == "METADATA")
        add(archive, f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode())
    return f"{info.removesuffix('.dist-info')}-{tags(package)}.whl", out.getvalue()


def tags(package: Distribution) -> str:
    """Returns the Python, ABI and platform tags of a package, as in the name of its wheel."""
    lines = (package.read_text("WHEEL") or "").splitlines()
    each = [line.removeprefix("Tag: ").split("-") for line in lines if line.startswith("Tag: ")]
    return "-".join(".".join(dict.fromkeys(parts)) for parts in zip(*each, strict=True))


def add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Adds a file with a fixed time and mode, so that the archive is reproducible."""
    entry = zipfile.ZipInfo(name, WRITTEN_AT)
    entry.compress_type = archive.compression
    entry.external_attr = 0o100644 << 16
    entry.create_system = 3  # Unix, where the mode has a meaning
    archive.writestr(entry, data)


def record_line(name: str, data: bytes) -> str:
    return f"{name},sha256={_hash(data)},{len(data)}"


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
