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

Muster reads Apache Kafka's broker properties by Kafka's names. Settings come from four sources; a
later source overrides an earlier source:

1. A file in the form of `server.properties`: `muster serve --config server.properties`.

2. The environment: `MUSTER_LOG_RETENTION_MS=60000` is `log.retention.ms=60000`. With `--kafka-env`,
   Muster also reads the [variables of Kafka's
   images](operating.md#with-the-variables-of-kafkas-images); Muster's own variables override them.

3. The option `--set`, repeatable: `muster serve --set log.retention.ms=60000`.

4. The other options: `--listen HOST:PORT` sets `listeners`, `--data DIR` sets `log.dirs`, and
   `--http HOST:PORT` (or `off`) sets `http.listener`.

Muster does not start with an invalid value. It prints one line for each invalid value:

    $ muster serve --set num.partitions=0
    muster serve: num.partitions=0: it must be at least 1

Muster treats settings that it can't apply in one of four ways:

| setting | Muster |
|---|---|
| a name that Kafka does not know | ignores it; one warning lists all such names |
| a name that Kafka knows and that has no effect in Muster | accepts it without \
a warning, so that an existing `server.properties` can be used unchanged; \
the end of this page lists these names |
| a setting that requests a feature that Muster does not have, such as a KRaft quorum \
| starts and logs a warning ([below](#not-followed)) |
| a security setting that Muster does not support | does not start \
([below](#settings-that-protect)) |

`muster config check FILE` reads a settings file without starting a broker. It shows how Muster
treats each setting, and all errors.

Kubernetes sets variables such as `MUSTER_PORT=tcp://10.0.0.1:9092` and `MUSTER_SERVICE_HOST` in
every pod of a namespace with a service called `muster`. Muster ignores these variables, and the log
names them only at level `debug`. If the value does not have the form that Kubernetes uses, as in
`MUSTER_PORT=9092`, Muster treats the variable as a setting, and warns that its name is unknown.

If `muster serve` runs without `--config`, the default of `group.initial.rebalance.delay.ms` is 0,
as in the `server.properties` of Kafka's quick start. With `--config`, the default is Kafka's 3000.
[settings-of-groups.md](settings-of-groups.md) explains each setting of groups and offsets.

A topic can have its own values of the [settings of topics](#settings-of-topics), from its creation
or from a later change. For all its other settings, the broker's values apply.

AlterConfigs and IncrementalAlterConfigs (`muster configs set`, `kafka-configs`) change settings of
topics at run time. They also change the broker's settings that have "yes" in the column *at run
time* of the [settings of the broker](#settings-of-the-broker): for one broker (by its id) or for
every broker (the empty name, `--entity-default`). A change overrides the settings file, the
environment and the options of `muster serve`, takes effect at once, and is stored in the data
directory.

On SIGHUP, the broker reads its settings file, the environment and its options again. Changed
settings that have "yes" in the column *at run time* of the [settings of the
broker](#settings-of-the-broker) take effect at once. A log line names changed settings that need a
restart.

When four settings are changed, the new values take effect later:
`num.recovery.threads.per.data.dir` at the next start, and `segment.index.bytes`,
`segment.jitter.ms` and `preallocate` with the next segment.

The program `tools/make_configuration.py` writes this page; a test compares the page with Muster's
tables of settings.
"""


PROTECTING = """
## Settings that protect

[security.md](security.md) describes TLS, logins, ACLs and quotas. Kafka has further security
settings that Muster does not support. If Muster ignored them, the broker would be unprotected
without a sign of it. So Muster does not start if such a setting is set. One error message names all
unsupported security settings:

    $ muster serve --set ssl.provider=BC --set create.topic.policy.class.name=a.Policy
    muster serve: security settings are never ignored, and Muster does not support
    Java plug-in classes (ssl.provider), policies for topics and settings
    (create.topic.policy.class.name); remove the settings that you do not need

Muster checks security settings from a file, the environment and `--set`. If it finds an unsupported
security setting on SIGHUP, it keeps the present settings and logs this. AlterConfigs with such a
setting gets INVALID_CONFIG. Muster accepts an unsupported security setting whose value requests no
protection: Kafka's default, or an empty value.

Muster also does not start if the name of a setting begins with `ssl.`, `sasl.` or `security.` and
Kafka does not have such a setting, because the name may be misspelt.

This list contains all security settings that Muster does not support. Muster accepts only Kafka's
defaults and empty values for them:

"""
PROTECTING_ALSO = """
The list also applies to names with the prefix of a listener
(`listener.name.internal.ssl.provider`), of a mechanism
(`plain.sasl.server.callback.handler.class`), or of both.

A listener may have its own values of the settings that begin with `ssl.` or `sasl.`, and of
`connections.max.reauth.ms`, `max.connections`, `max.connection.creation.rate`,
`num.network.threads` and `principal.builder.class`. The certificates of a listener,
`max.connections` and `max.connection.creation.rate` can be changed at run time, but only
for one broker, not as a default of all brokers.

Muster does not start with a setting whose name begins with `listener.name.` but that has no effect:
its name contains capital letters, names a listener that is not in `listeners`, or names a setting
that a listener can't have.
"""
NOT_FOLLOWED_HEAD = """
## Not followed

Muster starts with the settings of this table, but does not do what they request. For each such
setting, it logs a warning at the start, and `muster config check` shows `not followed`:

| setting | condition | what Muster does instead |
|---|---|---|
"""


def page() -> str:
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
        "Settings of the broker without an effect in Muster: ",
        ", ".join(f"`{s.name}`" for s in _sorted(BROKER.values()) if _is_ignored(s)),
        ".\n\nSettings of topics without an effect in Muster: ",
        ", ".join(f"`{s.name}`" for s in _sorted(TOPIC.values()) if not s.has_effect),
        ".\n",
    ]
    return "".join(parts)


def _table(settings: Iterable[Setting], changeable: Collection[str] = ()) -> Iterable[str]:
    column = " at run time |" if changeable else ""
    yield f"| setting | type | default | valid values |{column} effect |\n"
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
    """Yields one line for each unsupported security feature, with the settings that would enable
    it."""
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
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
