"""The data directory of a stopped broker, for commands that read or change its files directly."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from broker.topics.directory.missing import META_FILE, SECURED_FILES, TOPICS_FILE
from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem, OsFileSystem

_ITS_FILES = frozenset((META_FILE, TOPICS_FILE, ".lock", *SECURED_FILES))
"""File names that identify a data directory: each directory that a broker or a command has written
contains at least one of them."""
_ROOT = 0


def files() -> FileSystem:
    return OsFileSystem()


def found(directory: str) -> FileSystem:
    """Returns a file system that reads the files of a data directory; a broker may run on the
    directory at the same time. Raises BadDirectory if the directory does not exist or has no files
    of a broker."""
    fs = files()
    try:
        names = fs.list(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise BadDirectory(
            f"{directory} is not a broker's data directory: the directory does not exist"
        ) from None
    if _ITS_FILES.isdisjoint(names):
        raise BadDirectory(
            f"{directory} is not a broker's data directory: the directory has no files of a broker"
        )
    return fs


@contextmanager
def held(directory: str) -> Iterator[FileSystem]:
    """Locks the data directory against brokers within a context. Creates the directory if it does
    not exist. Raises DirectoryLocked if a broker uses it, BadDirectory if it belongs to another
    user, and OSError."""
    fs = files()
    fs.make_directory(os.path.abspath(directory))
    _check_owner(directory)
    lock = fs.lock(directory)
    try:
        yield fs
    finally:
        lock.release()


def _check_owner(directory: str) -> None:
    """Raises BadDirectory if the broker runs as another user than this command. That broker could
    not read the files that this command writes, and would not start."""
    owner = _owner(directory)
    user = os.geteuid()
    if owner is None or owner == user:
        return
    name = _name(owner)
    if name is not None and user == _ROOT:
        switch = f"runuser -u {name} --"
    else:
        switch = f"sudo -u {shlex.quote(name or f'#{owner}')}"
    raise BadDirectory(
        f"{directory} belongs to {name or f'user {owner}'}, whose broker can't read files"
        f" that {_name(user) or f'user {user}'} creates: run the command as"
        f" {name or 'that user'}, for example with `{switch} muster ...`"
    )


def _owner(directory: str) -> int | None:
    """Returns the user id with which the broker runs: the owner of its files, or before the first
    start the owner of the directory.

    Returns None before the first start if root owns the directory. The broker's user is then
    unknown, because a directory of root may be a volume that other users can write.
    """
    try:
        return _made_by(os.path.join(directory, META_FILE))
    except FileNotFoundError:
        owner = _made_by(directory)
        return None if owner == _ROOT else owner


def _made_by(path: str) -> int:
    return os.stat(path).st_uid


def _name(user: int) -> str | None:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return None
