"""Commands print no traceback when a standard stream is closed or is a file on a full disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.brokers import CHECKOUT, COMMAND

SETTINGS = "log.retention.hours=1\nlog.retention.ms=oops\n"
MANY = 3000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Writes a server.properties with an invalid setting. For this file, `config check` exits with
    code 4."""
    path = tmp_path / "server.properties"
    path.write_text(SETTINGS + "".join(f"my.own.{n}=x\n" for n in range(MANY)))
    return path


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash. In the line, $M is the command `muster`."""
    return subprocess.run(
        ["bash", "-c", f'M="{" ".join(COMMAND)}"\n{line}'],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=CHECKOUT,
        env={"PATH": "/usr/bin:/bin", **environment},
        check=False,
    )


@pytest.mark.campaign
def test_exit_code_is_kept_when_the_reader_closes_the_pipe(file: Path) -> None:
    ran = shell(f"$M config check {file} | head -1; exit ${{PIPESTATUS[0]}}")
    assert ran.stdout.startswith("SETTING")
    assert ran.stderr == f"muster: {file} has 1 problem, listed first\n"
    assert ran.returncode == 4, "the problem in the file still sets the exit code"


def test_command_with_continuous_output_exits_0_when_its_reader_closes_the_pipe(file: Path) -> None:
    ran = shell(f"$M logs dump {file.parent} --json | true; exit ${{PIPESTATUS[0]}}")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.campaign
@pytest.mark.parametrize("form", ["", "--json"])
def test_command_prints_one_error_line_when_standard_output_is_a_full_disk(
    file: Path, form: str
) -> None:
    ran = shell(f"$M config check {file} {form} > /dev/full")
    assert ran.stderr == "muster: standard output can't be written: No space left on device\n"
    assert ran.returncode == 1


def test_help_prints_one_error_line_when_standard_output_is_a_full_disk() -> None:
    ran = shell("$M topics --help > /dev/full")
    assert ran.stderr == "muster: standard output: No space left on device\n"
    assert ran.returncode == 1


@pytest.mark.campaign
@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", ">&- <&- 2>&-"])
def test_closed_standard_streams_do_not_change_the_exit_code(file: Path, closed: str) -> None:
    ran = shell(f"$M config check {file} {closed}")
    assert ran.returncode == 4
    assert "Traceback" not in ran.stderr


def test_closed_standard_input_is_reported() -> None:
    ran = shell("$M offsets import - <&-")
    assert ran.returncode == 2
    assert ran.stderr == "muster: standard input is empty\n"


def test_characters_outside_the_terminals_encoding_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("grün=1\n")
    ran = shell(f"$M config check {file}", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert "gr\\xfcn" in ran.stdout
    assert ran.returncode == 0


def test_command_prints_no_traceback_when_an_argument_is_not_utf_8() -> None:
    ran = shell("$M groups describe $'caf\\xe9' -b 127.0.0.1:1")
    assert "Traceback" not in ran.stderr
