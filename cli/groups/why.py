"""`muster groups why`: shows a group's last rebalances and their causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from cli import output
from cli.client.group_reads import CLASSIC
from cli.http import api_at, group_path
from cli.names import partitions_text
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    GroupName,
    Http,
    Json,
    Timeout,
    whole_number,
)
from cli.times import instant, span
from verdicts.refused_words import NEW_PROTOCOL

Value = dict[str, Any]

_NAMED = 3
_JOIN_ENDS = {
    "all_joined": "all members had joined",
    "join_timed_out": "the rebalance timeout expired",
    "initial_delay_ended": "the initial delay ended",
    "nobody_left": "no members were left",
}
_NOT_ENDED = {
    "interrupted": "not completed: another rebalance began",
    "unloaded": "not completed: the group's partition of __consumer_offsets was unloaded",
    "stopped": "not completed: the broker stopped",
}
_KEPT, _LOG = "  [kept]", "  [log]"
_MARKS = {
    _KEPT: "[kept]: recorded before the broker's last start",
    _LOG: "[log]: read from __consumer_offsets, which does not record causes",
}


def why(
    group: GroupName,
    last: Annotated[
        int, whole_number("--last", least=1, most=INT32, help="Number of rebalances to show.")
    ] = 5,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show why a group rebalanced, the newest rebalance last. Needs Muster's HTTP API."""
    api = api_at(bootstrap, "groups why", http, timeout, group)
    journal = api.get(group_path(group, "journal"), last=last)
    if json:
        output.show_json(journal)
        return
    for line in story(journal):
        output.say_folded(line)


def story(journal: Value) -> list[str]:
    """Returns the lines for a journal that the HTTP API has returned."""
    head = f"{journal['group']}  {journal['state'] or 'does not exist'}"
    if journal["state"] and not journal["findings"]:
        head += "  OK"
    lines = [head, *finding_lines(journal["findings"], "groups why"), *_of_streams(journal)]
    paragraphs: list[tuple[int, list[str]]] = []
    restored = journal["restored"]
    if restored is not None:
        paragraphs.append((restored["at_ms"], _restored(restored)))
    rebalances = journal["rebalances"]
    paragraphs += [(each["began_ms"], _rebalance(each)) for each in rebalances]
    since_ms = rebalances[0]["began_ms"] if rebalances else 0
    for note in journal["notes"]:
        if note["at_ms"] >= since_ms:
            line = f"{instant(note['at_ms'])}  {_noted(note)}{_mark(note)}"
            paragraphs.append((note["at_ms"], [line]))
    for moved in journal["moved_back"]["last"]:
        if moved["at_ms"] >= since_ms:
            paragraphs.append((moved["at_ms"], [_moved(moved)]))
    for lost in journal.get("losses", {"last": ()})["last"]:
        if lost["at_ms"] >= since_ms:
            line = f"{instant(lost['at_ms'])}  {lost['sentence']}{_mark(lost)}"
            paragraphs.append((lost["at_ms"], [line]))
    for _, paragraph in sorted(paragraphs, key=lambda pair: pair[0]):
        lines += paragraph
    counted = _counted(journal)
    if not paragraphs and not counted:
        lines.append("no events since the broker started")
    lines += counted
    lines += [text for mark, text in _MARKS.items() if any(line.endswith(mark) for line in lines)]
    return lines


def _of_streams(journal: Value) -> list[str]:
    """Returns lines about a streams group: why it assigns no tasks, a requested shutdown, and the
    tasks for which members wait. Returns no lines for other groups."""
    topology = journal.get("topology")
    if topology is None:
        return []
    lines = []
    if topology["problem"] and not any(
        each["verdict"] == "NOT_READY" for each in journal["findings"]
    ):
        lines.append(f"no task is assigned: {topology['problem']['detail']}")
    if topology["delayed_until_ms"]:
        until = instant(topology["delayed_until_ms"])
        lines.append(f"the first assignment waits until {until} for further members")
    if topology["shutdown_by"]:
        lines.append(
            f"{topology['shutdown_by']} requested the shutdown of the application; every instance"
            " must end"
        )
    waits = journal["task_waits"]
    for each in waits[:_NAMED]:
        role = "" if each["role"] == "active" else f"{each['role']} "
        lines.append(
            f"{each['waiting']} waits for {role}task {each['task']}, which {each['member']} must"
            " give up"
        )
    if len(waits) > _NAMED:
        lines.append(f"and {len(waits) - _NAMED} more tasks are awaited")
    return lines


def _counted(journal: Value) -> list[str]:
    """Returns lines for events that the journal only counts, such as rejected commits."""
    lines = []
    lines += _refused(journal["rejected_commits"], "commit")
    lines += _refused(journal.get("refused_joins", ()), "join")
    for each in journal["flapping"]:
        lines.append(
            f"{each['member']} from {each['host']} keeps changing its metadata"
            f" ({output.counted(each['changes'], 'time')}), last: {each['last']}"
            f"{_mark(each)}"
        )
    for each in journal["returning"]:
        instance = each.get("instance")
        who = f"static member {instance}" if instance else each["client"]
        new = "" if instance else ", each time with a new member id"
        lines.append(
            f"{who} from {each['host']} {each.get('what', 'has joined again')}"
            f" {output.counted(each['times'], 'time')}{new}, last at"
            f" {instant(each['last_ms'])}: {each['advice']}{_mark(each)}"
        )
    return lines


def _refused(rows: Sequence[Value], request: str) -> list[str]:
    """Returns lines for rejected requests, with the clients of the last rejections."""
    lines = []
    for rejected in rows[-_NAMED:]:
        example = rejected["last"]
        who = example["member"] or example["client"] or "unknown client"
        if example["why"] == NEW_PROTOCOL:  # the client sends no JoinGroup
            last = instant(rejected["last_ms"])
            lines.append(
                f"{who} from {example['host']} is not served, last seen at {last}:"
                f" {example['why']}{_mark(rejected)}"
            )
            continue
        lines.append(
            f"{output.counted(rejected['count'], request)} refused with {rejected['error']}, the"
            f" last at {instant(rejected['last_ms'])}: {who} from {example['host']},"
            f" {example['why']}{_mark(rejected)}"
        )
    left = sum(each["count"] for each in rows[:-_NAMED])
    if left:
        lines.append(f"{output.counted(left, f'more {request}')} refused; --json shows all")
    return lines


def finding_lines(findings: Iterable[Value], by: str) -> list[str]:
    """Returns lines with the sentence, advice and command of each finding, worst first."""
    lines = []
    for each in findings:
        lines += [f"{each['verdict']}: {each['sentence']}", *advice(each, by)]
    return lines


def advice(finding: Value, by: str) -> list[str]:
    """Returns the advice on a finding, and the recommended command. Omits the command if it is the
    running command ``by``."""
    lines = [f"    {finding['advice']}"] if finding["advice"] else []
    command = finding["command"] or ""
    is_new = command and not command.startswith(f"muster {by} ")
    return [*lines, f"    $ {command}"] if is_new else lines


def _mark(entry: Value) -> str:
    """Returns the mark of a journal entry from before the start of the broker, such as ``[kept]``.
    The mark says whether the entry is from the saved journal or from the log. Returns "" for
    entries since the start."""
    return _KEPT if entry["source"] == "kept" else _LOG if entry["source"] == "log" else ""


def some(names: Iterable[str]) -> str:
    """Returns the first _NAMED names as text, and the number of further names."""
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def name_of(member: Value) -> str:
    """Returns the instance id of a static member, or the member id of any other member."""
    return str(member["instance"] or member["member"])


def partitions_of(owned: dict[str, list[int]] | None, size: int) -> str:
    """Returns a member's assignment as text; its size in bytes if it can't be decoded."""
    if owned is None:
        return f"{size} bytes"
    parts = [partitions_text(topic, found) for topic, found in sorted(owned.items()) if found]
    return " ".join(parts) or "nothing"


def _noted(note: Value) -> str:
    """Returns the text of a note, with its number of repetitions."""
    times = note.get("times", 1)
    if times == 1:
        return str(note["text"])
    first, last = instant(note["since_ms"]), instant(note["at_ms"])
    who = f"static member {note['instance']}"
    again = f"another process took over {who} {times} times between {first} and {last}"
    return f"{again}, last: {note['text']}"


def _restored(restored: Value) -> list[str]:
    last = restored["generations"][-1]
    return [
        f"{instant(restored['at_ms'])}  the coordinator started and loaded the group from"
        f" offset {last['log_offset']} of its __consumer_offsets partition:"
        f" generation {last['generation']}, {output.counted(last['members'], 'member')}"
    ]


def _rebalance(entry: Value) -> list[str]:
    if entry["source"] == "log":
        led = f", led by {entry['leader']}" if entry["leader"] else ""
        return [f"{instant(entry['began_ms'])}  {_generation(entry)}{led}{_LOG}"]
    heard = entry["last_heard_ms"]
    since = "" if heard is None else f", last heard at {instant(heard)}"
    lines = [f"{instant(entry['began_ms'])}  {entry['why']}{since}"]
    if entry["cause"] == "leader_rejoined" and entry["why"].endswith("rejoined"):
        lines[0] += (
            ", with the same topics (a leader rejoins when the partitions of a topic change)"
        )
    lines[0] += _mark(entry)
    if entry.get("type", CLASSIC) != CLASSIC:
        return [*lines, *_with_epochs(entry)]
    if entry["phase"] != "ended":
        waits = some(map(name_of, entry["awaited"])) if entry["awaited"] else "no member"
        lines.append(
            f"    {entry['phase']} phase in progress: waiting for {waits},"
            f" until {instant(entry['until_ms'])} at the latest"
        )
        lines += [
            f"        {name_of(each)} from {each['host'] or 'an unknown host'}: {each['words']}"
            for each in entry["awaited"][:_NAMED]
        ]
    for change in entry["changes"]:
        lines += _changed(entry, change)
    if entry["more_changes"]:
        lines.append(f"    and {entry['more_changes']} more members joined or left")
    if entry["join_ms"] is not None:
        ended = _JOIN_ENDS.get(entry["join_ended_by"], entry["join_ended_by"])
        line = f"    the join phase took {span(entry['join_ms'])}: {ended}"
        if entry["last_member"] and entry["last_wait_ms"]:
            wait = span(entry["last_wait_ms"])
            line += f"; {entry['last_member']} joined last, {wait} after the previous member"
        if entry["sync_ms"] is not None:
            line += f"; the sync phase took {span(entry['sync_ms'])}"
        lines.append(line)
    lines.append(_outcome(entry))
    return [line for line in lines if line]


def _with_epochs(entry: Value) -> list[str]:
    """Returns the lines that follow the cause of a rebalance, for a consumer group or share
    group."""
    epoch = f"epoch {entry['generation']}"
    lines = [line for change in entry["changes"] for line in _changed(entry, change)]
    if entry["moved"]:
        lines.append(f"    {epoch}: {entry['protocol']} assigns {entry['moved']}")
    if entry["phase"] == "assign":
        lines.append(f"    {epoch}: the next heartbeat of a member computes the assignment")
    elif entry["phase"] == "revoke" and entry["awaited"]:
        waits = some(map(name_of, entry["awaited"]))
        lines.append(f"    {epoch}: waiting for {waits} to give up partitions")
        if entry["until_ms"]:
            lines[-1] += (
                f"; otherwise the coordinator removes the member at {instant(entry['until_ms'])}"
            )
    elif entry["outcome"] == "assigned":
        took = span((entry["join_ms"] or 0) + (entry["sync_ms"] or 0))
        members = output.counted(entry["members"], "member")
        lines.append(f"    {epoch}: stable after {took}, {members}: {_got(entry)}")
    elif entry["outcome"] in _NOT_ENDED:
        lines.append(f"    {epoch}: {_NOT_ENDED[entry['outcome']]}")
    elif entry["outcome"]:
        lines.append(f"    {epoch}: no members were left: the group is empty")
    return lines


def _changed(entry: Value, change: Value) -> list[str]:
    same = change["same_client"]
    if not _is_the_cause(entry, change):
        colon = ":" if change["what"].startswith(("session expired", "its ", "nothing")) else ""
        who = f"{name_of(change)} from {change['host']}{colon} {change['what']}"
        who += "" if same is None else f"; {same['words']}"
        return [f"    {instant(change['at_ms'])}  {who}"]
    return [] if same is None else [f"    {same['words']}"]


def _is_the_cause(entry: Value, change: Value) -> bool:
    return bool(change["member"] == entry["member"] or change["member"] in entry["why"])


def _outcome(entry: Value) -> str:
    if str(entry["outcome"]).startswith("nobody"):
        return "    no members were left: the group is empty"
    if entry["outcome"] in _NOT_ENDED:
        return f"    {_NOT_ENDED[entry['outcome']]}"
    if entry["outcome"] != "assigned":
        return ""
    got = _got(entry)
    return f"    {_generation(entry)}: {got}" if got else f"    {_generation(entry)}"


def _got(entry: Value) -> str:
    """Returns the first assignments of a journal entry as text."""
    return some(
        f"{name_of(each)} got {partitions_of(each['partitions'], each['assignment_bytes'])}"
        for each in entry["assigned"]
    )


def _generation(entry: Value) -> str:
    protocol = f" ({entry['protocol']})" if entry["protocol"] else ""
    members = output.counted(entry["members"], "member")
    return f"generation {entry['generation']}{protocol}, {members}"


def _moved(moved: Value) -> str:
    one = moved["examples"][0]
    others = output.counted(moved["offsets"] - 1, "more offset")
    more = f", and {others}" if moved["offsets"] > 1 else ""
    who = moved["member"] or _sender(moved)
    return (
        f"{instant(moved['at_ms'])}  {who} from {moved['host']} moved {one['topic']}:"
        f"{one['partition']} back from {one['from']} to {one['to']}{more}{_mark(moved)}"
    )


def _sender(change: Value) -> str:
    """Returns the principal and client id that caused a change, as far as they are known."""
    principal, client = change.get("principal"), change["client"]
    if principal and client:
        return f"{principal} (client {client})"
    return principal or client or "unknown client"
