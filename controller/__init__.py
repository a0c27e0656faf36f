"""The controller of a cluster, pure: facts of ZooKeeper, results of writes, answers of brokers, API
calls and time go in; conditional writes, requests to brokers, reads, replies and events come out.

The host is the edge around one `controller.controller.Controller`. It makes a controller when this
broker has won the election, passes it one event at a time, and executes each `Outcome`.

Start. Won the election (epoch n, znode version v of `/controller_epoch`): make ``Controller(config,
epoch)``. Arm the watches, read, and pass `BrokersSeen`, `TopicsSeen` (all names), `TopicSeen` of
each, `StatesRead` (in slices), `UncleanSeen` of the cluster if it has a dynamic default,
`DeletionsSeen`, `ReassignmentsSeen`, `PreferredSeen` if its node exists; then `Ready`. Until
`Ready` the controller only remembers, and answers calls with NOT_CONTROLLER (`controller.refusal`,
which also answers for a broker that is not the controller). The states that it has read include all
earlier notices: the host may delete those unread.

Each step is ``outcome = controller.handle(event, now)``. While ``outcome.more`` is true, call
``controller.work(now)`` in the next turn of the loop, after other events if there are any: no call
works for longer than a slice. Of each outcome, in this order:

- ``writes``: each is one multi of [check `/controller_epoch` at version v, the op]. Many may be in
  flight. Each result goes back in a `Written`, as many as there are by then in one event, in any
  order. A write whose fence failed has the result FENCED. A state that was decided before a broker
  registered should not be written: OUTDATED.
- ``sends``: put each into the channel of (broker_id, broker_epoch), in order; a channel sends one
  request at a time and repeats it until it is answered or its broker's znode is gone. A broker with
  another epoch has another channel, the queue of the old one is discarded. Each answer goes back as
  `Answered`.
- ``reads``: read, with the watch armed in the same call, and pass the result as an event (each
  read says which).
- ``replies``: (ticket, reply), each ticket once.
- ``events``: facts for log lines, metrics and the journal.
- ``resign``: not empty: another controller exists. Drop the controller, its channels and watches.

Call ``handle(Tick(), now)`` at ``next_deadline()``. When the session is lost call
``handle(Resigned(), now)``: it answers all parked tickets; then drop the controller. Watches report
whole facts each time (`BrokersSeen` has all brokers); facts may be late, repeated or old, and are
compared by czxid and znode version. A node that can't be read is left out of its fact: work that
depends on it waits, other work does not.
"""
