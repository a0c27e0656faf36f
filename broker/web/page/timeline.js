// The history of a group's rebalances: their phases along a line, and each rebalance as text.
import { causeOf } from "./causes.js";
import { h, instant, now, nothing, plural, ranges, shortIds, span, svg, tickText, ticking } from "./dom.js";
import { ids } from "./members.js";

const ASSIGNED_SHOWN = 50;
const HEIGHT = 86;
const BAR = 26;
const BAR_Y = 26;
const LABEL = 80;  // width of a time label

// Widths grow with the fourth root of the duration, since milliseconds and days share one line.
const weight = (ms) => Math.max(1, ms) ** 0.25;
// The phases of a rebalance: a consumer group has epochs, and no join phase.
const CLASSIC = { join: "join phase", sync: "sync phase", joins: "join", syncs: "sync", joining: "joining now", syncing: "syncing now", generation: "generation" };
const CONSUMER = { join: "before the assignment", sync: "reconciling", joins: "assigned after", syncs: "reconciled after", joining: "waiting for a heartbeat", syncing: "reconciling now", generation: "epoch" };
const wordsOf = (each) => (each.type === "classic" ? CLASSIC : CONSUMER);
const isFirst = (phase) => phase === "join" || phase === "assign";
const isSecond = (phase) => phase === "sync" || phase === "revoke";
const LEAST = { join: 4, sync: 4, stable: 16, empty: 16 };

function pieces(rebalances) {
  const at = now();
  const found = [];
  rebalances.forEach((each, i) => {
    const next = rebalances[i + 1];
    const end = each.ended_ms || at;
    const join = each.join_ms ?? (isFirst(each.phase) ? at - each.began_ms : end - each.began_ms);
    found.push({ kind: "join", ms: join, each });
    if (each.sync_ms !== null || isSecond(each.phase)) {
      found.push({ kind: "sync", ms: each.sync_ms ?? at - each.began_ms - join, each });
    }
    if (each.phase === "ended" && each.outcome !== "interrupted") {
      const kind = each.outcome === "assigned" ? "stable" : "empty";
      found.push({ kind, ms: (next ? next.began_ms : at) - end, each, open: !next });
    }
  });
  return found;
}

function ribbon(rebalances) {
  const width = Math.max(300, Math.min(1450, document.getElementById("main").clientWidth - 2) || 600);
  const shown = rebalances.slice(-Math.max(2, Math.floor(width / 74)));
  const parts = pieces(shown);
  const weights = parts.map((part) => weight(part.ms));
  const total = weights.reduce((a, b) => a + b, 0);
  const room = width - parts.reduce((sum, part) => sum + LEAST[part.kind], 0);
  const box = svg("svg", { class: "ribbon", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img",
    "aria-label": `${plural(shown.length, "rebalance")}, the last at ${instant(shown.at(-1).began_ms)}: ${causeOf(shown.at(-1).cause)}, ${shown.at(-1).why}` });
  let x = 0;
  let labelled = -1e9;
  parts.forEach((part, i) => {
    const wide = LEAST[parts[i].kind] + (weights[i] / total) * Math.max(0, room);
    const { each, kind } = part;
    const words = wordsOf(each);
    const title = { join: `${words.join}, ${span(part.ms)}`, sync: `${words.sync}, ${span(part.ms)}`, stable: `${words.generation} ${each.generation}, ${part.open ? "stable for" : "stable, lasted"} ${span(part.ms)}`, empty: `no members for ${span(part.ms)}` }[kind];
    box.append(svg("rect", { class: `phase ${kind}`, x: x.toFixed(1), y: BAR_Y, width: Math.max(1, wide - 1).toFixed(1), height: BAR, rx: Math.min(4, wide / 3).toFixed(1) },
      svg("title", null, `${each.why}: ${title}`)));
    if (kind === "join") {
      box.append(svg("line", { class: "mark", x1: x + 0.5, x2: x + 0.5, y1: BAR_Y - 5, y2: BAR_Y + BAR + 5 }));
      if (x - labelled > LABEL + 10 && x < width - LABEL) {
        const began = { class: "when", x: x.toFixed(1), y: 15, "data-tick": "ago", "data-ms": each.began_ms };
        box.append(svg("g", null, svg("title", null, instant(each.began_ms)), svg("text", began, tickText("ago", each.began_ms))));
        labelled = x;
      }
    }
    if (kind === "stable" && wide > 22) {
      box.append(svg("text", { class: "inside", x: (x + wide / 2).toFixed(1), y: BAR_Y + 17, "text-anchor": "middle" }, wide > 84 ? `${words.generation} ${each.generation}` : String(each.generation)));
    }
    if (wide > 50) {
      const ms = part.open ? Math.floor(part.ms / 1000) * 1000 : part.ms;
      box.append(svg("text", { class: "long", x: (x + wide / 2).toFixed(1), y: BAR_Y + BAR + 20, "text-anchor": "middle" }, span(ms)));
    }
    x += wide;
  });
  const key = wordsOf(shown.at(-1));
  return h("figure", { class: "timeline" }, box, h("figcaption", null,
    ...["join", "sync", "stable", "empty"].map((kind) => h("span", { class: `key ${kind}` }, { join: key.join, sync: key.sync, stable: "stable", empty: "no members" }[kind])),
    h("span", { class: "faint" }, "not to scale: long phases are drawn shorter")));
}

function bars(each, longest) {
  const width = 180;
  const join = each.join_ms ?? Math.max(0, (each.ended_ms || now()) - each.began_ms);
  const sync = each.sync_ms ?? 0;
  const scale = (ms) => (ms > 0 ? Math.max(2, (Math.log10(ms + 1) / Math.log10(longest + 2)) * (width - 4)) : 0);
  const all = scale(join + sync);
  const first = join + sync > 0 ? Math.max(join ? 2 : 0, (all * join) / (join + sync)) : 0;
  return svg("svg", { class: "bars", width, height: 8, viewBox: `0 0 ${width} 8`, "aria-hidden": "true" },
    svg("rect", { class: "rail", x: 0, y: 3, width, height: 2, rx: 1 }),
    svg("rect", { class: "phase join", x: 0, y: 0, width: first.toFixed(1), height: 8, rx: 2 }),
    svg("rect", { class: "phase sync", x: first.toFixed(1), y: 0, width: Math.max(0, all - first).toFixed(1), height: 8, rx: 2 }));
}

function phases(each, members) {
  const words = [];
  const names = wordsOf(each);
  const ends = { join_timed_out: ", until the rebalance timeout", initial_delay_ended: ", until the initial delay ended", nobody_left: ", until no members were left" };
  if (each.join_ms !== null) words.push(`${names.joins} ${span(each.join_ms)}${each.join_ended_by && each.join_ended_by !== "all_joined" ? ends[each.join_ended_by] ?? `, until ${each.join_ended_by}` : ""}`);
  if (each.sync_ms !== null) words.push(`${names.syncs} ${span(each.sync_ms)}`);
  if (isFirst(each.phase)) words.push(names.joining);
  if (isSecond(each.phase)) words.push(names.syncing);
  if (each.outcome === "assigned") words.push(`${names.generation} ${each.generation}, ${plural(each.members, "member")}`);
  else if (each.outcome) words.push({ interrupted: "interrupted by the next rebalance", stopped: "the broker stopped", unloaded: "the group's __consumer_offsets partition was unloaded", "nobody left": "no members were left" }[each.outcome] ?? each.outcome);
  if (each.awaited.length && each.phase !== "ended") words.push(["waits for ", each.awaited.slice(0, 4).map((one, i) => [i ? ", " : "", members.name(one)])]);
  return words.map((part, i) => [i ? " · " : "", part]);
}

// Labels of events that this run of the broker did not observe.
const SOURCES = { kept: "before the last restart", log: "loaded from the log" };

const got = (member) => Object.entries(member.partitions || {}).filter(([, numbers]) => numbers.length)
  .map(([topic, numbers]) => `${topic}:${ranges(numbers)}`).join(" ") || "nothing";

function entry(each, longest, members) {
  const assigned = each.assigned.slice(0, ASSIGNED_SHOWN);
  const more = each.assigned.length - assigned.length;
  const last = each.last_member && each.last_wait_ms > 50;
  const detail = [
    each.moved ? h("li", null, `${each.protocol} assigns ${shortIds(each.moved)}`) : null,
    ...each.changes.map((change) => h("li", null, members.name(change), change.host ? ` from ${change.host}` : "", /^(session expired|its )/.test(change.what) ? ": " : " ", shortIds(change.what),
      change.same_client ? `; ${shortIds(change.same_client.words)} ${members.number(change.same_client.member)}` : null)),
    each.more_changes ? h("li", { class: "faint" }, `and ${plural(each.more_changes, "more change")}`) : null,
    last ? h("li", null, "the last member to join was ", h("b", null, members.number(each.last_member), " ", shortIds(each.last_member)), `, ${span(each.last_wait_ms)} after the previous member`) : null,
    ...assigned.map((member) => h("li", null, members.name(member), member.host ? ` on ${member.host}` : null, ` got ${got(member)}`)),
    more > 0 ? h("li", { class: "faint" }, `and ${plural(more, "more member")}`) : null,
  ].filter(Boolean);
  return h("li", { "data-key": each.number, class: each.phase === "ended" ? null : "running" },
    h("details", null,
      h("summary", null,
        h("span", { class: "at" }, ticking("ago", each.began_ms)),
        h("span", { class: "told" }, h("b", null, causeOf(each.cause)),
          SOURCES[each.source] ? [" ", h("span", { class: "tag" }, SOURCES[each.source])] : null, h("span", { class: "why", title: each.why }, shortIds(each.why)), h("small", null, phases(each, members))),
        bars(each, longest)),
      detail.length ? [h("ul", null, detail), ids(members, [...each.changes, ...assigned])] : nothing("No further details are known.")));
}

export function story(rebalances, journal, members) {
  const restored = journal && journal.restored;
  const before = restored && restored.generations.length
    ? h("p", { class: "faint" }, "The group was restored from the log ", ticking("ago", restored.at_ms), ` in generation ${restored.generations.at(-1).generation}.`) : null;
  if (!rebalances.length) return [before || nothing("The group has not rebalanced since the broker started.")];
  const longest = Math.max(1, ...rebalances.map((each) => (each.join_ms || 0) + (each.sync_ms || 0)));
  return [ribbon(rebalances), h("ol", { class: "story", reversed: true },
    [...rebalances].reverse().map((each) => entry(each, longest, members))), before];
}
