"""The controller of a cluster, as pure code. Its inputs are facts of ZooKeeper, results of writes,
responses of brokers, API calls and time. Its outputs are conditional writes, requests to brokers,
reads, replies and events.

The host is the code that runs one `controller.controller.Controller`. When this broker has won the
election, the host creates a controller, passes one event at a time to the controller, and executes
each `Outcome`.

Start: after this broker has won the election (epoch n, znode version v of `/controller_epoch`), the
host creates ``Controller(config, epoch)``. The host arms the watches, reads the nodes, and passes
`BrokersSeen`, `TopicsSeen` (all names), a `TopicSeen` for each topic, `StatesRead` (in slices), the
cluster's `UncleanSeen` if the cluster has a dynamic default, `DeletionsSeen`, `ReassignmentsSeen`,
`PreferredSeen` if the node of preferred elections exists, and then `Ready`. Until `Ready` the
controller only stores the facts, and rejects calls (`controller.refusal`, which is also the reply
of a broker that is not the controller). The states that were read include all earlier
notifications, so the host may delete the notification nodes unread.

Each step is ``outcome = controller.handle(event, now)``. As long as ``outcome.more`` is true, the
host calls ``controller.work(now)`` in the next turn of the loop, after other events if there are
any. A call works for at most one slice. The host executes each outcome in this order:

- ``writes``: each write is one multi of [check `/controller_epoch` at version v, the op]. Many
  writes may be in flight. The host passes the results in a `Written`, which has all results that
  have arrived, in any order. A write whose check failed has the result FENCED. A state that was
  decided before a broker registered should not be written; its result is OUTDATED.
- ``sends``: the host puts each request into the channel of (broker_id, broker_epoch), in order. A
  channel sends one request at a time, and repeats the request until the broker responds or its
  znode no longer exists. A broker with another epoch has another channel; the queue of the old
  channel is discarded. The host passes each response as `Answered`.
- ``reads``: the host reads the node and arms its watch in the same call, and passes the result as
  the event that the read names.
- ``replies``: (ticket, reply), each ticket once.
- ``events``: facts for log lines, metrics and the journal.
- ``resign``: if not empty, another controller exists; the host drops this controller, its
  channels and its watches.

The host calls ``handle(Tick(), now)`` at ``next_deadline()``. When the session is lost, the host
calls ``handle(Resigned(), now)``, which answers all parked tickets, and then drops the controller.
Each fact from a watch is complete (`BrokersSeen` has all brokers). Facts may be late, repeated or
old; the controller compares them by czxid and znode version. A node that can't be read is omitted
from its fact: only work that depends on the node waits.

Where to change:

- the reasons for a new leader or a smaller ISR: `controller/journal.py`,
  `replication/journal.py`; recorded by `broker/cluster/journal_recorder.py`, shown by
  `broker/web/views/cluster.py` and `cli/cluster/telling.py`. Then docs/formats/journals.md,
  `broker/web/openapi.json`.
"""
