// All groups: who is there, how far behind, and why each last rebalanced.
import { brief, count, groupLink, h, nothing, plural, shortIds, sparkline, stateBadge, table, ticking } from "./dom.js";

const SHOWN = 200;
const ORDERS = {
  group: (a, b) => (a.group < b.group ? -1 : 1),
  state: (a, b) => a.state.localeCompare(b.state),
  members: (a, b) => b.members - a.members,
  lag: (a, b) => b.lag - a.lag,
  unread: (a, b) => (a.unread_since_ms || Infinity) - (b.unread_since_ms || Infinity) || 0,
  last: (a, b) => (b.last_rebalance_ms || 0) - (a.last_rebalance_ms || 0),
};

export function groupsView({ redraw }) {
  let filter = "";
  let by = "group";
  let limit = SHOWN;
  // Made anew at each look, but the one that is there stays (data-own), with what is typed in it.
  const search = () => h("input", {
    type: "search", placeholder: "Filter groups", "aria-label": "Filter groups", spellcheck: "false",
    "data-own": "", oninput: (event) => { filter = event.target.value.toLowerCase(); redraw(); },
  });
  document.getElementById("main").onclick = (event) => {
    const sort = event.target.closest("button[data-sort]");
    if (sort) { by = sort.dataset.sort; redraw(); }
    if (event.target.closest("button.more")) { limit *= 5; redraw(); }
  };

  return (watch) => {
    const all = watch.rows("group");
    const found = all.filter((each) => each.group.toLowerCase().includes(filter)
      || each.state.toLowerCase().includes(filter));
    found.sort((a, b) => ORDERS[by](a, b) || ORDERS.group(a, b));
    const restless = all.filter((each) => /Rebalance$/.test(each.state)).length;
    const members = all.reduce((sum, each) => sum + each.members, 0);
    const lag = all.reduce((sum, each) => sum + each.lag, 0);
    const sortable = (name, title, kind) => [title, kind, { by: name, order: by === name ? (name === "group" || name === "state" ? "ascending" : "descending") : "none" }];
    return [
      h("div", { class: "title" },
        h("h1", null, "Groups"),
        h("p", { class: "sub" },
          `${plural(all.length, "group")}, ${plural(members, "member")}, ${brief(lag)} records behind`,
          restless ? h("b", null, `, ${restless} rebalancing`) : "")),
      watch.head.loading ? h("p", { class: "note" }, "The broker is still loading: groups are missing.") : null,
      Object.entries(watch.head.unreadable ?? {}).map(([partition, why]) => h("p", { class: "note bad" }, `Groups are missing: ${partition} can't be read. ${why}`)),
      search(),
      found.length
        ? table("Consumer groups", [
          sortable("group", "Group", "name"), sortable("state", "State", "still"),
          sortable("members", "Members", "number"), sortable("lag", "Lag", "number"),
          sortable("unread", "Unread for", "number"),
          ["10 minutes", "chart"], sortable("last", "Last rebalance", "words"),
        ], found.slice(0, limit).map((each) => [each.group, [
          h("a", { href: groupLink(each.group) }, each.group || "(no name)"),
          stateBadge(each.state),
          count(each.members),
          h("span", { title: count(each.lag) }, brief(each.lag)),
          each.unread_since_ms ? ticking("for", each.unread_since_ms) : h("span", { class: "faint" }, each.lag ? "–" : "read"),
          sparkline([...each.trend, each.lag], { label: `lag of ${each.group}, now ${each.lag}` }),
          each.last_why ? [ticking("ago", each.last_rebalance_ms), " ", h("span", { class: "why", title: each.last_why }, shortIds(each.last_why))] : h("span", { class: "faint" }, "none since the start"),
        ]]))
        : nothing(all.length ? `None of ${plural(all.length, "group")} matches “${filter}”.`
          : "No group has joined or committed yet. Start a consumer, and it appears here."),
      found.length > limit ? h("button", { class: "more quiet", type: "button" }, `${count(limit)} of ${count(found.length)} shown; show more`) : null,
    ];
  };
}
