// One group: its members, its offsets, and the story of its rebalances.
import { brief, count, h, nothing, plural, ranges, shortIds, sparkline, span, stateBadge, table, ticking, topicLink } from "./dom.js";
import { story } from "./timeline.js";

const OFFSETS_SHOWN = 300;
const MEMBERS_SHOWN = 300;

const owns = (partitions) => Object.entries(partitions || {}).filter(([, numbers]) => numbers.length)
  .map(([topic, numbers]) => h("span", { class: "chip" }, topic, " ", h("b", null, ranges(numbers))));

const shortHost = (host) => (host ? host.replace(/^\//, "") : "–");

// What is heard of a member that is awaited.
function sign(each, phase) {
  if (each.sign === "heartbeats") return [", still heartbeats", ...(each.last_heard_ms ? [", ", ticking("ago", each.last_heard_ms)] : []), `, but does not ${phase === "sync" ? "sync" : "rejoin"}`];
  if (each.sign === "silent") return [", last heard ", ticking("ago", each.last_heard_ms)];
  return each.sign === "new" ? [", has its id and has not joined yet"] : [];
}

function banner(head) {
  const awaits = head.awaits;
  if (!awaits || !/Rebalance$/.test(head.state)) return null;
  const named = awaits.members.slice(0, 4);
  const more = awaits.members.length - named.length;
  const whom = named.length
    ? ["waiting for ", named.map((each, i) => [i ? ", " : "", `${each.client || each.member} (${shortHost(each.host)}`, ...sign(each, awaits.phase), ")"]), more > 0 ? ` and ${more} more` : ""]
    : "collecting joins";
  return h("p", { class: "note", role: "status" }, h("b", null, { join: "Join phase", sync: "Sync phase", "initial delay": "Initial delay", coalescing: "Collecting joins" }[awaits.phase] || awaits.phase),
    ": ", whom, ", for at most ", ticking("until", awaits.deadline_ms));
}

function members(rows, offsets, leader) {
  const lagOf = new Map(offsets.map((each) => [`${each.topic}\n${each.partition}`, each.lag || 0]));
  const sum = (partitions) => Object.entries(partitions || {})
    .flatMap(([topic, numbers]) => numbers.map((number) => lagOf.get(`${topic}\n${number}`) || 0)).reduce((a, b) => a + b, 0);
  return table("Members", [["Member", "name"], ["Host", "still"], ["Owns", "words"], ["Lag", "number"], ["Last heard", "still"], ["Session", "number"]],
    rows.slice(0, MEMBERS_SHOWN).map((each) => [each.member, [
      h("span", { class: "member", title: each.member }, h("b", null, each.client || "(no client id)"),
        each.member === leader ? h("span", { class: "tag" }, "leader") : null,
        each.instance ? h("span", { class: "tag" }, `instance ${each.instance}`) : null,
        h("small", null, shortIds(each.member))),
      shortHost(each.host),
      each.partitions === null && each.assignment_bytes ? `${each.assignment_bytes} bytes that only the members can read` : owns(each.partitions),
      brief(sum(each.partitions)),
      each.waits_with ? h("span", { class: "faint" }, `waits with ${each.waits_with}`) : ticking("ago", each.last_heard_ms),
      span(each.session_timeout_ms),
    ]]));
}

function offsetsTable(rows, memberRows) {
  const owner = new Map();
  for (const member of memberRows) {
    for (const [topic, numbers] of Object.entries(member.partitions || {})) {
      for (const number of numbers) owner.set(`${topic}\n${number}`, member);
    }
  }
  const most = Math.max(1, ...rows.map((each) => each.lag || 0));
  return table("Committed offsets", [["Topic", "name"], ["Partition", "number"], ["Owner", "still"], ["Committed", "number"], ["End", "number"], ["Lag", "number"], ["Unread for", "number"], ["Share", "chart"], ["Last commit", "still"]],
    rows.slice(0, OFFSETS_SHOWN).map((each) => {
      const member = owner.get(`${each.topic}\n${each.partition}`);
      return [`${each.topic}\n${each.partition}`, [
        h("a", { href: topicLink(each.topic) }, each.topic), String(each.partition),
        member ? h("span", { title: member.member }, member.client || shortIds(member.member)) : h("span", { class: "faint" }, "nobody"),
        count(each.offset), count(each.log_end_offset), count(each.lag),
        each.unread_since_ms ? ticking("for", each.unread_since_ms) : h("span", { class: "faint" }, each.lag ? "–" : "read"),
        h("meter", { min: 0, max: most, value: each.lag || 0, "aria-label": `lag ${each.lag || 0}` }),
        ticking("ago", each.committed_ms),
      ]];
    }));
}

function noticed(journal) {
  if (!journal) return null;
  const entries = [
    ...journal.notes.map((each) => [each.at_ms, each.text]),
    ...journal.rejected_commits.map((each) => [each.last_ms, `${plural(each.count, "commit")} refused with ${each.error}, the last by ${each.last.client || each.last.member || "somebody"} from ${shortHost(each.last.host)}: ${each.last.why}`]),
    ...journal.moved_back.last.map((each) => [each.at_ms, `${each.client || each.member || "somebody"} from ${shortHost(each.host)} set ${plural(each.offsets, "offset")} back: ${each.examples.slice(0, 3).map((e) => `${e.topic}-${e.partition} from ${count(e.from)} to ${count(e.to)}`).join(", ")}`]),
    ...journal.flapping.map((each) => [each.last_ms, `${each.client || each.member} changed its topics or protocols ${plural(each.changes, "time")}: ${each.last}`]),
    ...journal.returning.map((each) => [each.last_ms, `${each.client} from ${shortHost(each.host)} came back under a new id ${plural(each.times, "time")}: ${each.advice}`]),
  ].sort((a, b) => b[0] - a[0]).slice(0, 20);
  if (!entries.length) return null;
  return [h("h2", null, "Also noticed"), h("ul", { class: "noticed" },
    entries.map(([at, text]) => h("li", null, ticking("ago", at), " ", shortIds(text))))];
}

export function groupView() {
  return (watch) => {
    const head = watch.head;
    const journal = watch.rows("journal")[0] || null;
    const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups"), " / ");
    const rebalances = watch.rows("rebalance").sort((a, b) => a.number - b.number);
    if (!head.exists) {
      const words = head.loading ? "Its partition is being loaded; it will appear here." : head.unreadable ? `Its partition can't be read: ${head.unreadable}` : "There is no such group.";
      return [crumbs, h("h1", null, head.group), nothing(words), rebalances.length ? story(rebalances, journal) : null, noticed(journal)];
    }
    const rows = watch.rows("member").sort((a, b) => (a.client || "").localeCompare(b.client || "") || (a.member < b.member ? -1 : 1));
    const offsets = watch.rows("offset").sort((a, b) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1));
    const oldest = Math.min(...offsets.map((each) => each.unread_since_ms || Infinity));
    const facts = [`generation ${head.generation}`, head.protocol && `assigned by ${head.protocol}`, plural(rows.length, "member")].filter(Boolean).join(", ");
    return [
      crumbs,
      h("div", { class: "title" }, h("h1", null, head.group),
        h("p", { class: "sub" }, stateBadge(head.state), " for ", ticking("for", head.state_since_ms), `, ${facts}`)),
      banner(head),
      h("div", { class: "tiles" },
        h("section", { class: "tile wide" }, h("h3", null, "Records behind"), h("p", { class: "big" }, brief(head.lag)),
          h("p", { class: "faint" }, Number.isFinite(oldest) ? ["the oldest for ", ticking("for", oldest)] : "\u00a0"),
          sparkline([...head.trend, head.lag], { width: 420, height: 48, label: `lag over ten minutes, now ${head.lag}` }))),
      h("h2", null, "Rebalances"),
      story(rebalances, journal),
      h("h2", null, "Members"),
      rows.length ? members(rows, offsets, head.leader) : nothing("Nobody is in the group now."),
      rows.length > MEMBERS_SHOWN ? nothing(`The first ${MEMBERS_SHOWN} of ${count(rows.length)}.`) : null,
      h("h2", null, "Partitions"),
      offsets.length ? offsetsTable(offsets, rows) : nothing("Nothing has been committed yet."),
      offsets.length > OFFSETS_SHOWN ? nothing(`The first ${OFFSETS_SHOWN} of ${count(offsets.length)}.`) : null,
      noticed(journal),
    ];
  };
}
