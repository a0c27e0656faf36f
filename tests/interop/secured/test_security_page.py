"""The steps of docs/operate/security.md secure a plain broker with TLS, passwords and ACLs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.absent import program
from tests.brokers import CHECKOUT, free_port

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 38")]

PAGE = (CHECKOUT / "docs" / "operate" / "security.md").read_text()
_MARK = "-- the next command --"
_PORTS = ("9092", "9093", "9644")


def commands() -> list[tuple[str, str]]:
    """Returns each command of the page with its input lines and its expected output."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        given = ""
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:], ""))
                given = "END\n" if "<<END" in line else ""
            elif given:
                found[-1] = (found[-1][0] + line, "")
                given = "" if line == given else given
            else:
                found[-1] = (found[-1][0], found[-1][1] + line)
    return found


@pytest.mark.timeout(600)
def test_commands_of_the_security_page_print_the_shown_output(tmp_path: Path) -> None:
    shell = program("bash", "bash")
    program("openssl", "openssl")
    steps = commands()
    assert len(steps) > 25
    script = "".join(f"{command}echo '{_MARK}'\n" for command, _ in steps)
    script += "cat broker.log\n"
    for port in _PORTS:
        script = script.replace(port, str(free_port()))
    ran = subprocess.run(
        [shell, "-c", f"exec 2>errors.log\ntrap 'kill $!; wait $!' EXIT\n{script}"],
        cwd=tmp_path,
        env={
            **{name: each for name, each in os.environ.items() if not name.startswith("MUSTER_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
        },
        stdout=subprocess.PIPE,
        text=True,
        timeout=500,
        check=False,
    )
    *printed, logged = ran.stdout.split(f"{_MARK}\n")
    wrong = [
        (command, got, said)
        for (command, said), got in zip(steps, printed, strict=True)
        if got != said
    ]
    assert not wrong, (wrong[0], (tmp_path / "errors.log").read_text()[-2000:])
    assert "denied" not in logged  # the log of the last broker, which started empty


def test_security_page_names_only_client_settings_that_tests_use() -> None:
    """Settings of Python clients on the page must be in tests/interop/secured/clients.py. Settings
    of Java clients on the page must be known to `muster`."""
    table = PAGE.split("\n## Clients\n")[1].split("\n\n")[1]
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    assert len(rows) > 6
    logins = (CHECKOUT / "tests" / "interop" / "secured" / "clients.py").read_text()
    known = (CHECKOUT / "client" / "settings.py").read_text()
    name = re.compile(r"`(\w[\w.]*)")
    for _, java, *others in rows[2:]:
        assert [each for each in name.findall(java) if f'"{each}"' not in known] == []
        assert [each for each in name.findall(" ".join(others)) if each not in logins] == []
