// Verdicts of groups and partitions, with advice. docs/use/verdicts.md has the rules; the broker
// applies them.
import { addressed, commandLine } from "./commands.js";
import { h, plural, shortIds, spoken, ticking, topicLink } from "./dom.js";
import { inOrder } from "./table.js";

// The worst first.
const NAMES = ["OUT_OF_RANGE", "BLOCKED", "REFUSED", "NOT_READY", "HELD_BACK", "STALLED", "STUCK_RECORD", "LOCKS_EXPIRE", "FLAPPING", "ABANDONED", "LAGGING", "OK"];
const MILD = ["LOCKS_EXPIRE", "FLAPPING", "ABANDONED", "LAGGING", "AWAITED", "WAITS"];

// Returns a verdict's rank. A verdict that this page does not know ranks before OK, a missing verdict
// last.
export function rank(verdict) {
  if (!verdict) return NAMES.length;
  if (verdict === WAITS || verdict === AWAITED) return NAMES.length - (verdict === WAITS ? 1.2 : 1.3);
  const at = NAMES.indexOf(verdict === "DEAD_LETTER" ? "STUCK_RECORD" : verdict);  // the old name
  return at < 0 ? NAMES.length - 1.5 : at;
}

export const worst = (verdicts) => verdicts.reduce((a, b) => (rank(b) < rank(a) ? b : a), null);
export const isFine = (verdict) => rank(verdict) >= NAMES.length - 1;

const kindOf = (verdict) => (isFine(verdict) ? "fine" : MILD.includes(verdict) ? "mild" : "grave");

// A member of a rebalancing group is not OK: the member waits, or other members wait for it.
export const WAITS = "WAITS";
export const AWAITED = "AWAITED";

export const badge = (verdict) => (verdict
  ? h("span", { class: `verdict ${kindOf(verdict)}` }, verdict)
  : h("span", { class: "faint" }, "–"));

// Sorts rows, worst first. Rows with the same verdict are ordered by age, then by the magnitude of the
// lag, so that the first rows do not depend on names, and rows do not move with each record.
const magnitude = (lag) => Math.floor(Math.log10(Math.abs(lag || 0) + 1));
export const worstFirst = (rows, name) => inOrder(rows, (row) => [
  rank(row.verdict), isFine(row.verdict) ? 0 : row.verdict_since_ms ?? Infinity, -magnitude(row.lag), name(row)]);

function where(finding, members) {
  const parts = [];
  if (finding.topic !== null && finding.topic !== undefined) {
    parts.push(["partition ", h("a", { href: topicLink(finding.topic) }, finding.partition === null ? finding.topic : `${finding.topic}:${finding.partition}`)]);
  }
  if (finding.member) parts.push(["member ", members.name(finding)]);
  else if (finding.client) parts.push(`client ${finding.client}`);
  if (finding.instance) parts.push(`instance ${finding.instance}`);
  if (finding.host) parts.push(`host ${finding.host}`);
  return parts.map((part, i) => [i ? ", " : "", part]);
}

function finding(each, members, offsets) {
  const offset = offsets.find((row) => row.topic === each.topic && row.partition === each.partition);
  return h("li", { "data-key": [each.verdict, each.topic, each.partition, each.member, each.client, each.host].join("\n"), class: kindOf(each.verdict) },
    h("p", { class: "head" }, badge(each.verdict),
      each.since_ms ? h("span", null, "for ", ticking("for", each.since_ms)) : null,
      h("span", null, where(each, members))),
    h("p", { class: "sentence" }, spoken(shortIds(each.sentence))),
    each.advice ? h("p", { class: "advice" }, spoken(shortIds(each.advice))) : null,
    each.command ? commandLine(addressed(each.command)) : null,
    offset && hasUnread(offset) ? lookButton(offset, "Show the record") : null);
}

// Returns the findings of a group, each with its advice.
export function findings(head, members, offsets) {
  const found = (head.findings ?? []).filter((each) => !isFine(each.verdict));
  if (!found.length) return null;
  return [h("h2", null, "Findings"),
    h("ol", { class: "findings" }, found.map((each) => finding(each, members, offsets))),
    head.more_findings ? h("p", { class: "faint" }, `and ${plural(head.more_findings, "more finding")} of this group`) : null];
}

// Returns whether the partition has an unread or lost record to show.
export const hasUnread = (offset) => offset.log_end_offset !== null
  && (offset.offset === null ? offset.log_end_offset > offset.log_start_offset : Boolean(offset.lag || offset.lost_records));

export const lookButton = (offset, words = "Show") => h("button", {
  class: "quiet", type: "button", "data-look": "", "data-topic": offset.topic, "data-partition": offset.partition,
  "aria-label": `Show the record at ${offset.topic}:${offset.partition}`,
}, words);
