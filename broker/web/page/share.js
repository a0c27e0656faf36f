// A share group's records: its share partitions, the records that members hold, and the records that
// were delivered again or archived, with their deliveries.
import { command, commandLine } from "./commands.js";
import { count, h, nothing, plural, span, ticking, topicLink } from "./dom.js";
import { hostOf } from "./members.js";
import { inOrder, table } from "./table.js";

const OUTCOMES_SHOWN = 3;
const SAID = {
  accepted: "accepted", released: "released it", rejected: "rejected it", gap: "reported that no record exists",
  "lock expired": "did not acknowledge in time", "session closed": "ended its session",
};

const faint = (words) => h("span", { class: "faint" }, words);
const placeOf = (each) => `${each.topic}\n${String(each.partition).padStart(10, "0")}`;
const offsets = (each) => (each.first_offset === each.last_offset
  ? count(each.first_offset) : `${count(each.first_offset)}–${count(each.last_offset)}`);
const size = (each) => each.last_offset - each.first_offset + 1;
const some = (value) => (value ? count(value) : faint("–"));
const partition = (each) => [h("a", { href: topicLink(each.topic) }, each.topic), `:${each.partition}`];
const number = (title, by, of, cell) => ({ title, by, of, cell, kind: "number", down: true });
const PLACE = { title: "Partition", by: "partition", kind: "name", of: placeOf, cell: partition };
const within = (row, each) => ({ ...each, topic: row.topic, partition: row.partition, row });

// Returns the number of records that each member holds, by member id.
export function held(shares) {
  const found = new Map();
  for (const each of shares.flatMap((row) => row.in_flight)) {
    if (each.state === "acquired") found.set(each.member, (found.get(each.member) ?? 0) + size(each));
  }
  return found;
}

const PARTITIONS = [
  PLACE,
  number("Start offset", "start", (each) => each.start_offset, (each) => count(each.start_offset)),
  number("Next offset", "next", (each) => each.next_offset, (each) => count(each.next_offset)),
  number("Log end", "end", (each) => each.log_end_offset, (each) => count(each.log_end_offset)),
  number("Unread", "unread", (each) => each.unread, (each) => count(each.unread)),
  number("Held", "held", (each) => each.records.acquired, (each) => some(each.records.acquired)),
  number("Released", "released", (each) => each.records.available, (each) => some(each.records.available)),
  number("Finished in flight", "final", (each) => each.records.acknowledged + each.records.archived,
    (each) => some(each.records.acknowledged + each.records.archived)),
];

const state = (each) => (each.loaded ? null : faint(" not in memory"));

function holders(rows, members) {
  const columns = [
    PLACE,
    { title: "Offsets", by: "offsets", kind: "number", of: (each) => each.first_offset, cell: offsets },
    { title: "Held by", by: "member", kind: "name", of: (each) => members.numbers.get(each.member),
      cell: (each) => [members.name(each), faint(` on ${hostOf(each)}`)] },
    { title: "Since", by: "since", kind: "still", of: (each) => each.since_ms, cell: (each) => ticking("ago", each.since_ms) },
    { title: "Lock ends in", by: "until", kind: "still", of: (each) => each.until_ms,
      cell: (each) => (each.pending ? "acknowledged, being stored" : ticking("until", each.until_ms)) },
    number("Delivery", "delivery", (each) => each.deliveries, (each) => count(each.deliveries)),
  ];
  const key = (each) => `${each.topic}-${each.partition}-${each.first_offset}`;
  return table({ name: "held", caption: "Records held by members", columns, rows, key, standing: "until" });
}

// The deliveries of a record, the last first.
function deliveries(each, members) {
  const shown = [...each.outcomes].reverse().slice(0, OUTCOMES_SHOWN);
  const more = each.deliveries - shown.length - (each.state === "acquired" ? 1 : 0);
  return [
    shown.map((one) => h("small", null, `#${one.delivery} `, members.name(one), ` on ${hostOf(one)} `,
      `${SAID[one.outcome] ?? one.outcome} after ${span(Math.max(0, one.at_ms - one.since_ms))}, `, ticking("ago", one.at_ms))),
    more > 0 ? h("small", null, `and ${plural(more, "earlier delivery", "earlier deliveries")}`) : null,
  ];
}

const ENDS = { archived: "archived", acknowledged: "accepted", available: "available for the next fetch", acquired: "held by a member" };
const because = (each) => (each.archived_because
  ? [h("span", { class: "bad" }, "archived"), faint(`: ${each.archived_because}`)] : ENDS[each.state] ?? each.state);

function again(group, rows, members) {
  const columns = [
    PLACE,
    { title: "Offsets", by: "offsets", kind: "number", of: (each) => each.first_offset, cell: offsets },
    number("Deliveries", "deliveries", (each) => each.deliveries, (each) => count(each.deliveries)),
    { title: "State", by: "state", kind: "still", of: (each) => each.archived_because ?? each.state, cell: because },
    { title: "How the deliveries ended", kind: "words", cell: (each) => deliveries(each, members) },
  ];
  const key = (each) => `${each.topic}-${each.partition}-${each.first_offset}`;
  const first = rows[0];
  return [
    table({ name: "again", caption: "Records delivered again or archived", columns, rows, key, standing: "-deliveries" }),
    commandLine(command("share why", [group, `${first.topic}:${first.partition}@${first.first_offset}`]), "Show all deliveries of a record"),
  ];
}

// Returns the sections of a share group's page that replace those on committed offsets.
export function shareSections(head, shares, members) {
  const rows = inOrder(shares, (each) => [placeOf(each)]);
  const inHand = rows.flatMap((row) => row.in_flight.filter((each) => each.state === "acquired").map((each) => within(row, each)));
  const delivered = rows.flatMap((row) => row.histories.map((each) => within(row, each)));
  const omitted = rows.reduce((sum, row) => sum + row.more_in_flight + row.more_histories, 0);
  const columns = [{ ...PLACE, cell: (each) => [partition(each), state(each)] }, ...PARTITIONS.slice(1)];
  return [
    h("h2", null, "Share partitions"),
    rows.length
      ? table({ name: "partitions", caption: "Share partitions", columns, rows, key: (each) => `${each.topic}-${each.partition}`, standing: "partition" })
      : nothing("No share partitions are initialized yet: the second heartbeat of the first member initializes them."),
    h("h2", null, "Records held by members"),
    inHand.length ? holders(inOrder(inHand, (each) => [each.until_ms, placeOf(each), each.first_offset]), members)
      : nothing("No member holds a record."),
    h("h2", null, "Records delivered again or archived"),
    delivered.length
      ? again(head.group, inOrder(delivered, (each) => [-each.deliveries, placeOf(each), each.first_offset]), members)
      : nothing(`No record was delivered again or archived. A record is archived after ${plural(head.share.delivery_count_limit, "delivery", "deliveries")}.`),
    omitted ? h("p", { class: "note" }, `${plural(omitted, "more range")} of records in flight or with deliveries are not shown.`) : null,
  ];
}

// Returns the tile with the number of records in each state.
export function shareTile(head, shares) {
  const sum = (of) => shares.reduce((total, row) => total + (of(row) ?? 0), 0);
  const unread = sum((row) => row.unread) + sum((row) => row.records.available);
  return h("section", { class: "tile wide" }, h("h2", null, "Records"),
    h("p", { class: "big" }, `${count(unread)} waiting`),
    h("p", { class: "faint" }, `${count(sum((row) => row.records.acquired))} held by members, for at most ${span(head.share.lock_duration_ms)} each`));
}
