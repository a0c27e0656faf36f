// One group: its findings, members, offsets, and the history of its rebalances.
import { causeOf } from "./causes.js";
import { command, commandLine } from "./commands.js";
import { brief, chart, count, h, nothing, plural, ranges, shortIds, span, spoken, stateBadge, ticking, topicLink } from "./dom.js";
import { Members, hostOf } from "./members.js";
import { look } from "./peek.js";
import { place } from "./place.js";
import { held, shareSections, shareTile } from "./share.js";
import { table } from "./table.js";
import { story } from "./timeline.js";
import { AWAITED, badge, findings, hasUnread, lookButton, rank, WAITS, worst, worstFirst } from "./verdicts.js";

const faint = (words) => h("span", { class: "faint" }, words);
const key = (topic, partition) => `${topic}\n${partition}`;
const keyOf = (each) => key(each.topic, each.partition);

const owned = (member) => Object.entries(member.partitions || {})
  .flatMap(([topic, numbers]) => numbers.map((number) => key(topic, number)));

const owns = (partitions) => Object.entries(partitions || {}).filter(([, numbers]) => numbers.length)
  .map(([topic, numbers]) => h("span", { class: "chip" }, topic, ":", h("b", null, ranges(numbers))));

const OMITS = { sync: "sync", revoke: "give up its partitions" };

// The last sign of life of an awaited member.
function sign(each, phase) {
  if (each.sign === "heartbeats") {
    return [", still heartbeats", each.last_heard_ms ? [", last ", ticking("ago", each.last_heard_ms)] : "", `, but does not ${OMITS[phase] || "rejoin"}`];
  }
  if (each.sign === "closed") return [", its connection closed, last heartbeat ", ticking("ago", each.last_heard_ms)];
  if (each.sign === "silent" || each.sign === "not_due") return [", last heartbeat ", ticking("ago", each.last_heard_ms)];
  return each.sign === "new" ? ", received a member id but has not joined yet" : "";
}

const PHASES = { join: "Join phase", sync: "Sync phase", "initial delay": "Initial delay", coalescing: "Collecting joins", revoke: "Reconciling" };

const AWAITED_SHOWN = 3;

// What a member of a consumer group still has to give up, and what it waits for.
function reconciling(each, members) {
  const found = each.reconciliation;
  if (!found) return null;
  const revoking = owns(found.revoking);
  const shown = found.waits_for.slice(0, AWAITED_SHOWN);
  const more = found.waits_for.length - shown.length;
  return [
    revoking.length ? h("small", null, "has to give up ", revoking, found.revoke_until_ms ? [", or is removed in ", ticking("until", found.revoke_until_ms)] : null) : null,
    shown.length ? h("small", null, "waits for ", shown.map((one, i) => [i ? ", " : "", `${one.topic}-${one.partition} of `, members.number(one.member)]), more > 0 ? ` and ${more} more` : null) : null,
  ];
}

const TASKS_SHOWN = 12;

// The tasks of a member of a streams group, in each role.
function tasked(each) {
  if (!each.tasks) return null;
  const { active, standby } = each.tasks.assigned;
  const all = [...active, ...standby.map((task) => `standby ${task}`)];
  if (!all.length) return null;
  const more = all.length - TASKS_SHOWN;
  return h("small", null, `tasks ${all.slice(0, TASKS_SHOWN).join(", ")}`, more > 0 ? ` and ${more} more` : null);
}

// Returns one line for each open transaction in which offsets of the group are pending.
function pending(head) {
  return head.pending_offsets.map((each) => h("p", { class: "note" }, each.sentence,
    "; the table below does not show pending offsets"));
}

function banner(head, members) {
  const awaits = head.awaits;
  if (!awaits || !/Rebalance$|^Reconciling$|^Assigning$/.test(head.state)) return null;
  const named = awaits.members.slice(0, 4);
  const more = awaits.members.length - named.length;
  const whom = named.length
    ? ["waiting for ", named.map((each, i) => [i ? ", " : "", members.name(each), ` (${hostOf(each)}`, sign(each, awaits.phase), ")"]), more > 0 ? ` and ${more} more` : ""]
    : "collecting joins";
  return h("p", { class: "note", role: "status" }, h("b", null, PHASES[awaits.phase] || awaits.phase),
    ": ", whom, ", for at most ", ticking("until", awaits.ends_ms));
}

// ---------------------------------------------------------------------------------- the tables

// Returns the members' rows with lag and verdict, from the members' partitions and the findings.
function memberRows(rows, offsets, head) {
  const byPartition = new Map(offsets.map((each) => [keyOf(each), each]));
  const named = Map.groupBy(head.findings ?? [], (each) => each.member);
  const awaited = new Set((head.awaits?.members ?? []).map((each) => each.member));
  return rows.map((row) => {
    const its = owned(row).map((each) => byPartition.get(each)).filter(Boolean);
    const verdicts = [...its, ...(named.get(row.member) ?? [])].map((each) => each.verdict);
    if (awaited.has(row.member)) verdicts.push(AWAITED);
    else if (row.waits_with) verdicts.push(WAITS);
    const known = its.filter((each) => each.lag !== null);
    const lag = its.length && !known.length ? null : known.reduce((sum, each) => sum + Math.max(0, each.lag), 0);
    return { ...row, lag, verdict: worst(verdicts) ?? "OK" };
  }).sort((a, b) => rank(a.verdict) - rank(b.verdict));
}

// The columns on committed offsets, and for a share group the column on its records.
const ofOffsets = { title: "Lag", by: "lag", kind: "number", of: (each) => each.lag, down: true, cell: (each) => brief(each.lag) };
const ofShares = (holds) => ({ title: "Holds", by: "holds", kind: "number", of: (each) => holds.get(each.member) ?? 0, down: true,
  cell: (each) => plural(holds.get(each.member) ?? 0, "record") });

function membersTable(rows, members, head, shares) {
  const records = head.share ? ofShares(held(shares)) : ofOffsets;
  const evict = (each) => (each.instance
    ? command("groups evict", [head.group], ["--instance", each.instance])
    : command("groups evict", [head.group, each.member]));
  const columns = [
    { title: "Member", by: "member", kind: "name", of: (each) => members.numbers.get(each.member),
      cell: (each) => h("div", { class: "member" },
        h("b", null, members.number(each.member), " ", each.client || "(no client id)"),
        each.member === head.leader ? [" ", h("span", { class: "tag" }, "leader")] : null,
        each.reconciliation ? [" ", h("span", { class: "tag" }, `epoch ${each.reconciliation.epoch}`)] : null,
        each.instance ? [" ", h("span", { class: "tag" }, `instance ${each.instance}`)] : null,
        h("details", null, h("summary", null, shortIds(each.member)), h("code", null, each.member), commandLine(evict(each), "Evict this member (asks for confirmation)"))) },
    { title: "Verdict", by: "verdict", kind: "still", of: (each) => rank(each.verdict), cell: (each) => badge(each.verdict) },
    { title: "Host", by: "host", kind: "still", of: (each) => each.host, cell: hostOf },
    { title: "Owns", by: "owns", kind: "words", of: (each) => owned(each).length, down: true,
      cell: (each) => (each.partitions === null && each.assignment_bytes ? `${each.assignment_bytes} bytes in an unknown format` : [owns(each.partitions), tasked(each), reconciling(each, members)]) },
    records,
    { title: "Last heartbeat", by: "heard", kind: "still", of: (each) => each.last_heard_ms,
      cell: (each) => (each.waits_with ? faint(`waits in ${each.waits_with}`) : ticking("ago", each.last_heard_ms)) },
    { title: "Session timeout", by: "session", kind: "number", of: (each) => each.session_timeout_ms, down: true, cell: (each) => span(each.session_timeout_ms) },
  ];
  return table({ name: "members", caption: "Members", columns, rows, key: (each) => each.member, standing: "verdict" });
}

function lagOf(each) {
  if (each.lost_records > 0) return [count(each.lag), h("small", { class: "bad" }, `${count(each.lost_records)} lost`)];
  return h("span", { class: each.lag < 0 ? "bad" : null }, count(each.lag));
}

// Returns a partition's share of the group's lag.
function shareOf(each, whole) {
  const lag = Math.max(0, each.lag || 0);
  const percent = `${Math.round((100 * lag) / (whole || 1))} %`;
  return [h("meter", { min: 0, max: whole || 1, value: lag, "aria-label": `${percent} of the lag` }), h("small", null, percent)];
}

function offsetsTable(rows, owners, members) {
  const whole = rows.reduce((sum, each) => sum + Math.max(0, each.lag || 0), 0);
  const owner = (each) => owners.get(keyOf(each));
  const columns = [
    { title: "Partition", by: "partition", kind: "name", of: (each) => `${each.topic}\n${String(each.partition).padStart(10, "0")}`,
      cell: (each) => h("a", { href: topicLink(each.topic) }, `${each.topic}:${each.partition}`) },
    { title: "Verdict", by: "verdict", kind: "still", of: (each) => rank(each.verdict), cell: (each) => badge(each.verdict) },
    { title: "Owner", by: "owner", kind: "still", of: (each) => (owner(each) ? members.numbers.get(owner(each).member) : null),
      cell: (each) => (owner(each) ? members.name(owner(each)) : faint("none")) },
    { title: "Committed", by: "committed", kind: "number", of: (each) => each.offset, down: true,
      cell: (each) => (each.offset === null ? faint("never") : count(each.offset)) },
    { title: "Log end", by: "end", kind: "number", of: (each) => each.log_end_offset, down: true, cell: (each) => count(each.log_end_offset) },
    { title: "Lag", by: "lag", kind: "number", of: (each) => each.lag, down: true, cell: lagOf },
    { title: "Unread for", by: "unread", kind: "number", of: (each) => each.unread_since_ms,
      cell: (each) => (each.unread_since_ms ? ticking("for", each.unread_since_ms) : faint(hasUnread(each) ? "–" : "read")) },
    { title: "Share", kind: "chart",
      cell: (each) => shareOf(each, whole) },
    { title: "Last commit", by: "commit", kind: "still", of: (each) => each.committed_ms, down: true, cell: (each) => ticking("ago", each.committed_ms) },
    { title: "Record", kind: "still", cell: (each) => (hasUnread(each) ? lookButton(each) : null) },
  ];
  return table({ name: "partitions", caption: "Partitions", columns, rows, key: keyOf, standing: "verdict" });
}

// ------------------------------------------------------------------------------------- the rest

function noticed(journal) {
  if (!journal) return null;
  const by = (each) => `${each.client || each.member || "a client"} from ${hostOf(each)}`;
  const moved = (each) => each.examples.slice(0, 3).map((one) => `${one.topic}:${one.partition} from ${count(one.from)} to ${count(one.to)}`).join(", ");
  const entries = [
    ...journal.notes.map((each) => [each.at_ms, each.times > 1 ? `another process took over static member ${each.instance} ${plural(each.times, "time")}; the last time, ${each.text}` : each.text]),
    ...journal.losses.last.map((each) => [each.at_ms, each.sentence]),
    ...journal.rejected_commits.map((each) => [each.last_ms, `${plural(each.count, "commit")} refused with ${each.error}, the last by ${by(each.last)}: ${each.last.why}`]),
    ...journal.refused_joins.map((each) => [each.last_ms, `${plural(each.count, "join")} refused with ${each.error}, the last by ${by(each.last)}: ${each.last.why}`]),
    ...journal.moved_back.last.map((each) => [each.at_ms, `${by(each)} moved ${plural(each.offsets, "committed offset")} back: ${moved(each)}`]),
    ...journal.flapping.map((each) => [each.last_ms, `${each.client || each.member} changed its topics or protocols ${plural(each.changes, "time")}: ${each.last}`]),
    ...journal.returning.map((each) => [each.last_ms, `${each.instance ? `static member ${each.instance} from ${hostOf(each)}` : by(each)} ${each.what} ${plural(each.times, "time")}${each.instance ? "" : ", each time with a new member id"}: ${each.advice}`]),
  ].sort((a, b) => b[0] - a[0]).slice(0, 20);
  if (!entries.length) return null;
  return [h("h2", null, "Other events"), h("ul", { class: "noticed" },
    entries.map(([at, text]) => h("li", null, ticking("ago", at), " ", spoken(shortIds(text)))))];
}

const commands = ({ group, share }) => h("details", { class: "commands" }, h("summary", null, "Commands for a terminal"),
  commandLine(command(share ? "share describe" : "groups describe", [group]), "Describe the group"),
  commandLine(command("groups why", [group]), "Show why the group rebalances"),
  share ? commandLine(command("share why", [group]), "Show which records were delivered again or archived")
    : commandLine(command("groups reset", [group], ["--all-topics", "--to-current", "--dry-run"]), "Preview a reset of the group's offsets"));

function lagTile(head, offsets) {
  const oldest = Math.min(...offsets.map((each) => each.unread_since_ms || Infinity));
  return h("section", { class: "tile wide" }, h("h2", null, "Lag in records"), h("p", { class: "big" }, brief(head.lag)),
    h("p", { class: "faint" }, Number.isFinite(oldest) ? ["oldest unread record has waited for ", ticking("for", oldest)] : "\u00a0"),
    chart([...head.trend, head.lag ?? 0], { label: "lag", words: brief }));
}

const offsetSections = (offsets, owners, members) => [
  h("h2", null, "Partitions"),
  offsets.length ? offsetsTable(offsets, owners, members) : nothing("The group has not committed any offset yet."),
];

function title(head, rows, last) {
  const facts = [`${head.type === "classic" ? "generation" : "epoch"} ${head.generation}`, head.protocol && `assigned by ${head.protocol}`, plural(rows.length, "member")].filter(Boolean).join(", ");
  return h("div", { class: "title" }, h("h1", null, head.group),
    h("p", { class: "sub" }, head.share ? [h("span", { class: "tag" }, "share group"), " "] : null, badge(head.verdict), " ", stateBadge(head.state), " for ", ticking("for", head.state_since_ms), `, ${facts}`),
    last ? h("p", { class: "sub last" }, "Last rebalance: ", h("b", null, causeOf(last.cause)), ", ", ticking("ago", last.began_ms), `: ${shortIds(last.why)}`) : null);
}

export function groupView() {
  const parts = (watch) => {
    const rows = watch.rows("member");
    const rebalances = watch.rows("rebalance").sort((a, b) => a.number - b.number);
    return { rows, rebalances, offsets: watch.rows("offset"), members: new Members(rows, rebalances) };
  };
  const ownersOf = (rows) => new Map(rows.flatMap((member) => owned(member).map((each) => [each, member])));

  const render = (watch) => {
    const head = watch.head;
    const { rows, rebalances, offsets, members } = parts(watch);
    const journal = watch.rows("journal")[0] || null;
    const crumbs = h("p", { class: "crumbs" }, h("a", { href: place.list("groups") }, "Groups"), " / ");
    if (!head.exists) {
      const words = head.loading ? "The group's coordinator partition is loading; the group will appear here." : head.unreadable ? `The group's coordinator partition can't be read: ${head.unreadable}` : "This group does not exist.";
      return [crumbs, h("h1", null, head.group), nothing(words), rebalances.length ? story(rebalances, journal, members) : null, noticed(journal)];
    }
    worstFirst(offsets, (each) => `${each.topic}\n${String(each.partition).padStart(10, "0")}`);
    const shares = watch.rows("share");
    return [
      crumbs, title(head, rows, rebalances.at(-1)), banner(head, members), pending(head), findings(head, members, offsets), commands(head),
      h("div", { class: "tiles" }, head.share ? shareTile(head, shares) : lagTile(head, offsets)),
      h("h2", null, "Rebalances"),
      story(rebalances, journal, members),
      h("h2", null, "Members"),
      rows.length ? membersTable(memberRows(rows, offsets, head), members, head, shares) : nothing("The group has no members."),
      head.share ? shareSections(head, shares, members) : offsetSections(offsets, ownersOf(rows), members),
      noticed(journal),
    ];
  };

  const open = (watch, { topic, partition }) => {
    const { rows, offsets } = parts(watch);
    const found = offsets.find((each) => each.topic === topic && each.partition === Number(partition));
    if (found) look(watch.head.group, found, ownersOf(rows).get(keyOf(found)));
  };
  return { render, open };
}
