"""Writes docs/configuration.md from the tables of settings; `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from broker.config_table import BROKER, TOPIC, Setting
from broker.config_value import render
from broker.dynamic_settings import DYNAMIC

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"

HEAD = """# Configuration

Muster reads Apache Kafka's broker properties by Kafka's names. They come from four places, the
later the stronger:

1. a file in the form of `server.properties`: `muster serve --config server.properties`;
2. the environment: `MUSTER_LOG_RETENTION_MS=60000` is `log.retention.ms=60000`;
3. `--set`, as often as needed: `muster serve --set log.retention.ms=60000`;
4. the other options: `--listen HOST:PORT` is `listeners`, `--data DIR` is `log.dirs`, `--http
   HOST:PORT` (or `off`) is `http.listener`.

A value that its setting does not take ends the start with one sentence:

    $ muster serve --set num.partitions=0
    muster serve: num.partitions=0: it must be at least 1

Names that Kafka does not know are listed in one warning and ignored. Names that Kafka knows and
that have no effect here are accepted in silence, so that an existing `server.properties` can be
used as it is; they stand at the end of this page. Nothing that protects is ignored: an authorizer,
or a listener with another security protocol than PLAINTEXT, ends the start. `muster config check
FILE` shows all of this beforehand, setting by setting.

Without a file Muster behaves as Kafka with the `server.properties` of its quick start:
`group.initial.rebalance.delay.ms` is 0 unless a source sets it. With a file Kafka's own default of
3000 holds. What the settings of groups and offsets do, one by one, stands in
[settings-of-groups.md](settings-of-groups.md).

A topic has its own settings, with which it was created or which were altered since, and the
broker's where it has none. AlterConfigs and IncrementalAlterConfigs (`muster configs set`,
`kafka-configs`) change topics, and the broker where the first table says "yes": this one (its id),
or every broker (the empty name, `--entity-default`). What was changed at run time is stronger than
the four places above, holds at once, and is kept in the data directory. SIGHUP has the broker read
the four places again: of what differs, the same settings hold at once, and a line names the rest.
Some of it waits: `num.recovery.threads.per.data.dir` counts at the next start,
`segment.index.bytes`, `segment.jitter.ms` and `preallocate` from the next segment on.

This page is written by `tools/make_configuration.py`; a test compares it with the tables.
"""


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        "\n## Settings of the broker\n\n",
        *_table((setting for setting in BROKER.values() if setting.has_effect), DYNAMIC),
        "\n## Settings of topics\n\n",
        *_table(setting for setting in TOPIC.values() if setting.has_effect),
        "\n## Known, and without effect\n\n",
        "Of the broker: ",
        ", ".join(f"`{s.name}`" for s in _sorted(BROKER.values()) if not s.has_effect),
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


def _sorted(settings: Iterable[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.name)


def main() -> None:
    """The entry point."""
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
