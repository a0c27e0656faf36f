"""A reserved file can be replaced on a full disk. After any failure it has either the old or the
new content."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker.topics.directory.reserved_file import NotSettled, ReservedFile
from log.files.filesystem import OsFileSystem
from tests.simulated_files import Fault, SimulatedFiles

PATH = "/data/list.json"


def reserved(fs: SimulatedFiles) -> ReservedFile:
    """Kills the process of ``fs``. Returns a new `ReservedFile` for `PATH`, as after a restart."""
    fs.kill()
    fs.make_directory("/data")
    file = ReservedFile(fs, PATH)
    file.keep_spare()
    return file


def text(file: ReservedFile) -> bytes:
    return (file.read() or b"").rstrip()


def test_reserved_file_can_be_replaced_repeatedly_on_a_full_disk() -> None:
    fs = SimulatedFiles()
    file = reserved(fs)
    file.replace(b"old\n")
    fs.capacity_bytes -= fs.room(0)

    for number in range(10):
        file.replace(b"change %d\n" % number)

    assert text(file) == b"change 9"
    again = reserved(fs)
    again.replace(b"after a restart\n")
    assert text(again) == b"after a restart"


def test_content_longer_than_the_spare_file_is_refused_on_a_full_disk() -> None:
    fs = SimulatedFiles()
    file = reserved(fs)
    file.replace(b"old\n")
    room = fs.room(0)
    fs.capacity_bytes -= room
    with pytest.raises(OSError, match="No space"):
        file.replace(b"x" * 5000)
    assert text(file) == b"old"
    assert sorted(fs.list("/data")) == ["list.json", "list.json.spare"]

    fs.capacity_bytes += room
    file.replace(b"x" * 5000)
    fs.capacity_bytes -= fs.room(0)

    file.replace(b"y" * 10_000)
    assert text(file) == b"y" * 10_000


def test_reserved_file_can_be_replaced_without_hard_links() -> None:
    fs = SimulatedFiles()
    file = reserved(fs)
    fs.fail("link", "", count=1 << 30)
    file.replace(b"old\n")
    file.replace(b"new\n")
    fs.capacity_bytes -= fs.room(0)

    file.replace(b"newer\n")
    assert text(file) == b"newer"
    with pytest.raises(OSError, match="No space"):
        file.replace(b"z" * 5000)
    assert text(file) == b"newer"


OPERATIONS = ("open", "write", "fsync", "rename", "remove", "link", "fsync_directory")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("power", [False, True])
def test_failed_replace_of_a_reserved_file_leaves_old_or_new_content(
    operation: str, nth: int, power: bool
) -> None:
    """A `replace` that fails leaves the old content in the file. The exception is a failed fsync of
    the directory: the file then has the old or the new content, and refuses every further
    `replace`."""
    chance = random.Random(f"{operation} {nth}")
    fs = SimulatedFiles()
    file = reserved(fs)
    file.replace(b"0\n")
    kept, doubtful = b"0", b"0"
    for _ in range(nth):
        kept = doubtful = b"%d" % (int(kept) + 1)
        file.replace(kept + b"\n")
    fs.fail(operation, "", partial_bytes=3)
    for number in range(10, 13):
        wanted = b"%d" % number
        try:
            file.replace(wanted + b"\n")
            kept = doubtful = wanted
        except NotSettled:
            doubtful = wanted
            with pytest.raises(NotSettled):
                file.replace(b"more\n")
            break
        except OSError:
            pass
        assert text(file) == kept
    fs.heal()
    if power:
        fs.lose_power(chance)

    assert text(reserved(fs)) in (kept, doubtful)


@pytest.mark.parametrize("seed", range(40))
def test_power_loss_during_a_replace_leaves_the_old_or_the_new_content(seed: int) -> None:
    chance = random.Random(seed)
    fs = SimulatedFiles()
    file = reserved(fs)
    kept = b"0"
    file.replace(kept + b"\n")
    for number in range(1, chance.randint(2, 5)):
        kept = b"%d" % number
        file.replace(kept + b"\n")
    wanted = b"last"
    left = chance.randint(0, 12)
    calls = len(fs.calls)

    def until_it_ends(operation: str, path: str) -> Fault | None:
        if len(fs.calls) - calls >= left:
            raise KeyboardInterrupt
        return original(operation, path)

    original = fs.fault
    fs.fault = until_it_ends  # type: ignore[method-assign]
    try:
        file.replace(wanted + b"\n")
        kept = wanted
    except KeyboardInterrupt:
        pass
    fs.fault = original  # type: ignore[method-assign]
    fs.lose_power(chance)

    assert text(reserved(fs)) in (kept, wanted)
    after = reserved(fs)
    after.replace(b"and on\n")
    assert text(after) == b"and on"


def test_replace_of_a_reserved_file_reuses_the_same_two_inodes(tmp_path: Path) -> None:
    path = f"{tmp_path}/list.json"
    file = ReservedFile(OsFileSystem(), path)
    file.keep_spare()
    identities = set()
    for number in range(6):
        file.replace(b"%d\n" % number)
        identities.add(OsFileSystem().open(path).opened().identity())  # type: ignore[attr-defined]

    assert text(file) == b"5"
    assert len(identities) == 2
