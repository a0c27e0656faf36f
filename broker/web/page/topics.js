// Topics, and one topic with its partitions and the groups that read it.
import { brief, bytes, count, groupLink, h, nothing, now, plural, span, stateBadge, topicLink } from "./dom.js";
import { place } from "./place.js";
import { inOrder, matching, search, table } from "./table.js";
import { badge, rank, worstFirst } from "./verdicts.js";

// Returns the records per second between the last two updates; `seen` has the values of the last
// update by name.
function rateOf(seen, name, value) {
  const at = now();
  const known = seen.get(name);
  if (!known) {
    seen.set(name, { at, value, rate: null });
    return null;
  }
  if (at - known.at >= 2000) {
    known.rate = Math.max(0, ((value - known.value) * 1000) / (at - known.at));
    Object.assign(known, { at, value });
  }
  return known.rate;
}

const faint = (words) => h("span", { class: "faint" }, words);
const perSecond = (rate) => (rate === null ? "–" : `${brief(rate)}/s`);

function health(each) {
  if (each.poisoned) return h("span", { class: "bad" }, `${plural(each.poisoned, "partition")} not writable`);
  if (each.unreadable) return h("span", { class: "bad" }, `${plural(each.unreadable, "partition")} not readable`);
  return h("span", { class: "faint" }, each.internal ? `${each.cleanup_policy}, internal` : each.cleanup_policy);
}

const number = (title, by, of, cell) => ({ title, by, of, cell, kind: "number", down: true });
const exact = (value) => h("span", { title: count(value) }, brief(value));
const written = number("Written", "written", (each) => each.rate, (each) => perSecond(each.rate));
const size = number("Size", "size", (each) => each.size_bytes, (each) => bytes(each.size_bytes));
const segments = number("Segments", "segments", (each) => each.segments, (each) => count(each.segments));

const TOPICS = [
  { title: "Topic", by: "topic", kind: "name", of: (each) => each.topic, cell: (each) => h("a", { href: topicLink(each.topic) }, each.topic) },
  number("Partitions", "partitions", (each) => each.partitions, (each) => count(each.partitions)),
  number("Records", "records", (each) => each.records, (each) => exact(each.records)),
  written, size, segments,
  { title: "Cleanup", by: "cleanup", kind: "still", of: (each) => each.cleanup_policy, cell: health },
];


export function topicsView() {
  const seen = new Map();
  const render = (watch) => {
    // Topics with problems first, internal topics last.
    const all = inOrder(
      watch.rows("topic").map((each) => ({ ...each, rate: rateOf(seen, each.topic, each.end_offsets) })),
      (each) => [-(each.poisoned + each.unreadable), Number(each.internal), each.topic]);
    const found = matching(all, (each) => [each.topic, each.cleanup_policy]);
    const whole = all.reduce((sum, each) => sum + each.size_bytes, 0);
    const partitions = all.reduce((sum, each) => sum + each.partitions, 0);
    return [
      h("div", { class: "title" }, h("h1", null, "Topics"),
        h("p", { class: "sub" }, `${plural(all.length, "topic")}, ${plural(partitions, "partition")}, ${bytes(whole)}`)),
      search("Filter topics"),
      found.length ? table({ caption: "Topics", columns: TOPICS, rows: found, key: (each) => each.topic, standing: "" })
        : nothing(all.length ? `None of ${plural(all.length, "topic")} matches “${place.get("q")}”.` : "No topics exist yet."),
    ];
  };
  return { render };
}

const READERS = [
  { title: "Group", by: "group", kind: "name", of: (each) => each.group, cell: (each) => h("a", { href: groupLink(each.group) }, each.group || "(no name)") },
  { title: "Verdict", by: "verdict", kind: "still", of: (each) => rank(each.verdict), cell: (each) => badge(each.verdict) },
  { title: "State", by: "state", kind: "still", of: (each) => each.state, cell: (each) => stateBadge(each.state) },
  number("Members", "members", (each) => each.members, (each) => count(each.members)),
  number("Partitions", "partitions", (each) => each.partitions, (each) => count(each.partitions)),
  number("Lag", "lag", (each) => each.lag, (each) => exact(each.lag)),
];

function named(each) {
  if (each.poisoned) return h("span", { class: "bad", title: each.poisoned }, `${each.partition}: not writable`);
  if (each.unreadable) return h("span", { class: "bad", title: each.unreadable }, `${each.partition}: not readable`);
  return String(each.partition);
}

const PARTITIONS = [
  { title: "Partition", by: "partition", kind: "name", of: (each) => each.partition, cell: named },
  number("Start offset", "start", (each) => each.log_start_offset, (each) => count(each.log_start_offset)),
  number("End offset", "end", (each) => each.log_end_offset, (each) => count(each.log_end_offset)),
  number("Records", "records", (each) => each.log_end_offset - each.log_start_offset, (each) => count(each.log_end_offset - each.log_start_offset)),
  written, size, segments,
];

const SOURCES = { topic: "this topic", broker: "the broker", default: "default" };
const SOURCE_ORDER = Object.keys(SOURCES);

// Returns the value of a setting; milliseconds and bytes also in a larger unit.
function valueOf({ name, value }) {
  if (value === null || value === "") return faint(value === null ? "not set" : "empty");
  const number = Number(value);
  if (!/^-?\d+$/.test(value)) return value;
  const isTime = /\.ms$/.test(name);
  const isSize = /bytes$/.test(name);
  if (number >= Number.MAX_SAFE_INTEGER || (number === -1 && (isTime || isSize))) return ["no limit", faint(` (${value})`)];
  if (isTime && number >= 1000) return [span(number), faint(` (${count(number)} ms)`)];
  return isSize && number >= 1024 ? [bytes(number), faint(` (${count(number)} bytes)`)] : count(number);
}

const SETTINGS = [
  { title: "Setting", by: "setting", kind: "name", of: (each) => each.name, cell: (each) => h("span", { title: each.documentation }, each.name) },
  { title: "Value", by: "value", kind: "value", of: (each) => each.value, cell: valueOf },
  { title: "Set by", by: "source", kind: "still", of: (each) => SOURCE_ORDER.indexOf(each.source),
    cell: (each) => (each.source === "default" ? faint(SOURCES.default) : h("b", null, SOURCES[each.source])) },
];

function settingsOf(rows) {
  if (!rows.length) return nothing("Settings are not shown: you need DESCRIBE_CONFIGS on this topic.");
  inOrder(rows, (each) => [SOURCE_ORDER.indexOf(each.source), each.name]);
  return table({ name: "settings", caption: "Settings", columns: SETTINGS, rows, key: (each) => each.name, standing: "source" });
}

export function topicView() {
  const seen = new Map();
  const render = (watch) => {
    const head = watch.head;
    const crumbs = h("p", { class: "crumbs" }, h("a", { href: place.list("topics") }, "Topics"), " / ");
    if (!head.exists) return [crumbs, h("h1", null, head.topic), nothing("This topic does not exist.")];
    const partitions = watch.rows("partition").map((each) => ({ ...each, rate: rateOf(seen, each.partition, each.log_end_offset) }));
    inOrder(partitions, (each) => [each.poisoned || each.unreadable ? 0 : 1, each.partition]);
    const readers = worstFirst(watch.rows("group"), (each) => each.group);
    return [
      crumbs,
      h("div", { class: "title" }, h("h1", null, head.topic),
        h("p", { class: "sub" }, `${plural(head.partitions, "partition")}, ${brief(head.records)} records, ${bytes(head.size_bytes)}, cleanup ${head.cleanup_policy}`)),
      h("h2", null, "Read by"),
      readers.length
        ? table({ name: "readers", caption: "Groups that read this topic", columns: READERS, rows: readers, key: (each) => each.group, standing: "verdict" })
        : nothing("No group has committed an offset in this topic."),
      h("h2", null, "Partitions"),
      table({ name: "partitions", caption: "Partitions", columns: PARTITIONS, rows: partitions, key: (each) => each.partition, standing: "partition" }),
      h("h2", null, "Settings"),
      settingsOf(watch.rows("setting")),
    ];
  };
  return { render };
}
