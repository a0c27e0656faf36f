"""Builds all artifacts of a release in dist/: wheels, sdist, muster.pyz, container image.

The build works offline, from the packages that `make` has installed. The same sources and packages
give the same bytes on any machine. SOURCE_DATE_EPOCH sets another time for the files inside.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from hatchling.build import build_sdist, build_wheel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools import compiled_wheel, installed, make_fast

ROOT = Path(__file__).resolve().parent.parent
CONTAINER = ROOT / "deploy" / "Containerfile"
START = ROOT / "tools" / "pyz_start.py"
PYZ = "muster.pyz"
IMAGE = "muster-image.tar"
EPOCH = os.environ.get("SOURCE_DATE_EPOCH", "1580601600")  # the default is hatchling's own
ABI = EXTENSION_SUFFIXES[0].strip(".").partition(".")[0]
MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
"""The glibc versions that old platform tags of wheels stand for. Newer tags contain the version."""


def build(folder: Path) -> tuple[Path, Path]:
    os.chdir(ROOT)  # a build backend builds the project in the current directory
    return folder / build_wheel(str(folder)), folder / build_sdist(str(folder))


def make_pyz(wheel: Path, target: Path) -> None:
    """Writes muster.pyz, which contains the start script, the wheel of Muster, and the wheels of
    its requirements."""
    with zipfile.ZipFile(wheel) as opened:
        info = next(n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
        ours = PathDistribution(zipfile.Path(opened, info.rpartition("/")[0] + "/"))
        wanted = [each for each in ours.requires or () if "extra ==" not in each]
    packages = installed.needed(wanted)
    wheels = {wheel.name: wheel.read_bytes(), **dict(map(installed.wheel, packages))}
    digest = hashlib.sha256(b"".join(wheels[name] for name in sorted(wheels))).hexdigest()[:16]
    start = START.read_text().replace("@DIGEST@", digest).replace("@ABI@", ABI)
    partial = target.with_suffix(".partial")
    with partial.open("wb") as out:
        out.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            installed.add(
                archive, "__main__.py", start.replace("@GLIBC@", glibc(packages)).encode()
            )
            installed.add(archive, "files", "\n".join(files_of(wheels)).encode())
            for name in sorted(wheels):
                installed.add(archive, name, wheels[name])
    partial.chmod(0o755)
    partial.replace(target)


def files_of(wheels: dict[str, bytes]) -> list[str]:
    """Returns one line for each file in the wheels, with its name and size. The start script
    compares them with the unpacked files, to detect damage."""
    found = []
    for data in wheels.values():
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            found += [f"{each.filename}\t{each.file_size}" for each in opened.infolist()]
    return sorted(found)


def glibc(packages: list[Distribution]) -> str:
    """Returns the oldest glibc version on which all ``packages`` run, or "" if none of them needs
    glibc."""
    needed = [
        min(versions) for package in packages if (versions := list(glibcs(installed.tags(package))))
    ]
    return ".".join(map(str, max(needed))) if needed else ""


def glibcs(tags: str) -> list[tuple[int, int]]:
    """Returns the glibc versions in the tags of one wheel."""
    named = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)_", tags)]
    return named + [version for name, version in MANYLINUX.items() if f"{name}_" in tags]


def make_image(target: Path) -> None:
    """Writes the container image to a file. Does nothing if buildah or the base image is
    missing."""
    buildah = shutil.which("buildah")
    if buildah is None:
        print("no container image was built: buildah is not installed", file=sys.stderr)
        return
    base = re.findall("^FROM (\\S+)$", CONTAINER.read_text(), re.MULTILINE)[0]
    if subprocess.run(
        [buildah, "inspect", "--type", "image", base], check=False, capture_output=True
    ).returncode:
        print(f"no container image was built: run buildah pull {base} first", file=sys.stderr)
        return
    name = "localhost/muster:dist"
    in_place = ["--isolation", "chroot", "--network", "host", "--pull=never"]
    target.unlink(missing_ok=True)
    for words in (
        ["build", *in_place, "--timestamp", EPOCH, "-f", str(CONTAINER), "-t", name, "."],
        ["push", name, f"oci-archive:{target}"],
        ["rmi", name],
    ):
        done = subprocess.run([buildah, *words], cwd=ROOT, check=False, stdout=sys.stderr)
        if done.returncode:
            raise SystemExit(f"no container image was built: buildah {words[0]} failed")
    print(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist")
    folder = parser.parse_args().folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wheel, sdist = build(folder)
    make_pyz(wheel, folder / PYZ)
    print(wheel, sdist, folder / PYZ, sep="\n")
    if make_fast.compiler() is None:
        print("no compiled wheel was built: it needs a C compiler and python3-dev", file=sys.stderr)
    else:
        print(compiled_wheel.make(wheel, folder))
    make_image(folder / IMAGE)


if __name__ == "__main__":
    main()
