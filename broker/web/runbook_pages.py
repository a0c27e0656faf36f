"""`/runbooks`: the instructions for each alert of `dashboards/prometheus/rules.yml`. The files are
in broker/web/runbooks/.

The link in an alert leads to the broker that caused the alert. The commands on the page are
complete. The group in the link's query ``?group=`` replaces GROUP. The address at which clients
reach this broker replaces BOOTSTRAP. The address of the request replaces http://HTTP. If TLS or a
login is needed, the commands contain the necessary options, and a paragraph lists the words that
the user must replace.
"""

from __future__ import annotations

import html
import re
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from broker.config.http_settings import BASIC, CERTIFICATE, HTTPS, ways_in
from broker.metrics.sources import Sources
from broker.web.page_files import HEADERS

_PLAIN_WORD = re.compile(r"[\w.@:/+-]+", re.ASCII)
"""Matches a value that needs no quotes in a shell and can't end a command or a code block."""
_PLACEHOLDER = re.compile(r"\b(GROUP|BOOTSTRAP|http://HTTP)\b")
_COMMAND = re.compile(r"^ {4,}\S.*$", re.MULTILINE)
_OPTION = "--command-config"
_OPTION_ELSE = {"kafka-leader-election.sh": "--admin.config"}
"""By name of a tool of Kafka: the option that the tool has instead of `_OPTION` before Kafka 4.2.
Kafka 4.2 still accepts it."""
_FILLED_IN = {
    "client.properties": "`client.properties` is a file with your client's settings",
    "ca.pem": "`ca.pem` has the certificate of the broker's certificate authority",
    "YOUR_NAME": "`YOUR_NAME` is your user name",
    "you.pem": "`you.pem` has your certificate and its key",
}
"""By placeholder: its explanation. The commands of a runbook have placeholders for values that the
broker does not know."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} - Muster</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/style.css">
</head>
<body>
<header class="top"><a class="brand" href="/"><span>Muster</span></a>
<nav aria-label="Pages"><a href="/runbooks">Runbooks</a></nav></header>
<main class="runbook">
{body}</main>
</body>
</html>
"""


class Runbooks:
    """The runbook pages of one broker."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._texts = {
            each.name.removesuffix(".md"): each.read_text()
            for each in (files("broker.web") / "runbooks").iterdir()
            if each.name.endswith(".md")
        }

    def routes(self) -> list[Route]:
        return [Route("/runbooks", self.index), Route("/runbooks/{name}", self.one)]

    async def index(self, request: Request) -> Response:
        lines = [f"- [{name}](/runbooks/{name})" for name in sorted(self._texts)]
        return await self._answer(request, "Runbooks", "\n".join(["# Runbooks", "", *lines, ""]))

    async def one(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._texts:
            return PlainTextResponse(
                "this runbook does not exist; /runbooks lists all runbooks\n", 404
            )
        return await self._answer(request, name, self._filled(self._texts[name], request))

    async def _answer(self, request: Request, title: str, text: str) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            headers = {"content-type": "text/markdown; charset=utf-8", "vary": "accept"}
            return Response(text, headers=headers)
        body = await self._sources.time.in_thread(lambda: _rendered(text))
        page = _PAGE.format(title=html.escape(title), body=body)
        return HTMLResponse(page, headers={**HEADERS, "vary": "accept"})

    def _filled(self, text: str, request: Request) -> str:
        """Returns the text of a runbook. Values that the broker knows are inserted into the
        commands."""
        host, port = self._sources.advertised.first
        words = {
            "GROUP": request.query_params.get("group", ""),
            "BOOTSTRAP": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            "http://HTTP": request.headers.get("host", ""),
        }
        known = {word: value for word, value in words.items() if _PLAIN_WORD.fullmatch(value)}
        if "http://HTTP" in known:
            known["http://HTTP"] = f"{self._scheme}://{known['http://HTTP']}"

        def command(found: re.Match[str]) -> str:
            line = self._with_options(found[0])
            return _PLACEHOLDER.sub(lambda word: known.get(word[1], word[1]), line)

        filled = _COMMAND.sub(command, text)
        commands = " ".join(_COMMAND.findall(filled))
        missing = [said for word, said in _FILLED_IN.items() if word in commands]
        if not missing:
            return filled
        return f"{filled}\nThis broker is secured. In the commands, {', '.join(missing)}.\n"

    @property
    def _scheme(self) -> str:
        return "https" if self._sources.config["http.security.protocol"] == HTTPS else "http"

    def _with_options(self, line: str) -> str:
        """Returns the command with the options that TLS and login require."""
        if self._sources.advertised.endpoints[0].protocol != "PLAINTEXT":
            option = _OPTION_ELSE.get(line.split(maxsplit=1)[0], _OPTION)
            line = line.replace("BOOTSTRAP", f"BOOTSTRAP {option} client.properties")
        ways = ways_in(self._sources.config)
        options = "--cacert ca.pem " if self._scheme == "https" else ""
        if BASIC in ways:
            options += "-u YOUR_NAME "
        elif CERTIFICATE in ways:
            options += "--cert you.pem "
        return line.replace("http://HTTP", f"{options}http://HTTP")


def _rendered(text: str) -> str:
    from markdown_it import MarkdownIt

    rendered: str = MarkdownIt("commonmark", {"html": False}).render(text)
    return rendered.replace("<pre>", '<pre tabindex="0">')  # so that keys scroll a long command
