"""The link of each alert opens a runbook on the affected broker. The wheel contains the
runbooks."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.broker.seen import Seen, seeing
from tests.broker.web.rights import basic
from tests.broker.web.test_https import encrypted

CHECKOUT = Path(__file__).parents[3]
LINKS = re.findall(
    r'runbook_url: "http://\{\{ \$labels\.instance \}\}(\S+?)(?:\?|")',
    (CHECKOUT / "dashboards" / "prometheus" / "rules.yml").read_text(),
)
BROWSER = {"accept": "text/html"}
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
}
"""Settings that replace the plaintext listener of tests/broker/web/rights.py by a listener with
SASL."""


async def opened(seen: Seen, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://{seen.address}") as client:
        return await client.get(path, headers=headers)


@pytest.mark.campaign
async def test_link_of_each_alert_opens_its_runbook(tmp_path: Path) -> None:
    assert len(LINKS) == len(set(LINKS)) > 10
    async with seeing(tmp_path) as seen:
        for path in LINKS:
            name = path.rpartition("/")[2]
            plain = await opened(seen, path)
            assert plain.headers["content-type"] == "text/markdown; charset=utf-8"
            assert plain.text.startswith(f"# {name}\n")
            page = await opened(seen, path, **BROWSER)
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert f"<h1>{name}</h1>" in page.text
            assert "<h2>What to do</h2>\n<ol>" in page.text
        listed = await opened(seen, "/runbooks", **BROWSER)
        assert re.findall(r'href="(/runbooks/\w+)"', listed.text) == sorted(LINKS)
        assert (await opened(seen, "/runbooks/Nothing")).status_code == 404
        assert 'href="/runbooks"' in (await opened(seen, "/", **BROWSER)).text


async def test_runbook_of_an_unsecured_broker_shows_commands_with_the_broker_addresses(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        host, port = seen.broker.sockets.addresses()[0]
        answer = await opened(seen, "/runbooks/MusterGroupStalled?group=billing.eu")
        health = await opened(seen, "/runbooks/MusterLogPoisoned")

    assert f"  muster groups why billing.eu --bootstrap {host}:{port}\n" in answer.text
    assert f"  curl -sS http://{seen.address}/healthz\n" in health.text

    for answered in (answer, health):
        assert "--command-config" not in answered.text
        assert "secured" not in answered.text


async def test_runbook_of_a_secured_broker_shows_commands_with_security_options(
    tmp_path: Path,
) -> None:
    async with encrypted(tmp_path, SECURED) as served:
        host, port = served.seen.broker.sockets.addresses()[0]
        denied, uneven = [
            await served.get(f"/runbooks/{name}", headers=basic("admin"))
            for name in ("MusterAccessDenied", "MusterLeadersImbalanced")
        ]

    address = served.seen.address
    http = f"curl -sS --cacert ca.pem -u YOUR_NAME https://{address}/api/denials |"
    assert f"  {http}" in denied.text
    reached = f"{host}:{port} --command-config client.properties"
    assert f"  muster acls explain -b {reached} --principal " in denied.text
    assert denied.text.endswith(
        "\n\nThis broker is secured. In the commands, `client.properties` is a file with your"
        " client's settings, `ca.pem` has the certificate of the broker's certificate"
        " authority, `YOUR_NAME` is your user name.\n"
    )
    election = f"kafka-leader-election.sh --bootstrap-server {host}:{port} --admin.config client"
    assert f"  {election}.properties --election-type" in uneven.text
    assert "YOUR_NAME" not in uneven.text


async def test_commands_of_a_runbook_use_a_client_certificate_when_http_requires_one(
    tmp_path: Path,
) -> None:
    settings = {"http.authentication": "certificate", "http.ssl.client.auth": "requested"}
    async with encrypted(tmp_path, settings) as served:
        me = served.authority.issue("admin")
        page = await served.get("/runbooks/MusterLogPoisoned", me)

    address = served.seen.address
    assert f"  curl -sS --cacert ca.pem --cert you.pem https://{address}/healthz\n" in page.text
    assert "`you.pem` has your certificate and its key.\n" in page.text


async def test_commands_of_a_runbook_omit_a_group_id_that_is_unsafe_for_a_shell(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        for group in ("a%20b", "$(reboot)", "%60id%60", "x%0A%0A%3Cscript%3E", "%3Cb%3E"):
            page = await opened(seen, f"/runbooks/MusterGroupStalled?group={group}", **BROWSER)
            assert "muster groups why GROUP --bootstrap" in page.text
            assert "script" not in page.text


async def test_runbook_page_has_no_script(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        page = await opened(seen, "/runbooks/MusterDown", **BROWSER)

    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "<script" not in page.text


@pytest.mark.campaign
def test_wheel_contains_the_web_page_and_every_runbook(tmp_path: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "pyproject.toml", "README.md",
         "CHANGELOG.md", "LICENSE", "broker/web"],
        cwd=CHECKOUT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    for name in filter(None, listed):
        if (CHECKOUT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((CHECKOUT / name).read_bytes())
    program = "from hatchling.build import build_wheel; print(build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        names = set(wheel.namelist())

    web = "musterd/_rooms/broker/web"
    assert {f"{web}{path}.md" for path in LINKS} <= names
    assert {f"{web}/page/index.html", f"{web}/page/app.js"} <= names
