// All groups, the worst first: verdict, members, lag, and the cause of the last rebalance.
import { causeOf } from "./causes.js";
import { brief, count, groupLink, h, nothing, plural, shortIds, sparkline, spoken, stateBadge, ticking } from "./dom.js";
import { place } from "./place.js";
import { matching, search, table } from "./table.js";
import { badge, isFine, rank, worstFirst } from "./verdicts.js";

const faint = (words) => h("span", { class: "faint" }, words);

function verdict(each) {
  const since = each.verdict_since_ms && !isFine(each.verdict) ? [" for ", ticking("for", each.verdict_since_ms)] : null;
  const sentence = isFine(each.verdict) ? null : each.sentence;
  return [badge(each.verdict), since, sentence ? h("span", { class: "why", title: sentence }, spoken(shortIds(sentence))) : null];
}

function trend(each) {
  const values = [...each.trend, each.lag ?? 0];
  const most = Math.max(...values);
  return [
    sparkline(values, { label: `lag of ${each.group}: at most ${count(most)} in the last ten minutes, now ${each.lag ?? "unknown"}` }),
    h("small", null, `at most ${brief(most)}`)];
}

const COLUMNS = [
  { title: "Group", by: "group", kind: "name", of: (each) => each.group,
    cell: (each) => [h("a", { href: groupLink(each.group) }, each.group || "(no name)"),
      each.type === "share" ? [" ", h("span", { class: "tag" }, "share group")] : null] },
  { title: "Verdict", by: "verdict", kind: "words verdicts", of: (each) => rank(each.verdict), cell: verdict },
  { title: "State", by: "state", kind: "still", of: (each) => each.state, cell: (each) => stateBadge(each.state) },
  { title: "Members", by: "members", kind: "number", of: (each) => each.members, down: true, cell: (each) => count(each.members) },
  { title: "Lag", by: "lag", kind: "number", of: (each) => each.lag, down: true,
    cell: (each) => h("span", { title: count(each.lag) }, brief(each.lag)) },
  { title: "Unread for", by: "unread", kind: "number", of: (each) => each.unread_since_ms,
    cell: (each) => (each.unread_since_ms ? ticking("for", each.unread_since_ms) : faint(each.lag === 0 && isFine(each.verdict) ? "read" : "–")) },
  { title: "Lag in 10 minutes", kind: "chart", cell: trend },
  { title: "Last rebalance", by: "last", kind: "words last", of: (each) => each.last_rebalance_ms, down: true,
    cell: (each) => (each.last_why
      ? [h("b", null, causeOf(each.last_cause)), " ", ticking("ago", each.last_rebalance_ms), h("span", { class: "why", title: each.last_why }, shortIds(each.last_why))]
      : faint("none since the broker started")) },
];

const textOf = (each) => [each.group, each.type, each.state, each.verdict ?? "", ...each.clients, ...each.hosts, ...each.topics];

// Computes the data that does not change while the user types between two updates.
function overview(watch) {
  const all = worstFirst(watch.rows("group"), (each) => each.group);
  return {
    turn: watch.turn,
    all,
    restless: all.filter((each) => /Rebalance$/.test(each.state)).length,
    wrong: all.filter((each) => !isFine(each.verdict)).length,
    members: all.reduce((sum, each) => sum + each.members, 0),
    lag: all.reduce((sum, each) => sum + Math.max(0, each.lag), 0),
  };
}

export function groupsView() {
  let known = null;
  const render = (watch) => {
    if (known?.turn !== watch.turn) known = overview(watch);
    const { all, restless, wrong, members, lag } = known;
    const found = matching(all, textOf);
    return [
      h("div", { class: "title" },
        h("h1", null, "Groups"),
        h("p", { class: "sub" },
          `${plural(all.length, "group")}, ${plural(members, "member")}, a lag of ${brief(lag)} records`,
          wrong ? [", ", h("b", null, `${wrong} not OK`)] : "",
          restless ? [", ", h("b", null, `${restless} rebalancing`)] : "")),
      watch.head.loading ? h("p", { class: "note" }, "The broker is still loading: some groups are not shown yet.") : null,
      Object.entries(watch.head.unreadable ?? {}).map(([partition, why]) =>
        h("p", { class: "note bad" }, `Some groups are not shown: ${partition} can't be read. ${why}`)),
      search("Filter by group, client, host, topic, verdict"),
      found.length
        ? table({ caption: "Consumer groups", columns: COLUMNS, rows: found, key: (each) => each.group, standing: "verdict", lasting: true })
        : nothing(all.length ? `None of ${plural(all.length, "group")} matches “${place.get("q")}”.`
          : "No group has joined or committed yet. Start a consumer, and its group appears here."),
    ];
  };
  return { render };
}
