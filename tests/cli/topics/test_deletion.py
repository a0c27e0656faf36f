"""`muster topics delete` (plan, confirmation, result per topic), and `topics create` with several
topics."""

from __future__ import annotations

from typing import Any

import pytest

from cli.client.cluster import Cluster, Connection
from cli.client.group_member import GroupMember
from client.connection import Value
from protocol import errors
from tests.cli.running import run
from tests.cli.topics.committing import commit

pytestmark = pytest.mark.interop


def topics() -> set[str]:
    return {row["topic"] for row in run("topics", "list", "--json").json}


def test_topics_delete_plan_shows_records_groups_offsets_and_members(
    bootstrap: str, name: str
) -> None:
    run("topics", "create", name, "-p", "3")
    run("produce", name, "-p", "1", "-v", "a", "-v", "b")
    commit(f"{name}-idle", f"{name}:0=0", f"{name}:1=2")
    member = GroupMember(Cluster(bootstrap), f"{name}-live", [name])
    try:
        member.join()
        shown = run("topics", "delete", name, "--dry-run")
        [change] = run("topics", "delete", name, "--dry-run", "--json").json["changes"]
    finally:
        member.leave()

    assert change["groups"] == [
        {"group": f"{name}-idle", "offsets": 2, "members": 0},
        {"group": f"{name}-live", "offsets": 0, "members": 1},
    ]
    assert (change["topic"], change["partitions"], change["records"]) == (name, 3, 2)
    assert change["bytes"] > 0
    assert shown.out.startswith("Nothing is deleted (--dry-run)\n")
    assert name in topics()


def test_topics_delete_in_a_pipe_without_option_execute_deletes_no_topic(
    bootstrap: str, name: str
) -> None:
    run("topics", "create", name)
    ran = run("topics", "delete", name)

    assert (ran.code, name in topics()) == (2, True)
    assert ran.err.startswith("muster: nothing was deleted: add --execute")


def test_topics_delete_needs_confirmation_on_a_terminal(
    bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topics", "create", name)
    commit(name, f"{name}:0=0")
    asked: list[str] = []

    def answers(question: str, default: bool) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr("cli.plans.typer.confirm", answers)
    monkeypatch.setattr("cli.plans.sys", Terminal())
    no = run("topics", "delete", name)
    still_there = name in topics()
    yes = run("topics", "delete", name)

    assert asked == ["Delete 1 topic with 0 records and 1 offset of 1 group?"] * 2
    assert (no.code, still_there, yes.code) == (0, True, 0)
    assert yes.out.endswith(f"Deleted topic {name}\n")


class Terminal:
    """A fake of the module `sys`. Its standard input and output are a terminal."""

    class stdin:
        isatty = staticmethod(lambda: True)

    stdout = stdin


def test_topics_delete_with_an_unknown_topic_deletes_no_topic(bootstrap: str, name: str) -> None:
    run("topics", "create", f"{name}-a", f"{name}-b")
    ran = run("topics", "delete", f"{name}-a", f"{name}-x", f"{name}-b", "--execute")

    assert (ran.code, ran.out) == (1, "")
    assert f"topic {name}-x: not found; nothing was deleted" in ran.err
    assert {f"{name}-a", f"{name}-b"} <= topics()


def test_topics_delete_by_pattern_deletes_topics_and_their_committed_offsets(
    bootstrap: str, name: str
) -> None:
    run("topics", "create", f"{name}-a", f"{name}-b", f"{name}2")
    commit(name, f"{name}-a:0=0", f"{name}2:0=0")
    ran = run("topics", "delete", f"{name}-*", "--execute", "--json")

    rows = {row["topic"]: row["deleted"] for row in ran.json["changes"]}
    assert rows == {f"{name}-a": True, f"{name}-b": True}
    assert topics() & {f"{name}-a", f"{name}-b", f"{name}2"} == {f"{name}2"}
    kept = [row["topic"] for row in run("offsets", "get", name, "--json").json]
    assert kept == [f"{name}2"]


def test_topics_delete_reports_rejected_and_deleted_topics(
    bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topics", "create", f"{name}-a", f"{name}-b")
    asked = Connection.call

    def refuses(connection: Connection, api: str, value: Value, *more: Any) -> Value:
        """Deletes only the first topic of a DeleteTopics request, and adds
        TOPIC_AUTHORIZATION_FAILED for the second topic to the response."""
        if api != "DeleteTopics":
            return asked(connection, api, value, *more)
        for topics_field in ("topics", "topic_names"):
            value[topics_field] = value[topics_field][:1]
        answer = asked(connection, api, value, *more)
        code = errors.TOPIC_AUTHORIZATION_FAILED
        no = {"name": f"{name}-b", "error_code": code, "error_message": None}
        answer["responses"].append(no)
        return answer

    monkeypatch.setattr(Connection, "call", refuses)
    ran = run("topics", "delete", f"{name}-*", "--execute")

    assert ran.code == 1
    assert ran.out.endswith(
        f"Deleted topic {name}-a\nNot deleted: topic {name}-b: TOPIC_AUTHORIZATION_FAILED\n"
    )
    assert ran.err == f"muster: 1 topic of 2 deleted; not deleted: {name}-b\n"


def test_topics_create_of_several_topics_reports_each_result(bootstrap: str, name: str) -> None:
    run("topics", "create", f"{name}-b")
    ran = run("topics", "create", f"{name}-a", f"{name}-b", f"{name}-c")
    again = run("topics", "create", f"{name}-a", f"{name}-d", "--if-not-exists", "--json")

    assert ran.code == 1
    a, b, c = ran.out.splitlines()
    assert (a, c) == (f"Created topic {name}-a", f"Created topic {name}-c")
    assert b.startswith(f"Not created: topic {name}-b: ")
    assert "TOPIC_ALREADY_EXISTS" in b
    assert ran.err == f"muster: 2 topics of 3 created; not created: {name}-b\n"
    assert again.json == [
        {"topic": f"{name}-a", "created": False, "error": None},
        {"topic": f"{name}-d", "created": True, "error": None},
    ]
