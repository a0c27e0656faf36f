"""The controller of a cluster, as pure code. Its inputs are facts of ZooKeeper, results of writes,
responses of brokers, calls and time. Its outputs are conditional writes, requests to brokers,
reads, replies and events.

The *host* is the code that runs one `controller.controller.Controller`. When this broker wins the
election, the host creates a controller, passes one event at a time to it, and executes each
`Outcome`.

At the start, the election has given this broker the controller epoch n and the znode version v of
`/controller_epoch`. The host creates ``Controller(config, epoch)``, arms the watches and reads the
nodes. Then it passes these events, in this order:

- `BrokersSeen`, `TopicsSeen` (all names), and a `TopicSeen` for each topic;
- `StatesRead` (in slices);
- `UncleanSeen` of the cluster, if the cluster has a dynamic default;
- `DeletionsSeen` and `ReassignmentsSeen`;
- `PreferredSeen`, if the node of preferred elections exists;
- `Ready`.

Until `Ready` the controller only stores the facts, and rejects calls. The rejection is
`controller.refusal`, as on a broker that is not the controller. The states that were read include
the effects of all earlier notifications, so that the host may delete the notification nodes unread.

Each step is ``outcome = controller.handle(event, now)``. While ``outcome.more`` is True, the host
calls ``controller.work(now)`` in the next turn of the loop, after other events if there are any.
Each call works for at most one slice. The host executes each outcome in this order:

- ``writes``: each write is one ZooKeeper multi of two operations: a check that `/controller_epoch`
  has version v, and the write itself. Many writes may be in flight. The host passes all results
  that have arrived in a `Written`, in any order. A write whose check failed has the result FENCED.
  A state that was decided before a broker registered should not be written; its result is
  OUTDATED.
- ``sends``: the host puts each request into the channel of (broker_id, broker_epoch), in order. A
  channel sends one request at a time, and repeats it until the broker responds or its znode no
  longer exists. A broker with another epoch has another channel; the queue of the old channel is
  discarded. The host passes each response as `Answered`.
- ``reads``: the host reads the node and arms its watch in the same call, and passes the result as
  the event that the read names.
- ``replies``: pairs (ticket, reply), each ticket once.
- ``events``: facts for log lines, metrics and the journal.
- ``resign``: if not empty, another controller exists; the host drops this controller, its
  channels and its watches.

The host calls ``handle(Tick(), now)`` at ``next_deadline()``. When the host loses its ZooKeeper
session, it calls ``handle(Resigned(), now)``, which answers all parked tickets, and then drops the
controller.

Each fact from a watch is complete: for example, `BrokersSeen` contains all brokers. Facts may be
late, repeated or old; the controller compares them by czxid and znode version. A node that can't be
read is omitted from its fact, and only work that depends on the node waits.

Where to change:

- the reasons for a new leader or a smaller ISR: `controller/journal.py`,
  `replication/journal.py`; recorded by `broker/cluster/journal_recorder.py`, shown by
  `broker/web/views/cluster.py` and `cli/cluster/telling.py`. Then docs/formats/journals.md,
  `broker/web/openapi.json`.
"""
