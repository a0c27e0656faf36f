"""The controller of a cluster, as pure code. Its inputs are facts of ZooKeeper, results of writes,
responses of brokers, API calls and time. Its outputs are conditional writes, requests to brokers,
reads, replies and events.

The host is the edge around one `controller.controller.Controller`. It makes a controller when this
broker has won the election, passes it one event at a time, and executes each `Outcome`.

Start: after it has won the election (epoch n, znode version v of `/controller_epoch`), the host
makes ``Controller(config, epoch)``. It arms the watches, reads, and passes `BrokersSeen`,
`TopicsSeen` (all names), `TopicSeen` of each, `StatesRead` (in slices), `UncleanSeen` of the
cluster if it has a dynamic default, `DeletionsSeen`, `ReassignmentsSeen`, `PreferredSeen` if its
node exists; then `Ready`. Until `Ready` the controller only remembers the facts, and refuses calls
(`controller.refusal`, which is also the reply of a broker that is not the controller). The states
that were read include all earlier notifications: the host may delete their nodes unread.

Each step is ``outcome = controller.handle(event, now)``. While ``outcome.more`` is true, call
``controller.work(now)`` in the next turn of the loop, after other events if there are any: no call
works for longer than a slice. The host executes each outcome in this order:

- ``writes``: each is one multi of [check `/controller_epoch` at version v, the op]. Many may be in
  flight. Each result is passed in a `Written`, which has all results that arrived by then, in any
  order. A write whose check failed has the result FENCED. A state that was decided before a broker
  registered should not be written; its result is OUTDATED.
- ``sends``: put each into the channel of (broker_id, broker_epoch), in order; a channel sends one
  request at a time and repeats it until it is answered or its broker's znode is gone. A broker with
  another epoch has another channel; the queue of the old one is discarded. Each response is passed
  as `Answered`.
- ``reads``: read, with the watch armed in the same call, and pass the result as an event (each
  read says which).
- ``replies``: (ticket, reply), each ticket once.
- ``events``: facts for log lines, metrics and the journal.
- ``resign``: if not empty, another controller exists; drop this one, its channels and watches.

Call ``handle(Tick(), now)`` at ``next_deadline()``. When the session is lost call
``handle(Resigned(), now)``: it answers all parked tickets; then drop the controller. Watches report
whole facts each time (`BrokersSeen` has all brokers); facts may be late, repeated or old, and are
compared by czxid and znode version. A node that can't be read is omitted from its fact: work that
depends on it waits, other work does not.

Where to change:

- the reasons for a new leader or a smaller ISR: `controller/journal.py`,
  `replication/journal.py`; recorded by `broker/cluster/journal_recorder.py`, shown by
  `broker/web/views/cluster.py` and `cli/cluster/telling.py`. Then
  docs/formats/journals.md, `broker/web/openapi.json`.
"""
