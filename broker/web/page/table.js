// Tables can be sorted by each column, in both directions, and show more rows on demand; the address
// contains the order and the number of rows. In the default order the worst rows come first where
// possible, so that the hidden rows are the least important.
import { count, deferred, h } from "./dom.js";
import { place } from "./place.js";

const SHOWN = 50;
const FIRST = 20;  // during typing: about a screen
const MOST = 100000;

let inHaste = false;
export const hasten = (value) => { inHaste = value; };

const sorter = (of, down) => (a, b) => {
  const [left, right] = [of(a) ?? null, of(b) ?? null];
  if (left === right) return 0;
  if (left === null || right === null) return left === null ? 1 : -1;  // unknown: always last
  return (left < right) !== down ? -1 : 1;
};

// Sorts rows by several keys; the first that differs decides.
export function inOrder(rows, keysOf) {
  const keys = new Map(rows.map((row) => [row, keysOf(row)]));
  return rows.sort((a, b) => {
    const [left, right] = [keys.get(a), keys.get(b)];
    const at = left.findIndex((value, i) => value !== right[i]);
    return at < 0 ? 0 : left[at] < right[at] ? -1 : 1;
  });
}

// Returns the rows to show, in the order and number that the address contains.
function chosen(name, columns, rows, standing) {
  const asked = place.get(`${name}sort`);
  const by = asked.replace(/^-/, "");
  const column = columns.find((each) => each.by === by && each.of);
  const order = column ? asked : standing;
  const sorted = column && asked !== standing ? [...rows].sort(sorter(column.of, asked[0] === "-")) : rows;
  const limit = Math.min(MOST, Math.max(SHOWN, Number.parseInt(place.get(`${name}show`), 10) || 0));
  return { order, shown: sorted.slice(0, inHaste ? FIRST : limit), limit };
}

function heading(name, column, order, standing) {
  const by = column.by;
  if (!column.of) return h("th", { scope: "col", class: column.kind }, column.title);
  const now = { [by]: "ascending", [`-${by}`]: "descending" }[order];
  const first = column.down ? `-${by}` : by;
  const next = now ? { ascending: `-${by}`, descending: by }[now] : first;
  return h("th", { scope: "col", class: column.kind, "aria-sort": now ?? null },
    h("button", { class: "sort", type: "button", "data-set": `${name}sort`, "data-to": next === standing ? "" : next }, column.title));
}

// columns: { title, kind, by, of, down, cell }: `by` is the column's name in the address, `of` returns
// a row's sort key, and with `down` the first press puts the largest first. `standing` is the default
// order, which `rows` already have. With `lasting` a row is drawn again only if it is a new object.
export function table({ name = "", caption, columns, rows, key, standing, lasting = false, mark }) {
  const prefix = name && `${name}.`;
  const { order, shown, limit } = chosen(prefix, columns, rows, standing);
  const cells = (row) => columns.map((column) =>
    h("td", { class: column.kind, "data-title": column.title }, column.cell(row)));
  const drawn = shown.map((row) => deferred(
    h("tr", { "data-key": key(row), class: mark ? mark(row) : null }), lasting ? row : undefined, () => cells(row)));
  return [
    h("div", { class: "scroll" }, h("table", null,
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, columns.map((column) => heading(prefix, column, order, standing)))),
      h("tbody", null, drawn))),
    rows.length > limit
      ? h("button", { class: "more quiet", type: "button", "data-set": `${prefix}show`, "data-to": String(limit * 5) },
        `${count(limit)} of ${count(rows.length)} shown; show ${count(Math.min(limit * 4, rows.length - limit))} more`)
      : null,
  ];
}

// Returns the search field above a table. An update keeps the existing field and its text (data-own).
export const search = (words) => h("input", {
  type: "search", placeholder: words, "aria-label": words, spellcheck: "false", "data-own": "", value: place.get("q"),
});

// Returns the rows whose texts contain all typed words.
const texts = new WeakMap();
export function matching(rows, textOf) {
  const words = place.get("q").toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    let text = texts.get(row);
    if (text === undefined) texts.set(row, text = textOf(row).join("\n").toLowerCase());
    return words.every((word) => text.includes(word));
  });
}
