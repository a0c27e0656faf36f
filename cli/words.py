"""Words of other tools, with the commands of `muster` to use instead. For example, a user who types
the option ``--describe`` of Kafka's tools sees the right command of `muster`.
docs/use/command-line.md lists the tools. A test compares that list with TOOLS, and checks that
every command named in this module exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_MOVE = (
    "`muster groups reset` moves offsets to an offset or a time, `muster offsets set` sets single"
    " offsets"
)
_FIX = (
    "`muster groups why` shows problems of a group, `muster groups reset` moves offsets,"
    " `muster groups evict` removes a member, `muster pipeline restore` restores offsets"
)
_SETTINGS = "`muster configs set` changes settings, `muster configs get` shows settings"
_BACKUP = (
    "`muster backup create` saves topics, settings and offsets, `muster offsets export` saves only"
    " offsets, `muster pipeline events` saves the history of offsets"
)
_RESTORE = (
    "`muster backup restore` restores a backup, `muster offsets import` commits a file of offsets,"
    " `muster pipeline restore` restores the offsets as of a time"
)
_NO_BROKER = (
    "`muster logs dump`, `muster config check` and `muster backup show` need no broker;"
    " `muster cluster` counts offline partitions (without a leader)"
)

ANYWHERE: Mapping[str, str] = {
    "alter": "`muster topics grow` adds partitions, `muster configs set` changes settings,"
    " `muster groups reset` moves offsets",
    "broker": "`muster serve` runs a broker, `muster cluster` shows brokers",
    "brokers": "`muster cluster` shows brokers",
    "fix": _FIX,
    "health": "`muster cluster check` shows problems, and a broker serves /healthz over HTTP",
    "help": "`muster --help` lists the commands, `muster COMMAND --help` lists their options",
    "kcat": "use `muster consume` and `muster produce`",
    "kick": "`muster groups evict` removes a member from its group",
    "metrics": "`muster top` shows rates, and a broker serves /metrics over HTTP",
    "offline": _NO_BROKER,
    "partitions": "`muster topics describe` shows partitions, `muster topics grow` adds partitions",
    "purge": "`muster topics trim` deletes the oldest records of partitions",
    "read": "`muster consume` prints records",
    "rebalance": "`muster groups why` shows why a group rebalanced",
    "recover": _RESTORE,
    "remove": "`muster topics delete`, `muster groups delete` and `muster offsets delete`; each"
    " command shows the plan before it deletes",
    "repair": _FIX,
    "replay": _MOVE,
    "restart": "`muster serve` runs a broker until SIGTERM; SIGHUP reloads its settings",
    "rewind": _MOVE,
    "seek": _MOVE,
    "send": "`muster produce` sends records",
    "show": "`muster topics describe`, `muster groups describe`, `muster offsets get` and"
    " `muster configs get`",
    "server": "`muster serve` runs a broker",
    "start": "`muster serve` runs a broker",
    "status": "`muster cluster` shows brokers, `muster groups list` shows the groups' verdicts,"
    " `muster top` shows the busiest groups, topics and clients",
    "stop": "stop a broker with SIGTERM, `systemctl stop` or Ctrl-C",
    "tail": "`muster consume` prints records as they arrive",
    "truncate": "`muster topics trim` deletes the oldest records of partitions",
    "update": _SETTINGS,
    "validate": "`muster config check` checks a server.properties file, `muster logs dump` checks"
    " log files",
    "version": "`muster --version`",
}
"""By a word that is not a command of `muster`, such as `alter`: text that names the commands to use
instead. The text applies whatever noun precedes the word."""

AFTER: Mapping[str, Mapping[str, str]] = {
    "topics": {
        "add": "`muster topics create`",
        "alter": "`muster topics grow` adds partitions, `muster configs set` changes settings",
        "configs": "`muster configs get --topic NAME` shows the settings of a topic",
        "show": "`muster topics describe`",
        "update": "`muster topics grow` adds partitions, `muster configs set` changes settings",
    },
    "groups": {
        "alter": _MOVE,
        "create": "a group is created by its first member or its first committed offset:"
        " `muster offsets set` commits an offset",
        "explain": "`muster groups why`",
        "export": "`muster offsets export`",
        "import": "`muster offsets import`",
        "leave": "`muster groups evict` removes a member from its group",
        "offsets": "`muster offsets get GROUP` shows offsets, `muster groups lag GROUP` shows lag",
        "pause": "stop the consumers' processes; `muster groups evict` removes a member",
        "remove-member": "`muster groups evict` removes a member from its group",
        "remove": "`muster groups delete` deletes a group, `muster groups evict` removes a member",
        "restart": "restart the consumers' processes; `muster groups evict` removes a member and"
        " rebalances the group",
        "show": "`muster groups describe`",
        "start": "a group is created by its first consumer: `muster consume TOPIC --group GROUP`",
        "state": "`muster groups list` shows the state of each group",
        "status": "`muster groups list` shows the state of each group",
        "stop": "stop the consumers' processes; `muster groups evict` removes a member",
    },
    "offsets": {
        "alter": _MOVE,
        "backup": _BACKUP,
        "describe": "`muster offsets get GROUP`",
        "list": "`muster offsets get GROUP` shows the offsets of a group, `muster offsets export`"
        " writes the offsets of all groups",
        "reset": "`muster groups reset`",
        "restore": _RESTORE,
        "show": "`muster offsets get GROUP`",
    },
    "configs": {
        "alter": "`muster configs set`",
        "check": "`muster config check` checks a file",
        "delete": "`muster configs set --delete NAME` resets a setting to its default",
        "describe": "`muster configs get`",
        "list": "`muster configs get`",
        "show": "`muster configs get`",
        "unset": "`muster configs set --delete NAME`",
        "update": "`muster configs set`",
    },
    "config": {
        "alter": "`muster configs set`, with an s, changes the settings of a running broker",
        "get": "`muster configs get`, with an s, reads the settings of a running broker",
        "set": "`muster configs set`, with an s, changes the settings of a running broker",
        "validate": "`muster config check`",
    },
    "logs": {
        "check": "`muster logs dump` exits with 4 if a file is damaged",
        "tail": "`muster consume` prints records as they arrive",
        "verify": "`muster logs dump` exits with 4 if a file is damaged",
    },
    "transactions": {
        "describe-producers": "`muster transactions describe --topic TOPIC:0`",
        "explain": "`muster transactions why`",
        "fence": "`muster transactions abort ID` fences the producer of a transactional id",
        "find-hanging": "`muster transactions hanging`",
        "show": "`muster transactions describe`",
        "terminate": "`muster transactions abort`",
    },
    "acls": {
        "check": "`muster acls explain` shows whether an operation is allowed",
        "create": "`muster acls add`",
        "delete": "`muster acls remove`",
        "why": "`muster acls explain`",
    },
    "quotas": {
        "add": "`muster quotas set`",
        "alter": "`muster quotas set`",
        "delete": "`muster quotas remove`",
        "describe": "`muster quotas list`",
        "get": "`muster quotas list`",
    },
    "backup": {"import": "`muster backup restore`", "save": "`muster backup create`"},
}
"""Corrections of wrong commands, by their first and second word. For the words `topics` and `add`,
the correction is `muster topics create`."""

TOOLS: Mapping[str, Mapping[str, str]] = {
    "acls": {
        "": "`muster acls`",
        "--list": "`muster acls list`",
        "--add": "`muster acls add`",
        "--remove": "`muster acls remove`",
    },
    "broker-api-versions": {"": "`muster cluster --apis`"},
    "cluster": {"": "`muster cluster`"},
    "configs": {
        "": _SETTINGS,
        "--describe": "`muster configs get`",
        "--alter": "`muster configs set`",
        "users": "`muster quotas` changes quotas, `muster users` changes passwords",
        "clients": "`muster quotas`",
        "ips": "`muster quotas`",
    },
    "console-consumer": {"": "`muster consume`"},
    "console-producer": {"": "`muster produce`"},
    "consumer-groups": {
        "": "`muster groups`, `muster offsets`",
        "--list": "`muster groups list`",
        "--describe": "`muster groups describe GROUP`, `muster groups lag GROUP`",
        "--members": "`muster groups members GROUP`",
        "--state": "`muster groups list`",
        "--type": "`muster groups list --type TYPE`",
        "--reset-offsets": "`muster groups reset`",
        "--delete": "`muster groups delete`",
        "--delete-offsets": "`muster offsets delete`",
        "--export": "`muster offsets export`",
    },
    "delegation-tokens": {
        "": "muster does not have a command for delegation tokens; use Apache Kafka's tool"
    },
    "delete-records": {"": "`muster topics trim`"},
    "dump-log": {"": "`muster logs dump`"},
    "get-offsets": {"": "`muster topics describe`"},
    "log-dirs": {"": "`muster topics list` and `muster cluster` show sizes in bytes"},
    "mirror-maker": {"": "`muster pipeline replicate` translates offsets, without copying records"},
    "server-start": {"": "`muster serve --config FILE`"},
    "server-stop": {"": "send SIGTERM to `muster serve`"},
    "share-groups": {
        "": "`muster share`",
        "--list": "`muster groups list`",
        "--describe": "`muster share describe GROUP`",
        "--members": "`muster groups members GROUP`",
    },
    "storage": {"": "`muster serve` creates its data directory itself"},
    "streams-application-reset": {"": "`muster groups reset`"},
    "streams-groups": {
        "": "`muster groups`",
        "--list": "`muster groups list --type streams`",
        "--describe": "`muster groups describe GROUP`",
        "--reset-offsets": "`muster groups reset`",
        "--delete": "`muster groups delete`",
        "--delete-offsets": "`muster offsets delete`",
    },
    "topics": {
        "": "`muster topics`",
        "--list": "`muster topics list`",
        "--describe": "`muster topics describe`",
        "--create": "`muster topics create`",
        "--alter": "`muster topics grow`",
        "--delete": "`muster topics delete`",
    },
    "transactions": {
        "": "`muster transactions`",
        "list": "`muster transactions list`",
        "describe": "`muster transactions describe ID`",
        "describe-producers": "`muster transactions describe --topic TOPIC:0`",
        "abort": "`muster transactions abort --topic TOPIC:0 --start-offset N`",
        "find-hanging": "`muster transactions hanging`",
        "forceTerminateTransaction": "`muster transactions abort ID`",
    },
}
"""By tool of Kafka (without kafka-) and option of the tool: the command of `muster` that replaces
them. The option "" is for calls without one of the other options."""

_NICKNAMES = {
    "consumer-group": "consumer-groups",
    "console-consume": "console-consumer",
    "console-produce": "console-producer",
    "dump-log-segments": "dump-log",
}
_SAME_OPTIONS = {"--user": "users", "--client": "clients", "--ip": "ips"}
"""Short options of kafka-configs, with their entity types: ``--user alice`` means ``--entity-type
users --entity-name alice``."""
_SIMILAR = {
    "cat": "read",
    "check": "validate",
    "drop": "remove",
    "edit": "alter",
    "info": "show",
    "modify": "alter",
    "move": "seek",
    "new": "add",
    "nodes": "brokers",
    "ps": "status",
    "publish": "send",
    "rm": "remove",
    "rollback": "recover",
    "run": "start",
    "save": "backup",
    "ping": "health",
    "verify": "validate",
    "view": "show",
}
"""For a word without an entry in ANYWHERE or AFTER: a synonym to try."""


def instead(noun: str, word: str, rest: Sequence[str], commands: Iterable[str]) -> str | None:
    """Returns the command to use instead of ``muster NOUN WORD REST``; None if unknown. ``noun``
    may be empty. ``commands`` are all commands, such as ``groups reset`` or ``top``."""
    if not noun and (hint := _of_tool(word, rest)):
        return hint
    same = [f"`muster {name}`" for name in commands if name.split()[1:] == [word]]
    similar = _SIMILAR.get(word, "")
    return (
        AFTER.get(noun, {}).get(word)
        or ANYWHERE.get(word)
        or ", ".join(same)
        or AFTER.get(noun, {}).get(similar)
        or ANYWHERE.get(similar)
    )


def _of_tool(word: str, rest: Sequence[str]) -> str | None:
    name = word.removesuffix(".sh").removesuffix(".bat")
    is_apaches = name.startswith("kafka-")
    name = name.removeprefix("kafka-")
    options = TOOLS.get(_NICKNAMES.get(name, name))
    if options is None or not (is_apaches or "-" in name):
        return None
    # The last option in the order of TOOLS decides, so --members takes precedence over --describe.
    given = {_SAME_OPTIONS.get(each, each) for each in rest}
    known = [option for option in options if option and option in given]
    return options[known[-1] if known else ""]
