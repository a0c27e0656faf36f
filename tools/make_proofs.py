"""Writes docs/internals/proofs.md: the statements of tests/data/statements.toml and their tests.

    python tools/make_proofs.py [--check]

A test lists its statements in `@pytest.mark.proves("transactions 12")`, and a module lists them in
its `pytestmark`. An argument with a slash is a file of tests/ that the test reads. With --check the
tool writes nothing, and exits 1 if the page is out of date or a mark is wrong.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
STATEMENTS = TESTS / "data" / "statements.toml"
PAGE = ROOT / "docs" / "internals" / "proofs.md"

HEAD = """\
# Proofs

`make proofs` writes this page from `tests/data/statements.toml` and from the tests with a mark such
as `@pytest.mark.proves("transactions 12")`. Each statement has at least one test, which fails when
the statement is false. A path without a test name means the whole file.
"""


class Proof(NamedTuple):
    """A numbered statement, such as `transactions 12`, with a test that proves it."""

    statement: str
    file: str
    """The path of the test file, relative to tests/."""
    test: str
    """The name of the test. Empty if a whole module or a data file is the proof."""


def statements() -> dict[str, dict[str, str]]:
    """Returns the numbered statements of each topic, together with the topic's `title` and
    `intro`."""
    return tomllib.loads(STATEMENTS.read_text("utf-8"))


def proofs() -> Iterator[Proof]:
    """Yields the proofs from all marks `proves` below tests/, ordered by file and line."""
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text("utf-8")
        if "mark.proves(" in source:
            file = path.relative_to(TESTS).as_posix()
            yield from in_module(file, ast.parse(source))


def in_module(file: str, module: ast.Module) -> Iterator[Proof]:
    """Yields the proofs from all marks of one module."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from marks(file, node.name, decorator)
        else:
            yield from marks(file, "", node)


def marks(file: str, test: str, tree: ast.AST) -> Iterator[Proof]:
    """Yields the proofs of all marks `proves` in the syntax tree ``tree``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("mark.proves"):
            continue
        named = [ast.literal_eval(each) for each in node.args]
        data = [name for name in named if "/" in name]
        for statement in (name for name in named if "/" not in name):
            yield Proof(statement, file, test)
            yield from (Proof(statement, name, "") for name in data)


def faults(known_by_topic: Mapping[str, Mapping[str, str]], found: list[Proof]) -> list[str]:
    """Returns one line for each statement that no test proves, and for each test mark that names an
    unknown statement or a file that does not exist."""
    known = [
        f"{topic} {number}"
        for topic, section in known_by_topic.items()
        for number in section
        if number.isdigit()
    ]
    proven = {proof.statement for proof in found}
    return [
        *(f"no test proves {each}" for each in known if each not in proven),
        *(f"unknown statement in a mark: {each}" for each in sorted(proven - set(known))),
        *(
            f"file in a mark does not exist: tests/{file}"
            for file in sorted({proof.file for proof in found})
            if not (TESTS / file).exists()
        ),
    ]


def page(known_by_topic: Mapping[str, Mapping[str, str]], found: list[Proof]) -> str:
    proven: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for proof in found:
        tests = proven[proof.statement][proof.file]
        if proof.test:
            tests.append(f"`{proof.test}`")
    text = HEAD
    for topic, section in known_by_topic.items():
        text += f"\n## {section['title']}\n\n{section['intro']}\n\n"
        text += f"| {topic} | statement | tests |\n|---:|---|---|\n"
        for number in sorted((key for key in section if key.isdigit()), key=int):
            cells = [
                f"`tests/{file}`" + (": " + ", ".join(tests) if tests else "")
                for file, tests in sorted(proven[f"{topic} {number}"].items())
            ]
            text += f"| {number} | {section[number]} | {'<br>'.join(cells)} |\n"
    return text


def main() -> int:
    """Writes the page, or checks it with --check. Returns the exit code."""
    known_by_topic, found = statements(), list(proofs())
    if wrong := faults(known_by_topic, found):
        print(*wrong, sep="\n")
        return 1
    if "--check" in sys.argv[1:]:
        if PAGE.read_text("utf-8") != page(known_by_topic, found):
            print(f"{PAGE.name} is out of date: run make proofs")
            return 1
        return 0
    PAGE.write_text(page(known_by_topic, found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
