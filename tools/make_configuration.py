"""Writes docs/operate/configuration.md from the tables of settings; `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from broker.config.config_table import BROKER, TOPIC, Setting
from broker.config.config_value import render
from broker.config.dynamic_settings import DYNAMIC
from broker.config.not_followed import NOT_FOLLOWED
from broker.config.protection import FAMILIES, SINGLE, protects

PAGE = Path(__file__).parents[1] / "docs" / "operate" / "configuration.md"

HEAD = """# Configuration

Muster reads Apache Kafka's broker properties by Kafka's names. They come from four places; a later
one overrides an earlier one:

1. a file in the form of `server.properties`: `muster serve --config server.properties`;
2. the environment: `MUSTER_LOG_RETENTION_MS=60000` is `log.retention.ms=60000`. With `--kafka-env`
   the [variables of Kafka's images](operating.md#with-the-variables-of-kafkas-images) are read too,
   weaker than those of Muster;
3. `--set`, repeatable: `muster serve --set log.retention.ms=60000`;
4. the other options: `--listen HOST:PORT` is `listeners`, `--data DIR` is `log.dirs`, `--http
   HOST:PORT` (or `off`) is `http.listener`.

An invalid value ends the start with one sentence, and several with a line each:

    $ muster serve --set num.partitions=0
    muster serve: num.partitions=0: it must be at least 1

Names that Kafka does not know are listed in one warning and ignored. Names that Kafka knows and
that have no effect here are accepted without a warning, so that an existing `server.properties` can
be used as it is; the end of this page lists them. Some of them request what Muster does not do,
such as a KRaft quorum: each of these logs a warning ([below](#not-followed)). A security setting is
never ignored: one that Muster does not support ends the start ([below](#settings-that-protect)).
`muster config check FILE` shows all of this beforehand, setting by setting, with every fault.

Kubernetes sets variables such as `MUSTER_PORT=tcp://10.0.0.1:9092` and `MUSTER_SERVICE_HOST` in
every pod of a namespace with a service called `muster`. They are not settings, and the log names
them only at level `debug`. A variable that a person wrote, such as `MUSTER_PORT=9092`, is in the
warning.

Without a file Muster behaves as Kafka with the `server.properties` of its quick start:
`group.initial.rebalance.delay.ms` is 0 unless a source sets it. With a file Kafka's default of
3000 holds. [settings-of-groups.md](settings-of-groups.md) has the settings of groups and offsets
one by one.

A topic has its own settings, from its creation or altered since; for all others the broker's hold.
AlterConfigs and IncrementalAlterConfigs (`muster configs set`, `kafka-configs`) change topics, and
the broker's settings that have "yes" in the first table: for this broker (its id) or for every
broker (the empty name, `--entity-default`). A change at run time overrides the four places above,
holds at once, and is stored in the data directory. On SIGHUP the broker reads the four places
again: changed settings that have "yes" hold at once, and a log line names the others. Some take
effect later: `num.recovery.threads.per.data.dir` at the next start, `segment.index.bytes`,
`segment.jitter.ms` and `preallocate` with the next segment.

This page is written by `tools/make_configuration.py`; a test compares it with the tables.
"""


PROTECTING = """
## Settings that protect

[security.md](security.md) describes TLS, logins, ACLs and quotas. Kafka has more security settings.
A broker that ignored them would be open while its operator believes it closed. So it does not
start, and one sentence names all of them:

    $ muster serve --set ssl.provider=BC --set create.topic.policy.class.name=a.Policy
    muster serve: security settings are never ignored, and Muster does not support
    Java plug-in classes (ssl.provider), policies for topics and settings
    (create.topic.policy.class.name); remove the ones that you do not need

It makes no difference whether they come from a file, the environment or `--set`. If SIGHUP finds
one, the settings stay as they were, with a log line; AlterConfigs is answered INVALID_CONFIG. A
value that asks for no protection is accepted: Kafka's default, or an empty one.

A name that begins with `ssl.`, `sasl.` or `security.` and that Kafka does not know ends the start
too: it may be a misspelt one.

With any other value these are refused:

"""
PROTECTING_ALSO = """
Each of them may be a listener's (`listener.name.internal.ssl.provider`), a mechanism's
(`plain.sasl.server.callback.handler.class`) or both. Settings of one listener are those that begin
with `ssl.` or `sasl.`, `connections.max.reauth.ms`, `max.connections`,
`max.connection.creation.rate`, `num.network.threads` and `principal.builder.class`; the
certificates and the two limits can be changed at run time, for one broker by its id. A name that
begins with `listener.name.` and that no listener uses ends the start: capitals, a
listener that is not in `listeners`, any other setting.
"""
NOT_FOLLOWED_HEAD = """
## Not followed

Muster starts with these settings, and does something else than they ask for. Each has a warning at
the start, and `not followed` in `muster config check`:

| setting | when it is set | what is so instead |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        "\n## Settings of the broker\n\n",
        *_table((setting for setting in BROKER.values() if setting.has_effect), DYNAMIC),
        "\n## Settings of topics\n\n",
        *_table(setting for setting in TOPIC.values() if setting.has_effect),
        PROTECTING,
        *_protecting(),
        PROTECTING_ALSO,
        NOT_FOLLOWED_HEAD,
        *(f"| `{n}` | {each.when} | {each.instead} |\n" for n, each in NOT_FOLLOWED.items()),
        "\n## Known, and without effect\n\n",
        "Of the broker: ",
        ", ".join(f"`{s.name}`" for s in _sorted(BROKER.values()) if _is_ignored(s)),
        ".\n\nOf topics: ",
        ", ".join(f"`{s.name}`" for s in _sorted(TOPIC.values()) if not s.has_effect),
        ".\n",
    ]
    return "".join(parts)


def _table(settings: Iterable[Setting], changeable: Collection[str] = ()) -> Iterable[str]:
    column = " at run time |" if changeable else ""
    yield f"| setting | type | default | takes |{column} what it does |\n"
    yield f"|---|---|---|---|{'---|' if changeable else ''}---|\n"
    for setting in _sorted(settings):
        default = render(setting, setting.default)
        shown = "null" if default is None else default
        takes = setting.valid.replace(",...,", " to ").replace(",...]", " and more]")
        doc = setting.doc.replace("``", "`")
        if changeable:
            takes += " | yes" if setting.name in changeable else " | "
        yield f"| `{setting.name}` | {setting.type.lower()} | {shown} | {takes} | {doc} |\n"


def _protecting() -> Iterable[str]:
    """A line for each unsupported protection, with the settings that request it."""
    names: dict[str, list[str]] = {}
    for start, wanted in FAMILIES.items():
        names.setdefault(wanted, []).append(f"{start}*")
    for name, wanted in SINGLE.items():
        names.setdefault(wanted, []).append(name)
    for wanted, each in sorted(names.items(), key=lambda pair: pair[0].lower()):
        yield f"- {wanted}: {', '.join(f'`{name}`' for name in each)}\n"


def _is_ignored(setting: Setting) -> bool:
    return not (setting.has_effect or protects(setting.name) or setting.name in NOT_FOLLOWED)


def _sorted(settings: Iterable[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.name)


def main() -> None:
    """Write or check the page."""
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
