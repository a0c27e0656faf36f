"""The start script of `muster.pyz`: unpacks the wheels once, and runs the unpacked program.

The wheels are unpacked to the folder `muster/DIGEST` in the user's cache. The folder gets this name
only when it is complete. If two processes start at the same time, the second one waits. A folder
with changed files is replaced. To start fast, this module at first imports only the modules that a
start with a complete folder needs.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

# Written by tools/make_dist.py.
DIGEST = "@DIGEST@"
ABI = "@ABI@"
GLIBC = "@GLIBC@"
WRITTEN_AT = 1580601600
"""The modification time of every unpacked file. Any other time means that a file was changed."""


def main():
    sys.dont_write_bytecode, writes = True, sys.dont_write_bytecode
    _refuse_another_python()
    archive = sys.path[0]
    expected = [line.split("\t") for line in __loader__.get_data("files").decode().splitlines()]
    try:
        site = _unpacked(archive, expected)
    except OSError as error:
        sys.exit(
            f"muster: can't unpack to {_cache()}: {error.strerror}; set XDG_CACHE_HOME to another"
            " folder"
        )
    sys.dont_write_bytecode = writes
    sys.path.insert(1, site)
    # Processes that a broker starts use the same packages.
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([site, inherited] if inherited else [site])
    from musterd.__main__ import main as muster

    muster()


def _refuse_another_python():
    found = EXTENSION_SUFFIXES[0].strip(".").partition(".")[0]
    if found != ABI:
        sys.exit(
            f"muster: this muster.pyz is for {ABI}, but {sys.executable} is {found}: run muster.pyz"
            f" with {ABI}, or install the wheel with pip"
        )
    if GLIBC:
        _, _, has = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if _numbers(has) < _numbers(GLIBC):
            sys.exit(
                f"muster: this muster.pyz needs glibc {GLIBC}, but this system has"
                f" {has or 'no glibc'}: install the wheel with pip"
            )


def _numbers(version):
    return [int(each) for each in version.split(".") if each.isdigit()]


def _cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "muster")


def _unpacked(archive, expected):
    """Returns the folder with the unpacked packages. Unpacks them if the folder is missing or
    damaged."""
    site = os.path.join(_cache(), DIGEST)
    if not _is_whole(site, expected):
        import fcntl

        os.makedirs(_cache(), 0o700, exist_ok=True)
        with open(f"{site}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_whole(site, expected):  # another start may have created the folder
                _make(archive, site)
    return site


def _make(archive, site):
    """Unpacks the packages to a new folder and renames it to ``site``. Removes a damaged folder at
    ``site``."""
    import shutil

    new, old = f"{site}.new", f"{site}.old"
    for each in (new, old):  # left by a start that was killed
        shutil.rmtree(each, ignore_errors=True)
    _unpack(archive, new)
    if os.path.exists(site):
        os.rename(site, old)
    os.rename(new, site)
    shutil.rmtree(old, ignore_errors=True)


def _is_whole(site, expected):
    """Returns True if every file exists with its original size and modification time."""
    try:
        for name, size in expected:
            found = os.stat(f"{site}/{name}")
            if found.st_size != int(size) or int(found.st_mtime) != WRITTEN_AT:
                return False
    except OSError:
        return False
    return True


def _unpack(archive, folder):
    import io
    import zipfile

    with zipfile.ZipFile(archive) as outer:
        for name in outer.namelist():
            if not name.endswith(".whl"):
                continue
            with zipfile.ZipFile(io.BytesIO(outer.read(name))) as wheel:
                for each in wheel.namelist():
                    path = wheel.extract(each, folder)
                    os.utime(path, (WRITTEN_AT, WRITTEN_AT))


if __name__ == "__main__":
    main()
