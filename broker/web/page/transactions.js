// Transactions: open transactions, the partitions and groups that they hold back, and the history of
// one transactional id.
import { command, commandLine } from "./commands.js";
import { brief, count, groupLink, h, nothing, plural, ranges, span, stateBadge, ticking, topicLink, transactionLink } from "./dom.js";
import { place } from "./place.js";
import { inOrder, matching, search, table } from "./table.js";

const faint = (words) => h("span", { class: "faint" }, words);
const number = (title, by, of, cell) => ({ title, by, of, cell, kind: "number", down: true });
const exact = (value) => h("span", { title: count(value) }, brief(value));
const who = (each) => (each.client || each.host
  ? [each.client || "a client", each.host ? faint(` on ${each.host}`) : null] : faint("–"));
const textOfWho = (each) => `${each.client ?? ""} ${each.host ?? ""}`;

// ---------------------------------------------------------------------------------- all of them

const OPEN_FIRST = (each) => [each.open ? 0 : 1, each.open ? each.since_ms : -each.last_update_ms, each.id];

const IDS = [
  { title: "Id", by: "id", kind: "name", of: (each) => each.id, cell: (each) => h("a", { href: transactionLink(each.id) }, each.id) },
  { title: "State", by: "state", kind: "still", of: (each) => each.state, cell: (each) => stateBadge(each.state) },
  { title: "Open for", by: "open", kind: "number", of: (each) => each.since_ms,
    cell: (each) => (each.since_ms ? ticking("for", each.since_ms) : faint("–")) },
  { title: "Times out in", by: "ends", kind: "number", of: (each) => each.ends_ms,
    cell: (each) => (each.ends_ms ? ticking("until", each.ends_ms) : faint("–")) },
  number("Partitions", "partitions", (each) => each.partitions, (each) => (each.open ? count(each.partitions) : faint("–"))),
  number("Blocked records", "held", (each) => each.held, (each) => (each.held ? exact(each.held) : faint("–"))),
  { title: "Client", by: "client", kind: "still", of: (each) => each.client, cell: who },
  number("Producer", "producer", (each) => each.producer_id, (each) => `${each.producer_id}, epoch ${each.producer_epoch}`),
  { title: "Last change", by: "last", kind: "still", of: (each) => each.last_update_ms, down: true, cell: (each) => ticking("ago", each.last_update_ms) },
];

const waiting = (each) => (each.waits.length
  ? [...new Set(each.waits.map((wait) => wait.group))].map((group, i) => [i ? ", " : "", h("a", { href: groupLink(group) }, group || "(no name)")])
  : faint("none known"));

const HELD = [
  { title: "Partition", by: "partition", kind: "name", of: (each) => `${each.topic}-${String(each.partition).padStart(9, "0")}`,
    cell: (each) => [h("a", { href: topicLink(each.topic) }, each.topic), `:${each.partition}`] },
  number("Blocked records", "records", (each) => each.held_back, (each) => exact(each.held_back)),
  { title: "For", by: "for", kind: "number", of: (each) => each.since_ms, cell: (each) => ticking("for", each.since_ms) },
  number("From offset", "from", (each) => each.start_offset, (each) => count(each.start_offset)),
  { title: "By", by: "by", kind: "name", of: (each) => each.id,
    cell: (each) => (each.hangs ? h("span", { class: "bad" }, `producer ${each.producer_id}, hanging: no transactional id owns the transaction`)
      : each.id === null ? `producer ${each.producer_id}, its transactional id is not loaded`
      : h("a", { href: transactionLink(each.id) }, each.id)) },
  { title: "Client", by: "client", kind: "still", of: (each) => each.client, cell: who },
  { title: "Waiting groups", by: "groups", kind: "words", of: (each) => each.waits.length, down: true, cell: waiting },
];

const hanging = (each) => commandLine(
  command("transactions abort", [], ["--topic", `${each.topic}:${each.partition}`, "--start-offset", String(each.start_offset)]),
  `${each.topic}:${each.partition} has a hanging transaction: only an operator can end it`);

export function transactionsView() {
  const render = (watch) => {
    const held = inOrder(watch.rows("held"), (each) => [each.since_ms, each.topic, each.partition]);
    const records = new Map();
    for (const each of held) records.set(each.id, (records.get(each.id) ?? 0) + each.held_back);
    const all = inOrder(watch.rows("transaction").map((each) => ({ ...each, held: records.get(each.id) ?? 0 })), OPEN_FIRST);
    const found = matching(all, (each) => [each.id, each.state, textOfWho(each)]);
    const open = all.filter((each) => each.open).length;
    return [
      h("div", { class: "title" }, h("h1", null, "Transactions"),
        h("p", { class: "sub" }, `${plural(all.length, "id")}, ${count(open)} open`,
          held.length ? [", ", h("b", null, `${plural(held.length, "partition")} blocked`)] : "")),
      watch.head.loading ? h("p", { class: "note" }, "The broker is still loading: some transactional ids are not shown yet.") : null,
      Object.entries(watch.head.unreadable ?? {}).map(([partition, why]) =>
        h("p", { class: "note bad" }, `Some transactional ids are not shown: ${partition} can't be read. ${why}`)),
      held.length ? [
        h("h2", null, "Partitions blocked by an open transaction"),
        table({ name: "held", caption: "Partitions blocked by an open transaction", columns: HELD, rows: held, key: (each) => `${each.topic}-${each.partition}`, standing: "for" }),
        held.filter((each) => each.hangs).slice(0, 5).map(hanging),
        h("h2", null, "Transactional ids"),
      ] : null,
      search("Filter by id, state, client, host"),
      found.length
        ? table({ caption: "Transactional ids", columns: IDS, rows: found, key: (each) => each.id, standing: "open" })
        : nothing(all.length ? `None of ${plural(all.length, "id")} matches “${place.get("q")}”.`
          : "No producer has used a transactional id yet. Start such a producer, and its id appears here."),
    ];
  };
  return { render };
}

// --------------------------------------------------------------------------------------- one id

const PARTITIONS = [
  { title: "Partition", by: "partition", kind: "name", of: (each) => `${each.topic}-${String(each.partition).padStart(9, "0")}`,
    cell: (each) => [h("a", { href: topicLink(each.topic) }, each.topic), `:${each.partition}`, each.there ? "" : faint(" deleted")] },
  number("First offset", "start", (each) => each.start_offset, (each) => count(each.start_offset)),
  number("Last stable offset", "stable", (each) => each.last_stable_offset, (each) => count(each.last_stable_offset)),
  number("Log end", "end", (each) => each.end_offset, (each) => count(each.end_offset)),
  number("Blocked records", "held", (each) => each.held_back, (each) => count(each.held_back)),
  { title: "Blocked by this transaction", by: "holds", kind: "still", of: (each) => Number(Boolean(each.holds)), down: true,
    cell: (each) => (each.holds ? "yes" : faint(each.held_back ? "no, by another transaction" : "–")) },
];

const OUTCOMES = {
  open: "open", committing: "committing", aborting: "aborting",
  committed: "committed", aborted: "aborted", unknown: "ended, outcome unknown",
};

const CAUSES = { client: "by its client", timeout: "at its timeout", fenced: "by a newer producer", admin: "by an operator" };

function outcome(each) {
  const grave = each.outcome === "aborted" && each.cause !== "client";
  return [h("span", { class: grave ? "bad" : null }, OUTCOMES[each.outcome] ?? each.outcome),
    each.cause ? faint(`, ${CAUSES[each.cause] ?? each.cause}`) : null];
}

function waits(each) {
  const shown = each.waits.slice(0, 4).map((wait, i) => [
    i ? ", " : "", h("a", { href: groupLink(wait.group) }, wait.group || "(no name)"), ` at ${wait.topic}:${wait.partition} `,
    wait.over ? `for ${span(wait.waited_ms)}` : ["for ", ticking("for", wait.since_ms)]]);
  const more = each.waits.length - shown.length;
  return shown.length ? [shown, more > 0 ? ` and ${more} more` : ""] : faint("–");
}

const touched = (each) => (each.partitions.length
  ? each.partitions.map(({ topic, partitions }) => h("span", { class: "chip" }, topic, ":", h("b", null, ranges(partitions))))
  : faint("–"));

const STORY = [
  { title: "Began", by: "began", kind: "still", of: (each) => each.number, down: true,
    cell: (each) => [ticking("ago", each.began_ms), each.source === "kept" ? faint(" before the last restart") : each.source === "log" ? faint(" loaded from the log") : null] },
  { title: "Outcome", by: "outcome", kind: "words", of: (each) => each.outcome, cell: outcome },
  { title: "Lasted", by: "lasted", kind: "number", of: (each) => (each.ended_ms ? each.ended_ms - each.began_ms : null), down: true,
    cell: (each) => (each.ended_ms ? span(each.ended_ms - each.began_ms) : each.outcome === "unknown" ? faint("–") : ticking("for", each.began_ms)) },
  { title: "Opened by", by: "client", kind: "still", of: (each) => each.client, cell: who },
  { title: "Wrote to", by: "touched", kind: "words", of: (each) => each.touched, down: true, cell: touched },
  { title: "Ended by", by: "ender", kind: "still", of: (each) => each.ended_by_client,
    cell: (each) => who({ client: each.ended_by_client, host: each.ended_by_host }) },
  { title: "Readers waited", by: "waits", kind: "words", of: (each) => each.waits.length, down: true, cell: waits },
];

const REFUSED = [
  { title: "Refused with", by: "error", kind: "name", of: (each) => each.error, cell: (each) => each.error },
  number("Times", "times", (each) => each.count, (each) => count(each.count)),
  { title: "Last", by: "last", kind: "still", of: (each) => each.last_ms, down: true, cell: (each) => ticking("ago", each.last_ms) },
  { title: "Client", by: "client", kind: "still", of: (each) => each.client, cell: who },
  { title: "Why", by: "why", kind: "words", of: (each) => each.why, cell: (each) => each.why },
];

export function transactionView() {
  const render = (watch) => {
    const head = watch.head;
    const crumbs = h("p", { class: "crumbs" }, h("a", { href: place.list("transactions") }, "Transactions"), " / ");
    const title = h("h1", null, head.id);
    if (!head.exists) return [crumbs, title, nothing(head.loading ? "The coordinator partition of this id is loading." : "This transactional id does not exist.")];
    const partitions = inOrder(watch.rows("partition"), (each) => [each.holds ? 0 : 1, each.topic, each.partition]);
    const stories = watch.rows("story").sort((a, b) => b.number - a.number);
    const refused = watch.rows("refused").sort((a, b) => b.last_ms - a.last_ms);
    const producer = head.state === null ? "the id has expired: only its history remains"
      : [`producer ${head.producer_id}, epoch ${head.producer_epoch}, timeout ${span(head.timeout_ms)}, `, who(head)];
    return [
      crumbs,
      h("div", { class: "title" }, title, h("p", { class: "sub" }, stateBadge(head.state), " ", producer)),
      head.open ? h("p", { class: "note", role: "status" }, "Open for ", ticking("for", head.since_ms),
        head.ends_ms ? ["; the transaction times out in ", ticking("until", head.ends_ms)] : "; the outcome is decided, and the markers are being written") : null,
      head.state === "Ongoing" ? commandLine(command("transactions abort", [head.id]), "Abort the transaction and fence its producer (asks for confirmation)") : null,
      partitions.length ? [h("h2", null, "Partitions"),
        table({ name: "partitions", caption: "Partitions", columns: PARTITIONS, rows: partitions, key: (each) => `${each.topic}-${each.partition}`, standing: "-holds" })] : null,
      h("h2", null, "History"),
      stories.length ? table({ name: "story", caption: "Last transactions", columns: STORY, rows: stories, key: (each) => each.number, standing: "-began" })
        : nothing("No transactions are recorded."),
      refused.length ? [h("h2", null, "Refused requests"),
        table({ name: "refused", caption: "Refused requests", columns: REFUSED, rows: refused, key: (each) => each.error, standing: "-last" })] : null,
    ];
  };
  return { render };
}
