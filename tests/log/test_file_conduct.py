"""Tests that the real file system, the file system in memory and the simulated file system behave
alike.

The file system of the operating system is the reference for results and errors.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from log.errors import DirectoryLocked
from log.files.filesystem import FileSystem, read_whole, write_whole
from tests.log.file_systems import MADE


@pytest.fixture(params=MADE)
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return MADE[request.param](tmp_path)


@pytest.fixture
def at(tmp_path: Path) -> Callable[[str], str]:
    return lambda name: str(tmp_path / name)


At = Callable[[str], str]


def put(fs: FileSystem, path: str, data: bytes) -> None:
    fs.open(path, create=True).write(0, data)


# -- one file


def test_written_bytes_are_read_from_their_positions(fs: FileSystem, at: At) -> None:
    file = fs.open(at("f"), create=True)
    assert (file.path, file.size(), file.read(0, 10)) == (at("f"), 0, b"")

    file.write(0, b"hello world")
    file.write(6, memoryview(b"there"))
    file.write(11, bytearray(b"!"))

    assert file.size() == 12
    assert file.read(0, 100) == b"hello there!"
    assert file.read(6, 5) == b"there"
    assert file.read(12, 5) == b""
    assert file.read(500, 5) == b""
    assert file.read(3, 0) == b""
    assert type(file.read(0, 5)) is bytes
    assert bytes(file.read_cached(6, 100) or b"") == b"there!"
    assert bytes(file.opened().read(0, 5)) == b"hello"
    file.fsync()


def test_method_create_private_refuses_an_existing_file(fs: FileSystem, at: At) -> None:
    file = fs.create_private(at("f"))
    file.write(0, b"secret")
    assert read_whole(fs, at("f")) == b"secret"
    with pytest.raises(FileExistsError):
        fs.create_private(at("f"))
    with pytest.raises(FileNotFoundError):
        fs.create_private(at("none/f"))
    assert read_whole(fs, at("f")) == b"secret"


def test_bytes_between_file_end_and_a_later_write_are_zeros(fs: FileSystem, at: At) -> None:
    file = fs.open(at("f"), create=True)
    file.write(3, b"x")
    assert file.read(0, 9) == b"\0\0\0x"
    file.write(9, b"")
    assert file.size() == 4, "nothing at a distance is nothing"


def test_method_truncate_shortens_or_pads_a_file(fs: FileSystem, at: At) -> None:
    file = fs.open(at("f"), create=True)
    file.write(0, b"abcdef")
    read = file.read_cached(0, 6)
    file.truncate(2)
    assert (file.size(), file.read(0, 9)) == (2, b"ab")
    assert bytes(read or b"") == b"abcdef", "what was read stays what it was"
    file.truncate(4)
    assert file.read(0, 9) == b"ab\0\0"
    file.truncate(0)
    assert file.size() == 0


def test_reserved_space_does_not_change_the_file_size(fs: FileSystem, at: At) -> None:
    file = fs.open(at("f"), create=True)
    file.write(0, b"ab")
    file.reserve(100_000)
    assert (file.size(), file.read(0, 9)) == (2, b"ab")
    file.write(2, b"c")
    file.truncate(3)
    assert file.read(0, 9) == b"abc"


def test_two_handles_of_one_file_see_the_same_content(fs: FileSystem, at: At) -> None:
    first, second = fs.open(at("f"), create=True), fs.open(at("f"), create=True)
    first.write(0, b"first")
    second.write(5, b" second")
    assert first.read(0, 99) == second.read(0, 99) == b"first second"
    second.truncate(1)
    assert first.read(0, 99) == b"f"


def test_missing_file_can_be_created_but_not_opened(fs: FileSystem, at: At) -> None:
    for path in (at("f"), at("no/f")):
        with pytest.raises(FileNotFoundError) as caught:
            fs.open(path)
        assert caught.value.filename == path
    with pytest.raises(FileNotFoundError):
        fs.open(at("no/f"), create=True)
    with pytest.raises(IsADirectoryError):
        fs.open(at(""))
    put(fs, at("f"), b"x")
    with pytest.raises(NotADirectoryError):
        fs.open(at("f/g"), create=True)
    assert fs.exists(at("f"))
    assert fs.exists(at(""))
    assert not fs.exists(at("no"))
    assert not fs.exists(at("f/g"))


def test_file_name_above_255_bytes_is_refused(fs: FileSystem, at: At) -> None:
    put(fs, at("n" * 255), b"x")
    with pytest.raises(OSError, match="too long") as caught:
        fs.open(at("n" * 256), create=True)
    assert caught.value.errno == errno.ENAMETOOLONG
    assert fs.list(at("")) == ["n" * 255]


def test_modification_time_of_a_file_is_returned(fs: FileSystem, at: At) -> None:
    before_ms = int(time.time() * 1000) - 60_000
    put(fs, at("f"), b"x")
    assert before_ms < fs.modified_ms(at("f")) < before_ms + 120_000
    with pytest.raises(FileNotFoundError):
        fs.modified_ms(at("g"))


# -- names


def test_open_file_has_its_new_path_after_a_rename(fs: FileSystem, at: At) -> None:
    file = fs.open(at("old"), create=True)
    file.write(0, b"x")
    fs.rename(at("old"), at("new"), file)
    assert file.path == at("new")
    assert fs.list(at("")) == ["new"]
    file.write(1, b"y")
    assert read_whole(fs, at("new")) == b"xy"


def test_rename_replaces_an_existing_file(fs: FileSystem, at: At) -> None:
    put(fs, at("old"), b"old")
    replaced = fs.open(at("new"), create=True)
    replaced.write(0, b"replaced")
    replaced.keep()
    held = replaced.opened()
    fs.rename(at("old"), at("new"))
    assert fs.list(at("")) == ["new"]
    assert read_whole(fs, at("new")) == b"old"
    assert held.read(0, 99) == replaced.read(0, 99) == b"replaced"
    replaced.write(0, b"R")
    assert held.read(0, 99) == b"Replaced"
    assert read_whole(fs, at("new")) == b"old"


def test_rename_fails_when_the_file_or_the_target_folder_is_missing(fs: FileSystem, at: At) -> None:
    put(fs, at("f"), b"x")
    with pytest.raises(FileNotFoundError) as caught:
        fs.rename(at("missing"), at("new"))
    assert (caught.value.filename, caught.value.filename2) == (at("missing"), at("new"))
    with pytest.raises(FileNotFoundError):
        fs.rename(at("f"), at("no/f"))
    fs.rename(at("f"), at("f"))
    assert fs.list(at("")) == ["f"]
    assert read_whole(fs, at("f")) == b"x"


def test_rename_moves_a_directory_with_its_content(fs: FileSystem, at: At) -> None:
    fs.make_directory(at("d/sub"))
    put(fs, at("d/f"), b"f")
    put(fs, at("d/sub/g"), b"g")
    file = fs.open(at("d/f"))
    file.keep()
    fs.rename(at("d"), at("e"))
    assert fs.list(at("")) == ["e"]
    assert fs.list(at("e")) == ["f", "sub"]
    assert fs.list(at("e/sub")) == ["g"]
    assert not fs.exists(at("d/f"))
    assert file.read(0, 9) == b"f"
    assert read_whole(fs, at("e/sub/g")) == b"g"


def test_rename_between_files_and_directories_fails(fs: FileSystem, at: At) -> None:
    put(fs, at("f"), b"f")
    for name in ("d", "empty", "full"):
        fs.make_directory(at(name))
    put(fs, at("full/g"), b"g")
    with pytest.raises(IsADirectoryError):
        fs.rename(at("f"), at("d"))
    with pytest.raises(NotADirectoryError):
        fs.rename(at("d"), at("f"))
    with pytest.raises(OSError, match="not empty"):
        fs.rename(at("d"), at("full"))
    with pytest.raises(OSError, match="Invalid argument"):
        fs.rename(at("full"), at("full/inside"))
    fs.rename(at("full"), at("empty"))
    assert fs.list(at("")) == ["d", "empty", "f"]
    assert fs.list(at("empty")) == ["g"]


def test_link_makes_a_second_name_of_the_same_file(fs: FileSystem, at: At) -> None:
    put(fs, at("f"), b"one")
    fs.link(at("f"), at("g"))
    fs.open(at("g")).write(0, b"two")
    assert read_whole(fs, at("f")) == b"two"
    fs.remove(at("f"))
    assert read_whole(fs, at("g")) == b"two"
    with pytest.raises(FileNotFoundError):
        fs.link(at("f"), at("h"))
    put(fs, at("h"), b"h")
    with pytest.raises(FileExistsError):
        fs.link(at("g"), at("h"))
    with pytest.raises(FileNotFoundError):
        fs.link(at("g"), at("no/g"))
    assert fs.list(at("")) == ["g", "h"]


def test_rename_to_a_link_of_the_same_file_keeps_both_names(fs: FileSystem, at: At) -> None:
    put(fs, at("f"), b"one")
    fs.link(at("f"), at("g"))
    fs.rename(at("f"), at("g"))
    assert fs.list(at("")) == ["f", "g"]


def test_removed_file_stays_usable_through_its_open_handle(fs: FileSystem, at: At) -> None:
    file = fs.open(at("f"), create=True)
    file.write(0, b"mine")
    file.keep()
    held = file.opened()
    fs.remove(at("f"))
    assert fs.list(at("")) == []
    assert file.read(0, 9) == b"mine"
    file.write(4, b"!")
    assert held.read(0, 9) == b"mine!"
    put(fs, at("f"), b"another's")
    assert file.read(0, 9) == b"mine!"
    file.truncate(1)
    assert (held.size(), fs.open(at("f")).size()) == (1, 9)
    file.fsync()


def test_method_remove_ignores_a_missing_file(fs: FileSystem, at: At) -> None:
    fs.remove(at("f"))
    fs.remove(at("no/f"))
    fs.make_directory(at("d"))
    with pytest.raises(IsADirectoryError):
        fs.remove(at("d"))
    assert fs.list(at("")) == ["d"]


# -- directories


def test_directories_are_created_with_their_parents_and_listed(fs: FileSystem, at: At) -> None:
    fs.make_directory(at("a/b/c"))
    fs.make_directory(at("a/b/c"))
    put(fs, at("a/b/z"), b"")
    put(fs, at("a/b/Y"), b"")
    fs.make_directory(at("a/b-2"))
    assert fs.list(at("a")) == ["b", "b-2"]
    assert fs.list(at("a/b")) == ["Y", "c", "z"]
    assert fs.list(at("a/b/c")) == []
    with pytest.raises(FileNotFoundError):
        fs.list(at("x"))
    with pytest.raises(NotADirectoryError):
        fs.list(at("a/b/z"))
    with pytest.raises(FileExistsError):
        fs.make_directory(at("a/b/z"))
    with pytest.raises(NotADirectoryError):
        fs.make_directory(at("a/b/z/y"))


def test_directory_is_removed_with_its_content(fs: FileSystem, at: At) -> None:
    fs.make_directory(at("a/b"))
    put(fs, at("a/b/f"), b"f")
    put(fs, at("ab"), b"stays")
    file = fs.open(at("a/b/f"))
    file.keep()
    fs.remove_directory(at("a"))
    assert fs.list(at("")) == ["ab"]
    assert not fs.exists(at("a/b/f"))
    assert file.read(0, 9) == b"f"
    with pytest.raises(FileNotFoundError):
        fs.remove_directory(at("a"))
    with pytest.raises(NotADirectoryError):
        fs.remove_directory(at("ab"))


def test_fsync_of_a_directory_that_does_not_exist_raises_an_error(fs: FileSystem, at: At) -> None:
    fs.make_directory(at("d"))
    fs.fsync_directory(at("d"))
    put(fs, at("f"), b"")
    with pytest.raises(FileNotFoundError):
        fs.fsync_directory(at("no"))
    with pytest.raises(NotADirectoryError):
        fs.fsync_directory(at("f"))


def test_second_lock_of_a_locked_directory_is_refused(fs: FileSystem, at: At) -> None:
    fs.make_directory(at("d"))
    fs.make_directory(at("e"))
    lock = fs.lock(at("d"))
    with pytest.raises(DirectoryLocked, match=at("d")):
        fs.lock(at("d"))
    fs.lock(at("e")).release()
    assert fs.list(at("d")) == [".lock"]
    lock.release()
    again = fs.lock(at("d"))
    lock.release()  # the second release has no effect, because another handle has the lock now
    with pytest.raises(DirectoryLocked):
        fs.lock(at("d"))
    again.release()
    with pytest.raises(FileNotFoundError):
        fs.lock(at("no"))


def test_function_write_whole_replaces_the_whole_file(fs: FileSystem, at: At) -> None:
    write_whole(fs, at("f"), b"long enough")
    write_whole(fs, at("f"), b"short")
    assert read_whole(fs, at("f")) == b"short"
    assert fs.list(at("")) == ["f"]


def test_usable_space_does_not_exceed_the_total_space(fs: FileSystem, at: At) -> None:
    found = fs.space(at(""))
    assert found is None or 0 <= found.usable_bytes <= found.total_bytes
