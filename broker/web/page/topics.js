// Topics, and one topic with its partitions and who reads it.
import { brief, bytes, count, groupLink, h, nothing, now, plural, stateBadge, table, topicLink } from "./dom.js";

// Records a second between the last two looks, by name; `seen` holds what the last look had.
function rateOf(seen, name, value) {
  const at = now();
  const known = seen.get(name);
  if (!known) {
    seen.set(name, { at, value, rate: null });
    return "–";
  }
  if (at - known.at >= 2000) {
    known.rate = Math.max(0, ((value - known.value) * 1000) / (at - known.at));
    Object.assign(known, { at, value });
  }
  return known.rate === null ? "–" : `${brief(known.rate)}/s`;
}

export function topicsView({ redraw }) {
  let filter = "";
  const seen = new Map();
  // Made anew at each look, but the one that is there stays (data-own), with what is typed in it.
  const search = () => h("input", {
    type: "search", placeholder: "Filter topics", "aria-label": "Filter topics", spellcheck: "false",
    "data-own": "", oninput: (event) => { filter = event.target.value.toLowerCase(); redraw(); },
  });
  return (watch) => {
    const all = watch.rows("topic");
    const found = all.filter((each) => each.topic.toLowerCase().includes(filter))
      .sort((a, b) => a.internal - b.internal || (a.topic < b.topic ? -1 : 1)).slice(0, 500);
    const size = all.reduce((sum, each) => sum + each.size_bytes, 0);
    const partitions = all.reduce((sum, each) => sum + each.partitions, 0);
    return [
      h("div", { class: "title" }, h("h1", null, "Topics"),
        h("p", { class: "sub" }, `${plural(all.length, "topic")}, ${plural(partitions, "partition")}, ${bytes(size)}`)),
      search(),
      found.length ? table("Topics", [
        ["Topic", "name"], ["Partitions", "number"], ["Records", "number"], ["Written", "number"], ["Size", "number"], ["Segments", "number"], ["Cleanup", "still"],
      ], found.map((each) => [each.topic, [
        h("a", { href: topicLink(each.topic) }, each.topic),
        count(each.partitions), h("span", { title: count(each.records) }, brief(each.records)),
        rateOf(seen, each.topic, each.end_offsets), bytes(each.size_bytes), count(each.segments),
        each.poisoned ? h("span", { class: "bad" }, `${each.poisoned} take no writes`) : each.unreadable ? h("span", { class: "bad" }, `${each.unreadable} can't be read`) : h("span", { class: "faint" }, each.internal ? `${each.cleanup_policy}, internal` : each.cleanup_policy),
      ]])) : nothing(all.length ? `None of ${plural(all.length, "topic")} matches.` : "There is no topic yet."),
    ];
  };
}

export function topicView() {
  const seen = new Map();
  return (watch) => {
    const head = watch.head;
    const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/topics" }, "Topics"), " / ");
    if (!head.exists) return [crumbs, h("h1", null, head.topic), nothing("There is no such topic.")];
    const partitions = watch.rows("partition").sort((a, b) => a.partition - b.partition);
    const readers = watch.rows("group").sort((a, b) => b.lag - a.lag || (a.group < b.group ? -1 : 1));
    return [
      crumbs,
      h("div", { class: "title" }, h("h1", null, head.topic),
        h("p", { class: "sub" }, `${plural(head.partitions, "partition")}, ${brief(head.records)} records, ${bytes(head.size_bytes)}, cleanup ${head.cleanup_policy}`)),
      h("h2", null, "Read by"),
      readers.length ? table("Groups that read this topic", [["Group", "name"], ["State", "still"], ["Members", "number"], ["Partitions", "number"], ["Lag", "number"]],
        readers.slice(0, 500).map((each) => [each.group, [h("a", { href: groupLink(each.group) }, each.group), stateBadge(each.state), count(each.members), count(each.partitions), h("span", { title: count(each.lag) }, brief(each.lag))]]))
        : nothing("No group has committed an offset here."),
      h("h2", null, "Partitions"),
      table("Partitions", [["Partition", "name"], ["Start offset", "number"], ["End offset", "number"], ["Records", "number"], ["Written", "number"], ["Size", "number"], ["Segments", "number"]],
        partitions.slice(0, 1000).map((each) => [each.partition, [
          each.poisoned ? h("span", { class: "bad", title: each.poisoned }, `${each.partition} takes no writes`) : each.unreadable ? h("span", { class: "bad", title: each.unreadable }, `${each.partition} can't be read`) : String(each.partition),
          count(each.log_start_offset), count(each.log_end_offset), count(each.log_end_offset - each.log_start_offset),
          rateOf(seen, each.partition, each.log_end_offset), bytes(each.size_bytes), count(each.segments)]])),
    ];
  };
}
