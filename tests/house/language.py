"""Finds the words and sentence openings that the section "Language" of CONTRIBUTING forbids.
`python -m tests.house.language [FOLDER]` prints each finding with its file and line."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.brokers import CHECKOUT

PYTHON = (
    "protocol", "verdicts", "journal", "client", "offsets", "coordinator", "share", "transactions",
    "controller", "replication", "security", "log", "broker", "cli", "pipeline", "musterd", "tools",
    "bench", "tests",
)  # fmt: skip
TEXTS = ("*.md", "docs/**/*.md", "broker/web/**/*.md", "dashboards/**/*.md")
PAGES = ("broker/web/page/*.js", "broker/web/page/*.html", "dashboards/**/*.yml")
NOT_READ = ("protocol/generated/", "tests/house/language.py", "LICENSE")
NO_USER_READS = ("tests/", "tools/", "bench/")
"""Folders whose strings users do not see. Only the docstrings and comments in these folders are
checked."""

OPENINGS = re.compile(
    r"(?:^|(?<=[.!?:;])\s+)(who|what|those|whoever|somebody|nobody)\b(?![^.!?]*\?)", re.IGNORECASE
)
WORDS = re.compile(
    r"\b(tell|tells|telling|told|mend|mends|mended|mending|in vain|anew|meanwhile|likewise|beside|"
    r"so long as|whoever|looks? at|looked at|stands|stood|(?:is|are|was|were) no\b(?! longer)|"
    r"there (?:is|are|was|were) none|knows? (?:of none|none)|nobody|somebody)\b",
    re.IGNORECASE,
)
COMMENT = re.compile(r"(?:^ *|  )# (.+)$")
"""A comment as ruff formats it: at the start of a line, or two spaces after the code."""
QUOTED = re.compile(
    r"``[^`]*``|`[^`\n]*`|https?://\S+|\{[^{}]*\}|\*[\w ]+\*|nobody(?:[ -]runs[ -]it| left)"
    r"|There is no offset information to delete"
)
"""Text that is not checked: quoted code, links, two public names that contain an avoided word, and
an error message of Kafka."""
RIDDLES = re.compile(
    r"_(told|tells?|mend\w*|anew|meanwhile|likewise|nobody|somebody|whoever|in_vain|is_no|are_no|"
    r"stands|stood|beside)(_|$)|^test_(a_|an_)?\w+_(who|that)_\w+_(is|are|was)(_not)?$"
)


class Finding(NamedTuple):
    file: str
    line: int
    kind: str
    """The kind of text: docstring, comment, string, document, page or test name."""
    word: str

    @property
    def folder(self) -> str:
        """Returns the folder under which the finding is counted: the top folder, or two levels in
        broker/, cli/ and tests/. Files in the root have the folder `.`."""
        parts = self.file.split("/")[:-1]
        return "/".join(parts[: 2 if parts[:1] in (["broker"], ["tests"], ["cli"]) else 1]) or "."


def findings() -> Iterator[Finding]:
    """Yields all findings in the files of the checkout."""
    for room in PYTHON:
        for path in sorted((CHECKOUT / room).rglob("*.py")):
            name = str(path.relative_to(CHECKOUT))
            if not name.startswith(NOT_READ):
                yield from in_python(name, path.read_text("utf-8"))
    for kind, patterns in (("document", TEXTS), ("page", PAGES)):
        for pattern in patterns:
            for path in sorted(CHECKOUT.glob(pattern)):
                name = str(path.relative_to(CHECKOUT))
                if name.startswith(NOT_READ) or "/node_modules/" in name:
                    continue
                for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                    yield from (Finding(name, number, kind, word) for word in words(line))


def words(text: str) -> Iterator[str]:
    """Yields the avoided words, and the avoided openings of sentences, in a text. Quoted code is
    not searched."""
    text = QUOTED.sub("0", text)
    yield from (each[1] for each in OPENINGS.finditer(text))
    yield from (each[1] for each in WORDS.finditer(text))


def in_python(name: str, source: str) -> Iterator[Finding]:
    """Yields the findings in the source of the module ``name``."""
    docstrings: set[ast.expr] = set()
    for node in ast.walk(ast.parse(source)):  # visits a function before its docstring
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            kind = "docstring" if node in docstrings else "string"
            if kind == "docstring" or (" " in node.value and not name.startswith(NO_USER_READS)):
                yield from (Finding(name, node.lineno, kind, word) for word in words(node.value))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstrings.update(each.value for each in node.body if isinstance(each, ast.Expr))
            defined = getattr(node, "name", "")
            if defined.startswith("test_") and (riddle := RIDDLES.search(defined)):
                yield Finding(name, node.lineno, "test name", riddle[0])
    for number, line in enumerate(source.splitlines(), 1):
        if comment := COMMENT.search(line):
            yield from (Finding(name, number, "comment", word) for word in words(comment[1]))


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    for found in findings():
        if found.file.startswith(asked):
            print(f"{found.file}:{found.line}: {found.kind}: {found.word}")
