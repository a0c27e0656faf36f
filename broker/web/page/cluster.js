// The cluster: the leader of each partition, since when and why it leads, the replicas that are out
// of sync, and the brokers for which the controller waits.
import { command, commandLine } from "./commands.js";
import { count, h, nothing, plural, ticking, topicLink } from "./dom.js";
import { place } from "./place.js";
import { inOrder, matching, search, table } from "./table.js";

const faint = (words) => h("span", { class: "faint" }, words);
const ids = (brokers) => (brokers.length ? brokers.join(", ") : "none");
const named = (each) => (each.partition === null ? each.topic : `${each.topic}:${each.partition}`);
const troubled = (each) => each.leader === null || each.out.length > 0;

const BROKERS = [
  { title: "Broker", by: "broker", kind: "name", of: (each) => each.broker, cell: (each) => [String(each.broker), each.controller ? faint(" controller") : null] },
  { title: "Address", by: "address", kind: "still", of: (each) => each.address, cell: (each) => each.address },
  { title: "Rack", by: "rack", kind: "still", of: (each) => each.rack, cell: (each) => each.rack ?? faint("–") },
  { title: "Leads", by: "leads", kind: "number", down: true, of: (each) => each.leads, cell: (each) => count(each.leads) },
  { title: "Replicas out of sync", by: "out", kind: "number", down: true, of: (each) => each.out, cell: (each) => (each.out ? h("b", { class: "bad" }, count(each.out)) : count(0)) },
  { title: "Last event", by: "last", kind: "words", of: (each) => (each.last ? each.last.at_ms : null), down: true,
    cell: (each) => (each.last ? [each.last.why, " ", ticking("ago", each.last.at_ms)] : faint("–")) },
];

const since = (out) => (out.since_ms ? [" for ", ticking("for", out.since_ms)] : null);
const behind = (out) => (out.records === null ? null : faint(`, ${plural(out.records, "record")} behind the leader now`));
const outOf = (each) => (each.out.length
  ? each.out.map((out) => h("p", null, h("b", { class: "bad" }, `broker ${out.broker}`), since(out), ": ",
    out.why ?? (out.alive ? "only the partition's leader knows the reason" : "the broker is down"), behind(out)))
  : faint("–"));

const PARTITIONS = [
  { title: "Partition", by: "partition", kind: "name", of: (each) => `${each.topic}-${String(each.partition).padStart(9, "0")}`,
    cell: (each) => [h("a", { href: topicLink(each.topic) }, each.topic), `:${each.partition}`] },
  { title: "Leader", by: "leader", kind: "number", of: (each) => each.leader, cell: (each) => (each.leader === null ? h("b", { class: "bad" }, "none") : String(each.leader)) },
  { title: "Epoch", by: "epoch", kind: "number", down: true, of: (each) => each.leader_epoch, cell: (each) => count(each.leader_epoch) },
  { title: "Replicas", by: "replicas", kind: "still", of: (each) => ids(each.replicas), cell: (each) => ids(each.replicas) },
  { title: "ISR", by: "isr", kind: "still", of: (each) => each.isr.length, cell: (each) => ids(each.isr) },
  { title: "Leader for", by: "since", kind: "still", of: (each) => each.since_ms, cell: (each) => (each.since_ms ? ticking("for", each.since_ms) : faint("–")) },
  { title: "Why", by: "why", kind: "words", of: (each) => each.why, cell: (each) => each.why ?? faint("the controller knows the reason") },
  { title: "Out of sync", by: "out", kind: "words", down: true, of: (each) => each.out.length, cell: outOf },
];

const WAITS = {
  deletion: (brokers) => `the deletion waits for ${brokers} to return or to respond`,
  reassignment: (brokers) => `the reassignment waits for ${brokers} to join the ISR`,
  leader: (brokers) => `the partition has no leader and waits for ${brokers} to return`,
};
const waiting = (each) => h("li", { "data-key": `${each.what} ${named(each)}` }, h("b", null, named(each)), ": ",
  WAITS[each.what](`broker ${ids(each.brokers)}`), each.since_ms ? [", for ", ticking("for", each.since_ms)] : null);

function doing(at) {
  const words = [[at.partitions_left, "partition", " to check"], [at.writes, "ZooKeeper write", " in progress"],
    [at.retries, "failure", " to retry"], [at.calls, "request", " without a response"]]
    .filter(([number]) => number).map(([number, noun, more]) => plural(number, noun) + more);
  return [
    h("p", null, words.length ? `Pending work: ${words.join(", ")}.` : "No pending work."),
    at.shutdowns.map((each) => h("p", { class: "note" }, `Broker ${each.broker} is in controlled shutdown: ${plural(each.partitions, "partition")} remaining.`)),
    at.unanswered.map((each) => h("p", { class: "note" }, `Broker ${each.broker} has not responded to ${each.request} for `, ticking("for", each.since_ms),
      each.reason ? `: ${each.reason}` : "")),
  ];
}

export function clusterView() {
  const render = (watch) => {
    const head = watch.head;
    if (!head.cluster) return [h("h1", null, "Cluster"), nothing("This broker is standalone: it does not belong to a cluster.")];
    const all = inOrder(watch.rows("partition"), (each) => [each.leader === null ? 0 : each.out.length ? 1 : 2, each.topic, each.partition]);
    const bad = all.filter(troubled);
    const found = matching(all, (each) => [named(each), `${each.topic}-${each.partition}`, each.why ?? "", ...each.out.map((out) => out.why ?? "")]);
    const brokers = watch.rows("broker").map((each) => ({ ...each, controller: each.broker === head.controller,
      leads: all.filter((one) => one.leader === each.broker).length,
      out: all.filter((one) => one.out.some((out) => out.broker === each.broker)).length })).sort((a, b) => a.broker - b.broker);
    const waits = watch.rows("wait");
    const story = watch.rows("entry").sort((a, b) => b.at_ms - a.at_ms).slice(0, 12);
    return [
      h("div", { class: "title" }, h("h1", null, "Cluster"),
        h("p", { class: "sub" }, `${plural(brokers.length, "broker")}, ${plural(head.partitions, "partition")}`,
          bad.length ? [", ", h("b", { class: "bad" }, `${count(bad.length)} offline or under-replicated`)] : ", all in sync")),
      head.zookeeper.state === "connected" && head.epoch !== null ? null
        : h("p", { class: "note bad" }, `This broker ${head.epoch === null ? "is not registered" : "does not reach ZooKeeper"}: its ZooKeeper session is ${head.zookeeper.state}.`),
      table({ name: "brokers", caption: "Brokers", columns: BROKERS, rows: brokers, key: (each) => each.broker, standing: "broker" }),
      h("h2", null, "Controller"),
      h("p", null, head.controller === null ? "The cluster has no controller." : [`Broker ${head.controller}, controller epoch ${head.controller_epoch}`,
        head.controller_since_ms ? [", for ", ticking("for", head.controller_since_ms)] : null, "."]),
      head.doing ? doing(head.doing) : h("p", { class: "faint" }, "The page of the controller's broker shows the pending work of the controller."),
      waits.length ? h("ul", null, waits.map(waiting)) : null,
      bad.length ? commandLine(command("cluster why", [`${bad[0].topic}-${bad[0].partition}`]), "Ask all brokers about the first offline or under-replicated partition") : null,
      h("h2", null, "Partitions"),
      search("Filter by partition or reason"),
      found.length ? table({ caption: "Partitions", columns: PARTITIONS, rows: found, key: (each) => `${each.topic}-${each.partition}`, standing: "trouble" })
        : nothing(all.length ? `None of ${plural(all.length, "partition")} matches “${place.get("q")}”.` : "No topics exist yet."),
      h("h2", null, "Events of this broker"),
      h("ul", null, story.map((each) => h("li", { "data-key": `${each.at_ms} ${each.why}` }, ticking("ago", each.at_ms), ` ${each.why}`))),
    ];
  };
  return { render };
}
