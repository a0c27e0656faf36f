"""The tables of settings: every broker property and topic setting of Kafka 3.9.2, and Muster's own
settings.

A row has a name, a type, a default, bounds in Kafka's notation, and one sentence on the effect of
the setting. A row without this sentence is a setting of Kafka that Muster accepts without effect.
Three defaults differ from Kafka's: ``listeners`` and ``log.dir``, so that a start without a file
works, and ``group.coordinator.append.linger.ms``, which is 0. The settings in ``_MUSTER`` do not
exist in Kafka. ``docs/operate/configuration.md`` is made from these tables.
"""

from __future__ import annotations

from typing import Final, NamedTuple

BOOLEAN: Final = "BOOLEAN"
INT: Final = "INT"
SHORT: Final = "SHORT"
LONG: Final = "LONG"
DOUBLE: Final = "DOUBLE"
STRING: Final = "STRING"
LIST: Final = "LIST"
CLASS: Final = "CLASS"
PASSWORD: Final = "PASSWORD"

Value = bool | int | float | str | None

OFFSETS_RECORDS: Final = "__consumer_offsets-PARTITION:OFFSET,..."
TRANSACTION_RECORDS: Final = "__transaction_state-PARTITION:OFFSET,..."
SHARE_STATE_RECORDS: Final = "__share_group_state-PARTITION:OFFSET,..."
THROTTLED: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
"""The notation for the valid values of a list of throttled replicas; ``*`` is also valid."""


TRANSACTION_VERSION: Final = "transaction.version"
"""The name of a Kafka feature, and of the broker setting that determines its level."""
TRANSACTION_VERSION_MAX: Final = 2
GROUP_VERSION: Final = "group.version"
"""The name of the Kafka feature for consumer groups (KIP-848). Consumer groups are served at level
1."""
GROUP_VERSION_MAX: Final = 1
SHARE_VERSION: Final = "share.version"
"""The name of the Kafka feature for share groups (KIP-932). Share groups are served at level 1."""
SHARE_VERSION_MAX: Final = 1
STREAMS_VERSION: Final = "streams.version"
"""The name of the Kafka feature for streams groups (KIP-1071). Streams groups are served at level
1."""
STREAMS_VERSION_MAX: Final = 1


class Setting(NamedTuple):
    """One row: a setting.

    ``valid`` has the form "[1,...]", "[1,...,9]", "[one, other]" or "... or -1"; "" accepts any
    value.
    """

    name: str
    type: str
    default: Value
    valid: str
    doc: str = ""

    @property
    def has_effect(self) -> bool:
        return bool(self.doc)


S = Setting

_MUSTER: Final = (
    S(
        "group.join.coalescing.ms",
        INT,
        0,
        "[0,...]",
        "How long a join into a stable group waits for further joins before the group"
        " rebalances; 0: no wait. Only in Muster.",
    ),
    S(
        "cluster.journal.file.max.bytes",
        INT,
        8 * 1024 * 1024,
        "[0,...]",
        "Bytes of the cluster's journal kept on disk, in cluster.journal and"
        " cluster.journal.old, so that `muster cluster why` shows events from before a restart;"
        " at least 64 KiB, or 0 to keep none. Only in Muster.",
    ),
    S(
        "group.journal.file.max.bytes",
        INT,
        8 * 1024 * 1024,
        "[0,...]",
        "Bytes of the groups' journal kept on disk, in groups.journal and groups.journal.old,"
        " so that `muster groups why` shows events from before a restart; at least 64 KiB, or 0"
        " to keep none. Only in Muster.",
    ),
    S(
        "group.consumer.rebalance.heartbeat.interval.ms",
        INT,
        500,
        "[0,...]",
        "The shortest heartbeat interval of a member of a consumer group (KIP-848) after a new"
        " target assignment; the interval then grows to group.consumer.heartbeat.interval.ms."
        " 0: constant, as in Kafka. Only in Muster.",
    ),
    S(
        "group.offsets.fetch.counts.as.activity",
        BOOLEAN,
        False,
        "",
        "Whether OffsetFetch requests of a group without members (its consumers use assign())"
        " prevent the expiry of its offsets. Only in Muster.",
    ),
    S(
        "http.advertised.listener",
        STRING,
        "",
        "",
        "The HOST:PORT at which clients reach this broker's HTTP server. Commands of muster read"
        " this setting with DescribeConfigs. Empty: the address of http.listener; the value is off"
        " if HTTP is off. Only in Muster.",
    ),
    S(
        "group.verdict.abandoned.ms",
        INT,
        60_000,
        "[0,...]",
        "Verdict ABANDONED: how long a group may have unread records but no members. Only in"
        " Muster.",
    ),
    S(
        "group.verdict.blocked.ms",
        INT,
        10_000,
        "[0,...]",
        "Verdict BLOCKED: how long a rebalance may wait for a member. Only in Muster.",
    ),
    S(
        "group.verdict.dead.letter.ms",
        INT,
        30_000,
        "[0,...]",
        "The old name of group.verdict.stuck.record.ms, accepted until the release after 0.1."
        " Only in Muster.",
    ),
    S(
        "group.verdict.stuck.record.ms",
        INT,
        30_000,
        "[0,...]",
        "Verdict STUCK_RECORD: how long one partition may be stuck while its owner reads other"
        " partitions. Only in Muster.",
    ),
    S(
        "group.verdict.locks.expire.ms",
        INT,
        300_000,
        "[0,...]",
        "Verdict LOCKS_EXPIRE: the window in which the expired locks of a member of a share group"
        " are counted. Only in Muster.",
    ),
    S(
        "group.verdict.refused.ms",
        INT,
        600_000,
        "[0,...]",
        "Verdict REFUSED: how long the verdict stays after a client's last rejected join. Only in"
        " Muster.",
    ),
    S(
        "group.verdict.flapping.ms",
        INT,
        300_000,
        "[0,...]",
        "Verdict FLAPPING: the window in which restarts and rebalances are counted. Only in"
        " Muster.",
    ),
    S(
        "group.verdict.flapping.rebalances",
        INT,
        8,
        "[1,...]",
        "Verdict FLAPPING: a group with at least this number of rebalances in the window flaps."
        " Joins of new members do not count. Only in Muster.",
    ),
    S(
        "group.verdict.flapping.returns",
        INT,
        3,
        "[1,...]",
        "Verdict FLAPPING: a client with at least this number of restarts in the window flaps. Only"
        " in Muster.",
    ),
    S(
        "group.verdict.lagging.ms",
        INT,
        60_000,
        "[0,...]",
        "Verdict LAGGING: the highest allowed age of the oldest unread record. Only in Muster.",
    ),
    S(
        "group.verdict.not.ready.ms",
        INT,
        10_000,
        "[0,...]",
        "Verdict NOT_READY: how long a streams group may lack topics of its application. Only in"
        " Muster.",
    ),
    S(
        "group.verdict.held.back.ms",
        INT,
        30_000,
        "[0,...]",
        "Verdict HELD_BACK: how long read_committed consumers may wait for the end of an"
        " open transaction. Only in Muster.",
    ),
    S(
        "group.verdict.stalled.ms",
        INT,
        30_000,
        "[0,...]",
        "Verdict STALLED: how long a committed offset may be stuck while records are unread."
        " Only in Muster.",
    ),
    S(
        "http.allowed.hosts",
        LIST,
        "",
        "",
        "Host names that HTTP requests may use, in addition to addresses and this machine's"
        " names: NAME, *.NAME for all names below NAME, or * for any name, which lets web pages"
        " of any site read this broker's HTTP. Only in Muster.",
    ),
    S(
        "http.authentication",
        LIST,
        "",
        "[basic, certificate]",
        "How readers of the page, /api and /metrics authenticate: basic (the name and password"
        " of a user of the listeners) or certificate (the certificate of a TLS client). Empty:"
        " no authentication. Only in Muster.",
    ),
    S(
        "http.listener",
        STRING,
        "127.0.0.1:9644",
        "",
        "Where the page, /metrics and /healthz are served: HOST:PORT, or off. Only in Muster.",
    ),
    S(
        "http.metrics.token",
        PASSWORD,
        None,
        "",
        "The token that Prometheus sends to read /metrics, as Authorization: Bearer TOKEN. With"
        " this token or http.authentication, only /healthz, /livez and /readyz are public. Only"
        " in Muster.",
    ),
    S(
        "http.security.protocol",
        STRING,
        "PLAINTEXT",
        "[PLAINTEXT, SSL]",
        "The protocol of http.listener; SSL is TLS with the settings http.ssl.*. Only in Muster.",
    ),
    S(
        "http.unprotected.allowed",
        BOOLEAN,
        False,
        "",
        "If true, an http.listener that other machines can reach may have no authentication, or"
        " may accept passwords without TLS: for use behind a proxy or in a private network. Only in"
        " Muster.",
    ),
    S(
        "metrics.compat",
        LIST,
        "",
        "[jmx, kminion, lag_exporter]",
        "/metrics always has the metrics of kafka_exporter; with this setting, also those of the"
        " listed exporters, under their names. Only in Muster.",
    ),
    S(
        "metrics.series.max",
        INT,
        1_000_000,
        "[1000,...]",
        "The highest number of series of /metrics for groups, members, topics and partitions;"
        " muster_metrics_series_left_out counts the omitted series. Only in Muster.",
    ),
    S(
        "log.format",
        STRING,
        "console",
        "[console, json]",
        "The format of log lines. Only in Muster.",
    ),
    S(
        "log.level",
        STRING,
        "info",
        "[debug, info, warning, error]",
        "The lowest level of log lines. Only in Muster.",
    ),
    S(
        "log.recovery.missing",
        LIST,
        "",
        "",
        "Partitions and files that are known to be missing from the data directory, named as in"
        " the error of the failed start: TOPIC-PARTITION, TOPIC-*, or a file name. The broker"
        " starts without these partitions and files. Use this setting for one start only. Only"
        " in Muster.",
    ),
    S(
        "log.recovery.truncate",
        LIST,
        "",
        "",
        "Partitions (TOPIC-PARTITION) whose whole log is checked at start and truncated at the"
        " first damage; a file keeps the truncated part. Use this setting for one start only."
        " Only in Muster.",
    ),
    S(
        "producer.ids.remembered.max",
        INT,
        1_000_000,
        "[1,...]",
        "How many producers without an open transaction the broker remembers, in all partitions"
        " together. Above this number, the broker forgets the producers that have been idle"
        " longest in the partitions with the most producers, even before"
        " producer.id.expiration.ms. Only in Muster.",
    ),
    S(
        TRANSACTION_VERSION,
        INT,
        TRANSACTION_VERSION_MAX,
        "[0,...,2]",
        "The level of Kafka's feature transaction.version, which ApiVersions reports. 2: each"
        " transaction raises the producer's epoch, and a produce request adds its partitions to the"
        " transaction (KIP-890). 1: only the record format of __transaction_state is new. 0: as in"
        " Kafka 3. Only in Muster.",
    ),
)

_COMPRESSION: Final = (
    S(
        "compression.gzip.level",
        INT,
        -1,
        "[1,...,9] or -1",
        "Compression level for batches that compression.type converts to gzip; -1 is level"
        " 6, the default of zlib.",
    ),
    S(
        "compression.lz4.level",
        INT,
        9,
        "[1,...,17]",
        "Compression level for batches that compression.type converts to lz4; 9 selects the fast"
        " mode, any other level the high-compression mode.",
    ),
    S(
        "compression.type",
        STRING,
        "producer",
        "[uncompressed, zstd, lz4, snappy, gzip, producer]",
        "Codec of stored batches; `producer`: the codec in which the batch was sent.",
    ),
    S(
        "compression.zstd.level",
        INT,
        3,
        "[-131072,...,22]",
        "Compression level for batches that compression.type converts to zstd.",
    ),
)
"""The compression settings, which have the same names for brokers and for topics."""

_KAFKA: Final = (
    S(
        "advertised.listeners",
        STRING,
        None,
        "",
        "The addresses to which clients connect, if they differ from ``listeners``; not 0.0.0.0.",
    ),
    S("alter.config.policy.class.name", CLASS, None, ""),
    S("alter.config.policy.kraft.compatibility.enable", BOOLEAN, False, ""),
    S("alter.log.dirs.replication.quota.window.num", INT, 11, "[1,...]"),
    S("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, "[1,...]"),
    S(
        "authorizer.class.name",
        STRING,
        "",
        "",
        "The authorizer. Empty: every client may do everything. ACLs:"
        " org.apache.kafka.metadata.authorizer.StandardAuthorizer, or its older names"
        " kafka.security.authorizer.AclAuthorizer and"
        " kafka.security.auth.SimpleAclAuthorizer; no other class.",
    ),
    S(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "",
        "Whether a Metadata request for an unknown topic creates the topic, with num.partitions"
        " and the default settings.",
    ),
    S("auto.include.jmx.reporter", BOOLEAN, True, ""),
    S(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "",
        "In a cluster: whether the controller returns leadership to preferred leaders.",
    ),
    S("background.threads", INT, 10, "[1,...]"),
    S("broker.heartbeat.interval.ms", INT, 2000, ""),
    S(
        "broker.id",
        INT,
        -1,
        "",
        "This broker's id; the same as node.id. Unset: the id in meta.properties, or 1.",
    ),
    S(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        "",
        "In a cluster: whether a broker without an id gets one from ZooKeeper.",
    ),
    S("broker.rack", STRING, None, "", "The rack of this broker, reported in Metadata."),
    S("broker.session.timeout.ms", INT, 9000, ""),
    S("client.quota.callback.class", CLASS, None, ""),
    *_COMPRESSION,
    S(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "[0,...]",
        "How long the broker waits before it responds to a failed login and closes the connection.",
    ),
    S(
        "connections.max.idle.ms",
        LONG,
        600000,
        "",
        "A connection without requests is closed after this time; negative: never.",
    ),
    S(
        "connections.max.reauth.ms",
        LONG,
        0,
        "",
        "How long a SASL login is valid until the client must reauthenticate; 0: forever.",
    ),
    S("control.plane.listener.name", STRING, None, ""),
    S(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "",
        "In a cluster: whether a broker that stops asks the controller to move its leaderships.",
    ),
    S(
        "controlled.shutdown.max.retries",
        INT,
        3,
        "",
        "In a cluster: how many times a stopping broker asks the controller to move its"
        " leaderships.",
    ),
    S(
        "controlled.shutdown.retry.backoff.ms",
        LONG,
        5000,
        "",
        "In a cluster: the time between two attempts to move leaderships away from a broker that"
        " stops.",
    ),
    S(
        "controller.listener.names",
        STRING,
        None,
        "",
        "Names of listeners that belong to a Kafka controller; the broker neither opens nor"
        " advertises them.",
    ),
    S("controller.quorum.append.linger.ms", INT, 25, ""),
    S("controller.quorum.bootstrap.servers", LIST, "", ""),
    S("controller.quorum.election.backoff.max.ms", INT, 1000, ""),
    S("controller.quorum.election.timeout.ms", INT, 1000, ""),
    S("controller.quorum.fetch.timeout.ms", INT, 2000, ""),
    S("controller.quorum.request.timeout.ms", INT, 2000, ""),
    S("controller.quorum.retry.backoff.ms", INT, 20, ""),
    S("controller.quorum.voters", LIST, "", ""),
    S(
        "controller.quota.window.num",
        INT,
        11,
        "[1,...]",
        "Number of windows over which topic changes are counted for their quota.",
    ),
    S(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "[1,...]",
        "Length of each window over which topic changes are counted for their quota.",
    ),
    S(
        "controller.socket.timeout.ms",
        INT,
        30000,
        "",
        "In a cluster: how long the controller waits for a connection to a broker.",
    ),
    S("create.topic.policy.class.name", CLASS, None, ""),
    S(
        "default.replication.factor",
        INT,
        1,
        "",
        "Replication factor of topics that are created without a factor; a standalone broker"
        " lowers a value above 1 to 1 and logs that.",
    ),
    S(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        "[1,...]",
        "How often expired delegation tokens are removed.",
    ),
    S(
        "delegation.token.expiry.time.ms",
        LONG,
        86400000,
        "[1,...]",
        "How long a delegation token is valid until it must be renewed.",
    ),
    S(
        "delegation.token.master.key",
        PASSWORD,
        None,
        "",
        "The older name of delegation.token.secret.key.",
    ),
    S(
        "delegation.token.max.lifetime.ms",
        LONG,
        604800000,
        "[1,...]",
        "The longest lifetime of a delegation token, including renewals.",
    ),
    S(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "",
        "Enables delegation tokens; their HMACs are computed with this key. All brokers must"
        " have the same key.",
    ),
    S("delete.records.purgatory.purge.interval.requests", INT, 1, ""),
    S("delete.topic.enable", BOOLEAN, True, "", "Whether DeleteTopics is allowed."),
    S("early.start.listeners", STRING, None, ""),
    S("eligible.leader.replicas.enable", BOOLEAN, False, ""),
    S(
        "fetch.max.bytes",
        INT,
        57671680,
        "[1024,...]",
        "The maximum number of bytes in one Fetch response, even if the request allows more.",
    ),
    S("fetch.purgatory.purge.interval.requests", INT, 1000, ""),
    S(
        "follower.replication.throttled.rate",
        LONG,
        9223372036854775807,
        "[0,...]",
        "In a cluster: the maximum number of bytes per second that this broker fetches for"
        " throttled replicas that are not in sync.",
    ),
    S(
        "group.consumer.assignors",
        LIST,
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        "",
        "The assignors that members of a consumer group may name: uniform and range. The"
        " first assignor applies to members that do not name an assignor.",
    ),
    S(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "[1,...]",
        "How often a member of a consumer group (KIP-848) sends a heartbeat.",
    ),
    S(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15000,
        "[1,...]",
        "The largest heartbeat interval that a consumer group may set.",
    ),
    S(
        "group.consumer.max.session.timeout.ms",
        INT,
        60000,
        "[1,...]",
        "The largest session timeout that a consumer group may set.",
    ),
    S(
        "group.consumer.max.size",
        INT,
        2147483647,
        "[1,...]",
        "The maximum number of members of one consumer group; a further member gets"
        " GROUP_MAX_SIZE_REACHED.",
    ),
    S(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "[1,...]",
        "The smallest heartbeat interval that a consumer group may set.",
    ),
    S(
        "group.consumer.min.session.timeout.ms",
        INT,
        45000,
        "[1,...]",
        "The smallest session timeout that a consumer group may set.",
    ),
    S(
        "group.consumer.session.timeout.ms",
        INT,
        45000,
        "[1,...]",
        "A member of a consumer group that sends no heartbeat for this long is removed.",
    ),
    S(
        "group.coordinator.append.linger.ms",
        INT,
        0,
        "[0,...]",
        "How long the event loop waits for more records before it appends them. 0: no wait."
        " Kafka's default is 10.",
    ),
    S(
        "group.coordinator.rebalance.protocols",
        LIST,
        "classic,consumer,share,streams",
        "[consumer, classic, share, streams, unknown]",
        "The enabled group protocols: classic for classic groups, consumer for consumer groups"
        " (KIP-848), which a cluster serves from group.version 1 on, share for share groups"
        " (KIP-932), which a cluster serves from share.version 1 on, and streams for streams groups"
        " (KIP-1071), which a cluster serves from streams.version 1 on. The classic protocol can't"
        " be disabled.",
    ),
    S(
        "group.coordinator.threads",
        INT,
        1,
        "[1,...]",
        "The number of partitions of __consumer_offsets that are loaded at the same time.",
    ),
    S(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "",
        "How long an empty group waits for more members before its first generation.",
    ),
    S(
        "group.max.session.timeout.ms",
        INT,
        1800000,
        "",
        "The longest session timeout that a member may request.",
    ),
    S("group.max.size", INT, 2147483647, "[1,...]", "The maximum number of members of one group."),
    S(
        "group.min.session.timeout.ms",
        INT,
        6000,
        "",
        "The shortest session timeout that a member may request.",
    ),
    S(
        "group.share.delivery.count.limit",
        INT,
        5,
        "[2,...,10]",
        "The maximum number of times that a share group delivers a record to its members.",
    ),
    S(
        "group.share.heartbeat.interval.ms",
        INT,
        5000,
        "[1,...]",
        "How often a member of a share group sends a heartbeat.",
    ),
    S("group.share.max.groups", SHORT, 10, "[1,...,100]"),
    S(
        "group.share.max.heartbeat.interval.ms",
        INT,
        15000,
        "[1,...]",
        "The largest heartbeat interval that a share group may set.",
    ),
    S(
        "group.share.max.record.lock.duration.ms",
        INT,
        60000,
        "[30000,...,3600000]",
        "The longest duration of a record lock that a share group may set.",
    ),
    S(
        "group.share.max.session.timeout.ms",
        INT,
        60000,
        "[1,...]",
        "The largest session timeout that a share group may set.",
    ),
    S(
        "group.share.max.size",
        INT,
        200,
        "[1,...,1000]",
        "The maximum number of members of one share group.",
    ),
    S(
        "group.share.min.heartbeat.interval.ms",
        INT,
        5000,
        "[1,...]",
        "The smallest heartbeat interval that a share group may set.",
    ),
    S(
        "group.share.min.record.lock.duration.ms",
        INT,
        15000,
        "[1000,...,30000]",
        "The shortest duration of a record lock that a share group may set.",
    ),
    S(
        "group.share.min.session.timeout.ms",
        INT,
        45000,
        "[1,...]",
        "The smallest session timeout that a share group may set.",
    ),
    S(
        "group.share.partition.max.record.locks",
        INT,
        2000,
        "[100,...,10000]",
        "The maximum number of records of one partition that a share group has in flight.",
    ),
    S(
        "group.share.record.lock.duration.ms",
        INT,
        30000,
        "[1000,...,3600000]",
        "How long a member of a share group may hold a record; then the record is delivered again.",
    ),
    S(
        "group.share.session.timeout.ms",
        INT,
        45000,
        "[1,...]",
        "A member of a share group that sends no heartbeat for this long is removed.",
    ),
    S("initial.broker.registration.timeout.ms", INT, 60000, ""),
    S(
        "inter.broker.listener.name",
        STRING,
        None,
        "",
        "In a cluster: the listener for connections between brokers. Unset: the listener of"
        " security.inter.broker.protocol.",
    ),
    S(
        "inter.broker.protocol.version",
        STRING,
        "3.9-IV0",
        "",
        "In a cluster: the protocol version of requests between brokers, 0.10.2 to 3.9;"
        " it must be the same on all brokers.",
    ),
    S("kafka.metrics.polling.interval.secs", INT, 10, "[1,...]"),
    S("kafka.metrics.reporters", LIST, "", ""),
    S(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "[1,...]",
        "In a cluster: how often the controller checks the balance of leaders.",
    ),
    S(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "",
        "In a cluster: the percentage of a broker's preferred partitions that other"
        " brokers may lead.",
    ),
    S(
        "leader.replication.throttled.rate",
        LONG,
        9223372036854775807,
        "[0,...]",
        "In a cluster: the maximum number of bytes per second that this broker sends to"
        " throttled replicas that are not in sync.",
    ),
    S(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "",
        "The security protocol of each listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    S(
        "listeners",
        STRING,
        "PLAINTEXT://127.0.0.1:9092",
        "",
        "Where to listen: NAME://HOST:PORT, comma separated; port 0: any free port.",
    ),
    S(
        "log.cleaner.backoff.ms",
        LONG,
        15000,
        "[0,...]",
        "How often the cleaner checks for dirty logs; also the first wait after a failure.",
    ),
    S(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134217728,
        "",
        "Memory for the keys of one cleaning; keys that do not fit wait for the next cleaning.",
    ),
    S(
        "log.cleaner.delete.retention.ms",
        LONG,
        86400000,
        "[0,...]",
        "How long tombstones are kept, for topics without delete.retention.ms.",
    ),
    S(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        "",
        "If false, no log is compacted, not even __consumer_offsets.",
    ),
    S(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "",
        "The largest share of log.cleaner.dedupe.buffer.size that the cleaner may fill, up to 1.",
    ),
    S("log.cleaner.io.buffer.size", INT, 524288, "[0,...]"),
    S(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "",
        "The maximum number of bytes that each of the two cleaner processes reads and writes per"
        " second.",
    ),
    S(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        9223372036854775807,
        "[1,...]",
        "Longest time that a record stays uncompacted, for topics without max.compaction.lag.ms.",
    ),
    S(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "[0,...,1]",
        "A log is cleaned when its share of dirty bytes exceeds this value; for topics without"
        " min.cleanable.dirty.ratio.",
    ),
    S(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "[0,...]",
        "Shortest time that a record stays uncompacted, for topics without min.compaction.lag.ms.",
    ),
    S("log.cleaner.threads", INT, 1, "[0,...]"),
    S(
        "log.cleanup.policy",
        LIST,
        "delete",
        "[compact, delete]",
        "delete removes old segments, compact keeps the last record of each key; empty: neither.",
    ),
    S(
        "log.dir",
        STRING,
        "./data",
        "",
        "The data directory, if log.dirs is not set; without either it is ./data.",
    ),
    S("log.dir.failure.timeout.ms", LONG, 30000, "[1,...]"),
    S("log.dirs", STRING, None, "", "The data directory; Muster has only one."),
    S(
        "log.flush.interval.messages",
        LONG,
        9223372036854775807,
        "[1,...]",
        "Records appended to a log before it is fsynced; 1 means an fsync before every"
        " acknowledgement.",
    ),
    S(
        "log.flush.interval.ms",
        LONG,
        None,
        "",
        "The longest time that a record stays without fsync; null:"
        " log.flush.scheduler.interval.ms.",
    ),
    S(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60000,
        "[0,...]",
        "How often the recovery points are written to their checkpoint.",
    ),
    S(
        "log.flush.scheduler.interval.ms",
        LONG,
        9223372036854775807,
        "",
        "The default of log.flush.interval.ms.",
    ),
    S(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60000,
        "[0,...]",
        "How often the log start offsets are written to their checkpoint.",
    ),
    S(
        "log.index.interval.bytes",
        INT,
        4096,
        "[0,...]",
        "Bytes of a segment between two entries of its index.",
    ),
    S(
        "log.index.size.max.bytes",
        INT,
        10485760,
        "[4,...]",
        "The maximum size of a segment's index; when the index is full, a new segment starts.",
    ),
    S("log.local.retention.bytes", LONG, -2, "[-2,...]"),
    S("log.local.retention.ms", LONG, -2, "[-2,...]"),
    S(
        "log.message.downconversion.enable",
        BOOLEAN,
        True,
        "",
        "Whether batches are converted to old message sets for Fetch v0 to v3.",
    ),
    S(
        "log.message.format.version",
        STRING,
        "3.0-IV1",
        "",
        "The format of stored records: magic 0 up to 0.9, magic 1 for 0.10, magic 2 since 0.11.",
    ),
    S(
        "log.message.timestamp.after.max.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    S(
        "log.message.timestamp.before.max.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    S(
        "log.message.timestamp.difference.max.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "The older setting for log.message.timestamp.before.max.ms and"
        " log.message.timestamp.after.max.ms, which override it.",
    ),
    S(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "[CreateTime, LogAppendTime]",
        "The timestamp of records: CreateTime is the producer's, LogAppendTime is the broker's.",
    ),
    S(
        "log.preallocate",
        BOOLEAN,
        False,
        "",
        "Whether the broker reserves disk space for a whole segment when it creates the segment.",
    ),
    S(
        "log.retention.bytes",
        LONG,
        -1,
        "",
        "When a partition exceeds this size, its oldest segments are deleted; -1: no limit.",
    ),
    S(
        "log.retention.check.interval.ms",
        LONG,
        300000,
        "[1,...]",
        "How often logs are checked for segments to delete.",
    ),
    S(
        "log.retention.hours",
        INT,
        168,
        "",
        "How long records are kept; overridden by log.retention.minutes and log.retention.ms.",
    ),
    S(
        "log.retention.minutes",
        INT,
        None,
        "",
        "How long records are kept; overridden by log.retention.ms.",
    ),
    S("log.retention.ms", LONG, None, "", "How long records are kept; -1: forever."),
    S(
        "log.roll.hours",
        INT,
        168,
        "[1,...]",
        "The age of the active segment at which a new segment starts; overridden by log.roll.ms.",
    ),
    S(
        "log.roll.jitter.hours",
        INT,
        0,
        "[0,...]",
        "A random time, at most this long, is subtracted from log.roll.hours for each segment;"
        " overridden by log.roll.jitter.ms.",
    ),
    S(
        "log.roll.jitter.ms",
        LONG,
        None,
        "",
        "A random time, at most this long, is subtracted from log.roll.ms for each segment.",
    ),
    S(
        "log.roll.ms",
        LONG,
        None,
        "",
        "The age of the active segment at which a new segment starts.",
    ),
    S("log.segment.bytes", INT, 1073741824, "[14,...]", "The size at which a new segment starts."),
    S(
        "log.segment.delete.delay.ms",
        LONG,
        60000,
        "[0,...]",
        "How long files of deleted segments and topics stay on disk.",
    ),
    S(
        "max.connection.creation.rate",
        INT,
        2147483647,
        "[0,...]",
        "The maximum number of new connections per second, for the broker or for one listener;"
        " further connections wait. The limit of the whole broker does not count the"
        " inter-broker listener.",
    ),
    S("max.connections", INT, 2147483647, "[0,...]", "The maximum number of open connections."),
    S(
        "max.connections.per.ip",
        INT,
        2147483647,
        "[0,...]",
        "The maximum number of open connections from one address.",
    ),
    S(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "",
        "Limits for single addresses, as ADDRESS:NUMBER, comma separated. A host name is"
        " resolved at the start and when this setting changes, and the limit applies to all"
        " addresses of the host.",
    ),
    S(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "[0,...]",
        "The maximum number of fetch sessions in the cache.",
    ),
    S(
        "max.request.partition.size.limit",
        INT,
        2000,
        "[1,...]",
        "The maximum number of partitions in one DescribeTopicPartitions response.",
    ),
    S(
        "message.max.bytes",
        INT,
        1048588,
        "[0,...]",
        "The maximum size of a batch of records in bytes.",
    ),
    S("metadata.log.dir", STRING, None, ""),
    S("metadata.log.max.record.bytes.between.snapshots", LONG, 20971520, "[1,...]"),
    S("metadata.log.max.snapshot.interval.ms", LONG, 3600000, "[0,...]"),
    S("metadata.log.segment.bytes", INT, 1073741824, "[12,...]"),
    S("metadata.log.segment.ms", LONG, 604800000, ""),
    S("metadata.max.idle.interval.ms", INT, 500, "[0,...]"),
    S("metadata.max.retention.bytes", LONG, 104857600, ""),
    S("metadata.max.retention.ms", LONG, 604800000, ""),
    S("metric.reporters", LIST, "", ""),
    S("metrics.num.samples", INT, 2, "[1,...]"),
    S("metrics.recording.level", STRING, "INFO", ""),
    S("metrics.sample.window.ms", LONG, 30000, "[1,...]"),
    S(
        "min.insync.replicas",
        INT,
        1,
        "[1,...]",
        "In a cluster: how many in-sync replicas a produce request with acks=all needs.",
    ),
    S(
        "node.id",
        INT,
        -1,
        "",
        "This broker's id; overrides broker.id. Unset: the id in meta.properties, or 1.",
    ),
    S("num.io.threads", INT, 8, "[1,...]"),
    S("num.network.threads", INT, 3, "[1,...]"),
    S(
        "num.partitions",
        INT,
        1,
        "[1,...]",
        "Partitions of a topic that is created without a number of partitions.",
    ),
    S(
        "num.recovery.threads.per.data.dir",
        INT,
        1,
        "[1,...]",
        "Number of logs that are opened at the same time at start.",
    ),
    S("num.replica.alter.log.dirs.threads", INT, None, ""),
    S(
        "num.replica.fetchers",
        INT,
        1,
        "",
        "In a cluster: the number of connections to each leader from which a follower fetches.",
    ),
    S(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "",
        "The maximum length of a committed offset's metadata.",
    ),
    S(
        "offsets.commit.required.acks",
        SHORT,
        -1,
        "",
        "-1 and 1: a commit is acknowledged when its record is replicated (in a cluster) and"
        " fsynced (with flush settings); 0: at once.",
    ),
    S(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "[1,...]",
        "How long a commit waits until its record is replicated (in a cluster) and fsynced (with"
        " flush settings).",
    ),
    S(
        "offsets.load.buffer.size",
        INT,
        5242880,
        "[1,...]",
        "Bytes read at a time while groups are loaded.",
    ),
    S(
        "offsets.load.skip.records",
        LIST,
        "",
        OFFSETS_RECORDS,
        "Unreadable records to skip when groups are loaded; the broker logs each skipped record."
        " Remove the setting when the broker has logged 'snapshot written after the skipped"
        " records'. Only in Muster.",
    ),
    S(
        "offsets.retention.check.interval.ms",
        LONG,
        600000,
        "[1,...]",
        "How often expired offsets are removed.",
    ),
    S(
        "offsets.retention.minutes",
        INT,
        10080,
        "[1,...]",
        "How long the offsets of an empty group are kept.",
    ),
    S(
        "offsets.topic.compression.codec",
        INT,
        0,
        "",
        "Codec of records in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    S(
        "offsets.topic.num.partitions",
        INT,
        50,
        "[1,...]",
        "The number of partitions of __consumer_offsets; fixed when the topic is created.",
    ),
    S(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "[1,...]",
        "Replicas of __consumer_offsets; a standalone broker lowers a value above 1 to 1 and"
        " logs that.",
    ),
    S(
        "offsets.topic.segment.bytes",
        INT,
        104857600,
        "[1,...]",
        "segment.bytes of __consumer_offsets.",
    ),
    S("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", ""),
    S("password.encoder.iterations", INT, 4096, "[1024,...]"),
    S("password.encoder.key.length", INT, 128, "[8,...]"),
    S("password.encoder.keyfactory.algorithm", STRING, None, ""),
    S("password.encoder.old.secret", PASSWORD, None, ""),
    S("password.encoder.secret", PASSWORD, None, ""),
    S(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "",
    ),
    S("process.roles", LIST, "", "[broker, controller]"),
    S(
        "producer.id.expiration.check.interval.ms",
        INT,
        600000,
        "[1,...]",
        "How often expired producer ids are removed.",
    ),
    S(
        "producer.id.expiration.ms",
        INT,
        86400000,
        "[1,...]",
        "How long an idle producer's sequence numbers are kept.",
    ),
    S("producer.purgatory.purge.interval.requests", INT, 1000, ""),
    S(
        "queued.max.request.bytes",
        LONG,
        -1,
        "",
        "The maximum number of bytes, in total, of requests that are not completely received yet;"
        " -1: no limit.",
    ),
    S(
        "queued.max.requests",
        INT,
        500,
        "[1,...]",
        "The broker stops reading from a connection that has this number of requests in progress.",
    ),
    S(
        "quota.window.num",
        INT,
        11,
        "[1,...]",
        "Number of windows over which a client's usage is averaged for its quota.",
    ),
    S(
        "quota.window.size.seconds",
        INT,
        1,
        "[1,...]",
        "Length of each window over which a client's usage is averaged for its quota.",
    ),
    S("remote.fetch.max.wait.ms", INT, 500, "[1,...]"),
    S("remote.log.index.file.cache.total.size.bytes", LONG, 1073741824, "[1,...]"),
    S("remote.log.manager.copier.thread.pool.size", INT, -1, ""),
    S("remote.log.manager.copy.max.bytes.per.second", LONG, 9223372036854775807, "[1,...]"),
    S("remote.log.manager.copy.quota.window.num", INT, 11, "[1,...]"),
    S("remote.log.manager.copy.quota.window.size.seconds", INT, 1, "[1,...]"),
    S("remote.log.manager.expiration.thread.pool.size", INT, -1, ""),
    S("remote.log.manager.fetch.max.bytes.per.second", LONG, 9223372036854775807, "[1,...]"),
    S("remote.log.manager.fetch.quota.window.num", INT, 11, "[1,...]"),
    S("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, "[1,...]"),
    S("remote.log.manager.task.interval.ms", LONG, 30000, "[1,...]"),
    S("remote.log.manager.thread.pool.size", INT, 10, "[1,...]"),
    S("remote.log.metadata.custom.metadata.max.bytes", INT, 128, "[0,...]"),
    S(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "",
    ),
    S("remote.log.metadata.manager.class.path", STRING, None, ""),
    S("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", ""),
    S("remote.log.metadata.manager.listener.name", STRING, None, ""),
    S("remote.log.reader.max.pending.tasks", INT, 100, "[1,...]"),
    S("remote.log.reader.threads", INT, 10, "[1,...]"),
    S("remote.log.storage.manager.class.name", STRING, None, ""),
    S("remote.log.storage.manager.class.path", STRING, None, ""),
    S("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", ""),
    S("remote.log.storage.system.enable", BOOLEAN, False, ""),
    S(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        "[0,...]",
        "In a cluster: how long a follower waits after its leader returned an error for a"
        " partition.",
    ),
    S(
        "replica.fetch.max.bytes",
        INT,
        1048576,
        "[0,...]",
        "In a cluster: the maximum number of bytes of one partition in a follower's fetch.",
    ),
    S(
        "replica.fetch.min.bytes",
        INT,
        1,
        "",
        "In a cluster: a leader responds to a follower's fetch as soon as it has this number"
        " of bytes.",
    ),
    S(
        "replica.fetch.response.max.bytes",
        INT,
        10485760,
        "[0,...]",
        "In a cluster: the maximum number of bytes of a follower's fetch.",
    ),
    S(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "",
        "In a cluster: how long a leader waits for records before it responds to a follower's"
        " fetch.",
    ),
    S(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "",
        "In a cluster: how often high watermarks are written to their checkpoint.",
    ),
    S(
        "replica.lag.time.max.ms",
        LONG,
        30000,
        "",
        "In a cluster: a follower that has not caught up for this long is removed from the ISR.",
    ),
    S("replica.selector.class", STRING, None, ""),
    S("replica.socket.receive.buffer.bytes", INT, 65536, ""),
    S(
        "replica.socket.timeout.ms",
        INT,
        30000,
        "",
        "In a cluster: how long a follower waits for a connection and for responses.",
    ),
    S(
        "replication.quota.window.num",
        INT,
        11,
        "[1,...]",
        "In a cluster: number of windows over which the rate of throttled replication is measured.",
    ),
    S(
        "replication.quota.window.size.seconds",
        INT,
        1,
        "[1,...]",
        "In a cluster: length of each window over which the rate of throttled replication is"
        " measured.",
    ),
    S(
        "request.timeout.ms",
        INT,
        30000,
        "",
        "How long a transaction request waits until its records are replicated (in a cluster) and"
        " fsynced (with flush settings).",
    ),
    S(
        "reserved.broker.max.id",
        INT,
        1000,
        "[0,...]",
        "In a cluster: the highest broker.id that may be set; ids from ZooKeeper are above it.",
    ),
    S("sasl.client.callback.handler.class", CLASS, None, ""),
    S(
        "sasl.enabled.mechanisms",
        LIST,
        "GSSAPI",
        "",
        "SASL mechanisms that are enabled. Muster does not support GSSAPI, Kafka's default,"
        " so a listener with SASL must have this setting.",
    ),
    S(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "",
        "The JAAS login module; the setting's name needs the listener and the mechanism as prefix."
        " For PLAIN, the login module contains the users.",
    ),
    S("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", ""),
    S("sasl.kerberos.min.time.before.relogin", LONG, 60000, ""),
    S("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", ""),
    S("sasl.kerberos.service.name", STRING, None, ""),
    S("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, ""),
    S("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, ""),
    S("sasl.login.callback.handler.class", CLASS, None, ""),
    S("sasl.login.class", CLASS, None, ""),
    S("sasl.login.connect.timeout.ms", INT, None, ""),
    S("sasl.login.read.timeout.ms", INT, None, ""),
    S("sasl.login.refresh.buffer.seconds", SHORT, 300, ""),
    S("sasl.login.refresh.min.period.seconds", SHORT, 60, ""),
    S("sasl.login.refresh.window.factor", DOUBLE, 0.8, ""),
    S("sasl.login.refresh.window.jitter", DOUBLE, 0.05, ""),
    S("sasl.login.retry.backoff.max.ms", LONG, 10000, ""),
    S("sasl.login.retry.backoff.ms", LONG, 100, ""),
    S("sasl.mechanism.controller.protocol", STRING, "GSSAPI", ""),
    S(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "",
        "In a cluster whose brokers log in to each other: the SASL mechanism, PLAIN or a SCRAM"
        " mechanism.",
    ),
    S(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "",
        "The allowed difference between the clocks of this broker and of the issuer of tokens.",
    ),
    S(
        "sasl.oauthbearer.expected.audience",
        LIST,
        None,
        "",
        "Allowed audiences; a token must name one of them.",
    ),
    S("sasl.oauthbearer.expected.issuer", STRING, None, "", "The issuer that a token must name."),
    S(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        "",
        "How often the signing keys of tokens are fetched.",
    ),
    S(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        "",
        "When a token names an unknown key, the broker fetches the signing keys again, but at most"
        " once in this time.",
    ),
    S("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, ""),
    S(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "",
        "The signing keys of OAUTHBEARER tokens: an https: or file: URL of a JWKS.",
    ),
    S("sasl.oauthbearer.scope.claim.name", STRING, "scope", ""),
    S(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "",
        "The claim of a token that contains the user's name.",
    ),
    S("sasl.oauthbearer.token.endpoint.url", STRING, None, ""),
    S("sasl.server.callback.handler.class", CLASS, None, ""),
    S(
        "sasl.server.max.receive.size",
        INT,
        524288,
        "",
        "The maximum size of a message before a login, in bytes.",
    ),
    S(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "[PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL]",
        "In a cluster: the security protocol of connections between brokers, if"
        " inter.broker.listener.name is not set.",
    ),
    S("security.providers", STRING, None, ""),
    S("socket.connection.setup.timeout.max.ms", LONG, 30000, ""),
    S("socket.connection.setup.timeout.ms", LONG, 10000, ""),
    S(
        "socket.listen.backlog.size",
        INT,
        50,
        "[1,...]",
        "The maximum number of connections that wait to be accepted.",
    ),
    S(
        "socket.receive.buffer.bytes",
        INT,
        102400,
        "",
        "SO_RCVBUF of the sockets; -1: the operating system's default.",
    ),
    S(
        "socket.request.max.bytes",
        INT,
        104857600,
        "[1,...]",
        "The maximum size of a request in bytes.",
    ),
    S(
        "socket.send.buffer.bytes",
        INT,
        102400,
        "",
        "SO_SNDBUF of the sockets; -1: the operating system's default.",
    ),
    S(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "",
        "Whether a reloaded certificate may have another subject than the previous certificate.",
    ),
    S(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "",
        "Whether a reloaded certificate may lack subject alternative names of the old certificate.",
    ),
    S(
        "ssl.cipher.suites",
        LIST,
        "",
        "",
        "The enabled cipher suites of TLS 1.2, by their IANA names; empty: OpenSSL's choice.",
    ),
    S(
        "ssl.client.auth",
        STRING,
        "none",
        "[required, requested, none]",
        "Whether clients must show a certificate. On SASL_SSL only the setting with the"
        " listener's prefix applies.",
    ),
    S(
        "ssl.enabled.protocols",
        LIST,
        "TLSv1.2,TLSv1.3",
        "",
        "The enabled versions of TLS: TLSv1.2, TLSv1.3 or both.",
    ),
    S(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "",
        "In a cluster: https, if the certificates of other brokers must match the brokers'"
        " host names; empty: no check.",
    ),
    S("ssl.engine.factory.class", CLASS, None, ""),
    S(
        "ssl.key.password",
        PASSWORD,
        None,
        "",
        "The password of the private key.",
    ),
    S("ssl.keymanager.algorithm", STRING, "SunX509", ""),
    S(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "",
        "The certificate and its chain, PEM, in place of ssl.keystore.location.",
    ),
    S(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "",
        "The private key, PEM, in place of ssl.keystore.location.",
    ),
    S(
        "ssl.keystore.location",
        STRING,
        None,
        "",
        "The file with the private key and its certificate chain: PEM or PKCS12, whatever"
        " ssl.keystore.type says.",
    ),
    S(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "",
        "The password of ssl.keystore.location, if that file is PKCS12.",
    ),
    S(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "",
        "JKS, PKCS12 or PEM; the type is detected from the file.",
    ),
    S(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "",
        "How the subject of a client's certificate becomes a user name:"
        " RULE:pattern/replacement/ or DEFAULT, comma separated. A client that matches no"
        " rule is rejected.",
    ),
    S("ssl.protocol", STRING, "TLSv1.3", ""),
    S("ssl.provider", STRING, None, ""),
    S("ssl.secure.random.implementation", STRING, None, ""),
    S("ssl.trustmanager.algorithm", STRING, "PKIX", ""),
    S(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "",
        "The CA certificates that must sign the certificates of clients, in PEM; replaces"
        " ssl.truststore.location.",
    ),
    S(
        "ssl.truststore.location",
        STRING,
        None,
        "",
        "The file with the CA certificates that must sign the certificates of clients:"
        " PEM, PKCS12 or JKS.",
    ),
    S(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "",
        "The password of ssl.truststore.location; the password of a JKS file is checked only if"
        " this setting is set.",
    ),
    S(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "",
        "JKS, PKCS12 or PEM; the type is detected from the file.",
    ),
    S("telemetry.max.bytes", INT, 1048576, "[1,...]"),
    S(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        "[1,...]",
        "How often the coordinator aborts transactions that are open for longer than"
        " their timeout.",
    ),
    S(
        "transaction.journal.file.max.bytes",
        INT,
        8 * 1024 * 1024,
        "[0,...]",
        "Bytes of the transactions' journal kept on disk, in transactions.journal and"
        " transactions.journal.old, so that `muster transactions why` shows events from before a"
        " restart; at least 64 KiB, or 0 to keep none. Only in Muster.",
    ),
    S(
        "transaction.max.timeout.ms",
        INT,
        900000,
        "[1,...]",
        "The longest transaction.timeout.ms that a producer may request.",
    ),
    S(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "",
        "If true, a producer that sends AddPartitionsToTxn may write only to partitions that it"
        " has added. If false, a late write can open a transaction that never ends.",
    ),
    S(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        "[1,...]",
        "How often expired transactional ids are removed.",
    ),
    S(
        "transaction.state.log.load.buffer.size",
        INT,
        5242880,
        "[1,...]",
        "Bytes read at a time while transactional ids are loaded.",
    ),
    S(
        "transaction.state.log.load.skip.records",
        LIST,
        "",
        TRANSACTION_RECORDS,
        "Unreadable records that are skipped when transactional ids are loaded; the broker logs"
        " each of them. Only in Muster.",
    ),
    S(
        "transaction.state.log.min.isr",
        INT,
        2,
        "[1,...]",
        "min.insync.replicas of __transaction_state; at most the number of replicas of that topic.",
    ),
    S(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "[1,...]",
        "The number of partitions of __transaction_state; fixed when the topic is created.",
    ),
    S(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "[1,...]",
        "Replicas of __transaction_state; a standalone broker lowers a value above 1 to 1 and"
        " logs that.",
    ),
    S(
        "transaction.state.log.segment.bytes",
        INT,
        104857600,
        "[1,...]",
        "segment.bytes of __transaction_state.",
    ),
    S(
        "transactional.id.expiration.ms",
        INT,
        604800000,
        "[1,...]",
        "How long an unused transactional id is kept.",
    ),
    S(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "",
        "In a cluster: whether a replica outside the ISR may become leader if no replica"
        " of the ISR is alive.",
    ),
    S("zookeeper.clientCnxnSocket", STRING, None, ""),
    S(
        "zookeeper.connect",
        STRING,
        None,
        "",
        "HOST:PORT,HOST:PORT/chroot of the ZooKeeper of the cluster that this broker"
        " joins. Unset: the broker runs standalone.",
    ),
    S(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "",
        "In a cluster: how long the start waits for ZooKeeper. Unset: the session timeout.",
    ),
    S(
        "zookeeper.max.in.flight.requests",
        INT,
        10,
        "[1,...]",
        "In a cluster: the maximum number of requests to ZooKeeper in progress at once.",
    ),
    S("zookeeper.metadata.migration.enable", BOOLEAN, False, ""),
    S(
        "zookeeper.session.timeout.ms",
        INT,
        18000,
        "",
        "In a cluster: how long a broker can be without contact to ZooKeeper before"
        " its session expires.",
    ),
    S("zookeeper.set.acl", BOOLEAN, False, ""),
    S("zookeeper.ssl.cipher.suites", LIST, None, ""),
    S("zookeeper.ssl.client.enable", BOOLEAN, False, ""),
    S("zookeeper.ssl.crl.enable", BOOLEAN, False, ""),
    S("zookeeper.ssl.enabled.protocols", LIST, None, ""),
    S("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", ""),
    S("zookeeper.ssl.keystore.location", STRING, None, ""),
    S("zookeeper.ssl.keystore.password", PASSWORD, None, ""),
    S("zookeeper.ssl.keystore.type", STRING, None, ""),
    S("zookeeper.ssl.ocsp.enable", BOOLEAN, False, ""),
    S("zookeeper.ssl.protocol", STRING, "TLSv1.2", ""),
    S("zookeeper.ssl.truststore.location", STRING, None, ""),
    S("zookeeper.ssl.truststore.password", PASSWORD, None, ""),
    S("zookeeper.ssl.truststore.type", STRING, None, ""),
)

# Further settings of Kafka 4.3.1's group coordinator, and those of its share coordinator.
_KAFKA_4: Final = (
    S(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "[0,...]",
        "How long the first write of a transaction waits for the end of the producer's previous"
        " transaction before the write gets CONCURRENT_TRANSACTIONS.",
    ),
    S(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "[1,...]",
        "How often the broker retries a write that must wait for the end of the producer's previous"
        " transaction. When that transaction ends, the broker retries the write at once.",
    ),
    S(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "[0,...]",
        "The minimum time between two target assignments of a consumer group (KIP-1263); 0:"
        " each change of the group computes a target assignment.",
    ),
    S(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15000,
        "[0,...]",
        "The largest assignment interval that a consumer group may set.",
    ),
    S(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "(case insensitive) [DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL]",
        "Whether a classic group with members becomes a consumer group when a member with"
        " group.protocol=consumer joins (upgrade), and a classic group again when the last such"
        " member leaves (downgrade).",
    ),
    S(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "[0,...]",
        "The smallest assignment interval that a consumer group may set.",
    ),
    S("group.coordinator.background.threads", INT, 2, "[1,...]"),
    S("group.coordinator.cached.buffer.max.bytes", INT, 1048588, "[524288,...]"),
    S(
        "group.share.assignment.interval.ms",
        INT,
        1000,
        "[0,...]",
        "The minimum time between two target assignments of a share group (KIP-1263);"
        " 0: each change of the group computes a target assignment.",
    ),
    S(
        "group.share.assignors",
        LIST,
        "simple",
        "",
        "The assignor of share groups: simple.",
    ),
    S(
        "group.share.max.assignment.interval.ms",
        INT,
        15000,
        "[0,...]",
        "The largest assignment interval that a share group may set.",
    ),
    S(
        "group.share.min.assignment.interval.ms",
        INT,
        0,
        "[0,...]",
        "The smallest assignment interval that a share group may set.",
    ),
    S(
        "group.share.max.delivery.count.limit",
        INT,
        10,
        "[5,...,25]",
        "The largest delivery count limit that a share group may set.",
    ),
    S(
        "group.share.max.partition.max.record.locks",
        INT,
        4000,
        "[2000,...,10000]",
        "The largest share.partition.max.record.locks that a share group may set.",
    ),
    S(
        "group.share.max.share.sessions",
        INT,
        2000,
        "[1,...]",
        "The maximum number of share sessions of the broker.",
    ),
    S(
        "group.share.min.delivery.count.limit",
        INT,
        2,
        "[2,...,5]",
        "The smallest delivery count limit that a share group may set.",
    ),
    S(
        "group.share.min.partition.max.record.locks",
        INT,
        100,
        "[100,...,2000]",
        "The smallest share.partition.max.record.locks that a share group may set.",
    ),
    S(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        "[0,...]",
        "The minimum time between two target assignments of a streams group (KIP-1263);"
        " 0: each change of the group computes a target assignment.",
    ),
    S(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        "[1,...]",
        "How often a member of a streams group sends a heartbeat.",
    ),
    S(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "[0,...]",
        "How long an empty streams group waits for more members before tasks are assigned.",
    ),
    S(
        "group.streams.max.assignment.interval.ms",
        INT,
        15000,
        "[0,...]",
        "The largest assignment interval that a streams group may set.",
    ),
    S(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15000,
        "[1,...]",
        "The largest heartbeat interval that a streams group may set.",
    ),
    S(
        "group.streams.max.session.timeout.ms",
        INT,
        60000,
        "[1,...]",
        "The largest session timeout that a streams group may set.",
    ),
    S(
        "group.streams.max.size",
        INT,
        2147483647,
        "[1,...]",
        "The maximum number of members of one streams group.",
    ),
    S(
        "group.streams.max.standby.replicas",
        INT,
        2,
        "[0,...]",
        "The largest number of standby tasks of each stateful task of a streams group.",
    ),
    S(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        "[0,...]",
        "The smallest assignment interval that a streams group may set.",
    ),
    S(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        "[1,...]",
        "The smallest heartbeat interval that a streams group may set.",
    ),
    S(
        "group.streams.min.session.timeout.ms",
        INT,
        45000,
        "[1,...]",
        "The smallest session timeout that a streams group may set.",
    ),
    S(
        "group.streams.num.standby.replicas",
        INT,
        0,
        "[0,...]",
        "The number of standby tasks of each stateful task of a streams group.",
    ),
    S(
        "group.streams.session.timeout.ms",
        INT,
        45000,
        "[1,...]",
        "A member of a streams group that sends no heartbeat for this long is removed.",
    ),
    S(
        "share.coordinator.append.linger.ms",
        INT,
        -1,
        "[-1,...]",
        "How long the share coordinator waits for more records before it appends; -1 and 0: no"
        " wait.",
    ),
    S("share.coordinator.cached.buffer.max.bytes", INT, 1048588, "[524288,...]"),
    S(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        300000,
        "[1,...]",
        "When the last snapshot of a share partition reaches this age, the share coordinator writes"
        " another snapshot, and can then delete the earlier records. Internal in Kafka.",
    ),
    S(
        "share.coordinator.load.buffer.size",
        INT,
        5242880,
        "[1,...]",
        "Bytes read at a time while states of share partitions are loaded.",
    ),
    S(
        "share.coordinator.load.skip.records",
        LIST,
        "",
        SHARE_STATE_RECORDS,
        "Unreadable records that are skipped when states of share partitions are loaded; the broker"
        " logs each of them. Only in Muster.",
    ),
    S(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        500,
        "[0,...,500]",
        "The number of updates of a share partition after which the share coordinator writes the"
        " whole state of the share partition.",
    ),
    S(
        "share.coordinator.state.topic.compression.codec",
        INT,
        0,
        "",
        "Codec of records in __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    S(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        2,
        "[1,...]",
        "min.insync.replicas of __share_group_state; at most the number of replicas of that topic.",
    ),
    S(
        "share.coordinator.state.topic.num.partitions",
        INT,
        50,
        "[1,...]",
        "The number of partitions of __share_group_state; fixed when the topic is created.",
    ),
    S(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        300000,
        "[1,...]",
        "How often redundant records of __share_group_state are deleted. Internal in Kafka.",
    ),
    S(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        3,
        "[1,...]",
        "Replicas of __share_group_state; a standalone broker lowers a value above 1 to 1 and"
        " logs that.",
    ),
    S(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        104857600,
        "[1,...]",
        "segment.bytes of __share_group_state.",
    ),
    S(
        "share.coordinator.threads",
        INT,
        1,
        "[1,...]",
        "The number of partitions of __share_group_state that are loaded at the same time.",
    ),
    S(
        "share.coordinator.write.timeout.ms",
        INT,
        5000,
        "[1,...]",
        "How long a response of the share coordinator waits until its record is replicated (in a"
        " cluster) and fsynced (with flush settings).",
    ),
)

_TOPIC: Final = (
    S(
        "cleanup.policy",
        LIST,
        "delete",
        "[compact, delete]",
        "delete removes old segments, compact keeps the last record of each key; empty:"
        " neither. __consumer_offsets is always compact.",
    ),
    *_COMPRESSION,
    S(
        "delete.retention.ms",
        LONG,
        86400000,
        "[0,...]",
        "How long a tombstone is kept after the first cleaning that reads the tombstone.",
    ),
    S(
        "file.delete.delay.ms",
        LONG,
        60000,
        "[0,...]",
        "How long files of deleted segments stay on disk.",
    ),
    S(
        "flush.messages",
        LONG,
        9223372036854775807,
        "[1,...]",
        "Records appended before an fsync; 1 means an fsync before every acknowledgement.",
    ),
    S(
        "flush.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "The longest time that an appended record stays without fsync.",
    ),
    S(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        THROTTLED,
        "In a cluster: the replicas that are throttled as followers; * for all.",
    ),
    S(
        "index.interval.bytes",
        INT,
        4096,
        "[0,...]",
        "Bytes of a segment between two entries of its index.",
    ),
    S(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        THROTTLED,
        "In a cluster: the replicas that are throttled by their leader; * for all.",
    ),
    S("local.retention.bytes", LONG, -2, "[-2,...]"),
    S("local.retention.ms", LONG, -2, "[-2,...]"),
    S(
        "max.compaction.lag.ms",
        LONG,
        9223372036854775807,
        "[1,...]",
        "A log is cleaned when its dirty records reach this age, whatever the dirty ratio.",
    ),
    S(
        "max.message.bytes",
        INT,
        1048588,
        "[0,...]",
        "The maximum size of a batch of records in bytes.",
    ),
    S(
        "message.downconversion.enable",
        BOOLEAN,
        True,
        "",
        "Whether batches are converted to old message sets for Fetch v0 to v3.",
    ),
    S(
        "message.format.version",
        STRING,
        "3.0-IV1",
        "",
        "The format of stored records: magic 0 up to 0.9, magic 1 for 0.10, magic 2 since 0.11.",
    ),
    S(
        "message.timestamp.after.max.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    S(
        "message.timestamp.before.max.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    S(
        "message.timestamp.difference.max.ms",
        LONG,
        9223372036854775807,
        "[0,...]",
        "The older setting for both message.timestamp.before.max.ms and"
        " message.timestamp.after.max.ms.",
    ),
    S(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "[CreateTime, LogAppendTime]",
        "The timestamp of records: CreateTime is the producer's, LogAppendTime is the broker's.",
    ),
    S(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "[0,...,1]",
        "A log is cleaned when the share of dirty bytes in its closed segments exceeds this value.",
    ),
    S(
        "min.compaction.lag.ms",
        LONG,
        0,
        "[0,...]",
        "The age below which records are not compacted.",
    ),
    S(
        "min.insync.replicas",
        INT,
        1,
        "[1,...]",
        "In a cluster: how many in-sync replicas a produce request with acks=all needs.",
    ),
    S(
        "preallocate",
        BOOLEAN,
        False,
        "",
        "Whether the broker reserves disk space for a whole segment when it creates the segment.",
    ),
    S("remote.log.copy.disable", BOOLEAN, False, ""),
    S("remote.log.delete.on.disable", BOOLEAN, False, ""),
    S("remote.storage.enable", BOOLEAN, False, ""),
    S(
        "retention.bytes",
        LONG,
        -1,
        "",
        "When a partition exceeds this size, its oldest segments are deleted; -1: no limit.",
    ),
    S("retention.ms", LONG, 604800000, "[-1,...]", "How long records are kept; -1: forever."),
    S("segment.bytes", INT, 1073741824, "[14,...]", "The size at which a new segment starts."),
    S(
        "segment.index.bytes",
        INT,
        10485760,
        "[4,...]",
        "The maximum size of a segment's index; when the index is full, a new segment starts.",
    ),
    S(
        "segment.jitter.ms",
        LONG,
        0,
        "[0,...]",
        "A random time, at most this long, is subtracted from segment.ms for each segment.",
    ),
    S(
        "segment.ms",
        LONG,
        604800000,
        "[1,...]",
        "The age of the active segment at which a new segment starts.",
    ),
    S(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "",
        "In a cluster: whether a replica outside the ISR may become leader if no replica"
        " of the ISR is alive.",
    ),
)

_AUTHORIZER: Final = (
    S(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "",
        "With an authorizer: whether every principal may do everything to a resource without"
        " ACLs. If a resource has an ACL, even for another principal, only ACLs decide.",
    ),
    S(
        "super.users",
        STRING,
        "",
        "",
        "With an authorizer: principals that may do everything, as User:alice;User:bob."
        " No ACL denies them anything.",
    ),
)
"""The settings of Kafka's authorizer. Kafka's broker does not define these settings, but passes
them to the authorizer."""

HTTP_TLS: Final = (
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
)
"""TLS settings of Kafka listeners that also exist for HTTP, with the prefix ``http.``."""
_HTTP: Final = tuple(
    each._replace(
        name=f"http.{each.name}", doc=f"The value of {each.name} for http.listener. Only in Muster."
    )
    for each in _KAFKA
    if each.name in HTTP_TLS
)

BROKER: Final[dict[str, Setting]] = {
    setting.name: setting for setting in (*_KAFKA, *_KAFKA_4, *_AUTHORIZER, *_MUSTER, *_HTTP)
}

TOPIC: Final[dict[str, Setting]] = {setting.name: setting for setting in _TOPIC}

ONLY_IN_KAFKA_4: Final = frozenset(
    (
        "config.providers",
        "controller.quorum.auto.join.enable",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "cordoned.log.dirs",
        "follower.fetch.last.tiered.offset.enable",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.manager.follower.thread.pool.size",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope",
        "share.fetch.purgatory.purge.interval.requests",
        "transaction.two.phase.commit.enable",
    )
)
"""The broker properties that Kafka 4 has added, which Muster accepts without effect. Source:
DescribeConfigs of Kafka 4.3.1."""

BROKER_NAME_OF_TOPIC_SETTING: Final[dict[str, tuple[str, ...]]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.downconversion.enable": ("log.message.downconversion.enable",),
    "message.format.version": ("log.message.format.version",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}
"""By topic setting: the broker properties that set its default. The first property takes
precedence. Source: Kafka 3.9 ``ServerTopicConfigSynonyms``."""
