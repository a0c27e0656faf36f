// The broker: load, size, requests, clients and denials.
import { brief, bytes, chart, count, h, nothing, span, ticking } from "./dom.js";
import { table } from "./table.js";

const tile = (name, value, more, values, words) =>
  h("section", { class: "tile" }, h("h2", null, name), h("p", { class: "big" }, value),
    h("p", { class: "faint" }, more || "\u00a0"),
    chart(values, { label: name, words }));

const perSecond = (rate) => `${brief(rate)}/s`;
const ofCore = (cores) => (cores === null ? "–" : `${(cores * 100).toFixed(1)} %`);
const refused = (each) => Object.values(each.errors).reduce((a, b) => a + b, 0);

const APIS = [
  { title: "API", by: "api", kind: "name", of: (each) => each.api, cell: (each) => each.api },
  { title: "Answered", by: "answered", kind: "number", of: (each) => each.requests, down: true, cell: (each) => count(each.requests) },
  { title: "Errors", by: "errors", kind: "words", of: refused, down: true,
    cell: (each) => Object.entries(each.errors).sort((a, b) => b[1] - a[1]).map(([name, value]) => h("span", { class: "chip" }, `${name} ${count(value)}`)) },
];

const CLIENTS = [
  { title: "Client", by: "client", kind: "name", of: (each) => each.client, cell: (each) => each.client || h("span", { class: "faint" }, "no client id") },
  { title: "Host", by: "host", kind: "still", of: (each) => each.host, cell: (each) => each.host },
  { title: "Principal", by: "principal", kind: "words", of: (each) => each.sessions.map((of) => of.principal).join(" "),
    cell: (each) => each.sessions.map((of) => h("span", { class: "chip" }, of.principal)) },
  { title: "Listener", by: "listener", kind: "words", of: (each) => each.sessions.map((of) => of.listener).join(" "),
    cell: (each) => each.sessions.map((of) => h("span", { class: "chip" }, of.listener === of.protocol ? of.protocol : `${of.listener} (${of.protocol})`)) },
  { title: "Connections", by: "connections", kind: "number", down: true, of: (each) => open(each), cell: (each) => count(open(each)) },
];

const DENIALS = [
  { title: "Principal", by: "principal", kind: "name", of: (each) => each.principal, cell: (each) => each.principal },
  { title: "Denied", by: "denied", kind: "words", of: (each) => each.operation, cell: (each) => `${each.operation} on ${each.resource}` },
  { title: "Reason", by: "rule", kind: "words", of: (each) => each.rule, cell: (each) => each.rule },
  { title: "Request", by: "request", kind: "still", of: (each) => each.api, cell: (each) => each.api },
  { title: "Client", by: "client", kind: "still", of: (each) => each.client, cell: (each) => `${each.client || "no client id"} on ${each.host}` },
  { title: "Times", by: "times", kind: "number", down: true, of: (each) => each.count, cell: (each) => count(each.count) },
  { title: "Last", by: "last", kind: "number", down: true, of: (each) => each.last_ms, cell: (each) => ticking("ago", each.last_ms) },
];

const open = (each) => each.sessions.reduce((sum, of) => sum + of.connections, 0);
const lineOf = (each) => [each.principal, each.host, each.client, each.api, each.operation, each.resource].join("|");

export function brokerView() {
  const render = (watch) => {
    const head = watch.head;
    const trends = head.trends;
    const latest = (name) => trends[name].at(-1) ?? null;
    const apis = watch.rows("api").sort((a, b) => b.requests - a.requests || (a.api < b.api ? -1 : 1));
    const clients = watch.rows("client");
    const denials = watch.rows("denial");
    const shards = Object.entries(head.shards).map(([name, value]) => `${value} ${name}`).join(", ");
    const load = head.load;
    return [
      h("div", { class: "title" }, h("h1", null, `Broker ${head.broker}`),
        h("p", { class: "sub" }, h("span", { class: `state ${head.state === "ready" ? "stable" : "preparing"}` }, h("i", { "aria-hidden": "true" }), head.state), ` on ${head.address}, cluster ${head.cluster}`)),
      head.reason ? h("p", { class: "note bad" }, head.reason) : null,
      load ? h("p", { class: "note" }, `Loading: ${load.partitions_loaded} of ${load.partitions} partitions, ${count(load.records_loaded)} records, ${count(load.groups_loaded)} groups so far.`) : null,
      h("div", { class: "tiles" },
        tile("Requests", perSecond(latest("requests")), `${count(head.requests)} since the broker started`, trends.requests, perSecond),
        tile("Commits", perSecond(latest("commits")), `${count(head.commits)} since the broker started`, trends.commits, perSecond),
        tile("CPU", ofCore(latest("cpu")), "of one core", trends.cpu, ofCore),
        tile("Memory", bytes(head.memory_bytes), "resident", trends.memory_bytes, bytes),
        tile("Event loop", span(latest("delay_ms")), "largest delay in the last sample", trends.delay_ms, span),
        tile("Connections", count(head.connections), head.connections_refused ? `${count(head.connections_refused)} refused` : "none refused", trends.connections, count)),
      h("dl", { class: "facts" },
        fact("Groups", count(head.groups)), fact("Members", count(head.members)), fact("Lag in records", brief(head.lag)),
        fact("Committed offsets", count(head.offsets)), fact("Topics", count(head.topics)),
        fact("Offsets partitions", shards || "none yet"), fact("Loaded in", span(head.load_ms)),
        fact("Protocol errors", count(head.protocol_errors)),
        fact("Rebalances", count(Object.values(head.rebalances).reduce((a, b) => a + b, 0)))),
      h("h2", null, "Requests"),
      apis.length ? table({ caption: "Requests by API", columns: APIS, rows: apis, key: (each) => each.api, standing: "-answered" })
        : nothing("No requests have arrived yet."),
      h("h2", null, "Clients"),
      clients.length ? table({ caption: "Connected clients", columns: CLIENTS, rows: clients, key: (each) => `${each.host} ${each.client}`, standing: "client" })
        : nothing("No clients are connected."),
      denials.length ? h("h2", null, "Denied requests") : null,
      denials.length ? table({ caption: "Denied requests", columns: DENIALS, rows: denials, key: lineOf, standing: "-last" }) : null,
    ];
  };
  return { render };
}

const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));
