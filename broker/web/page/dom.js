// Creates elements, and formats numbers and times. Text is only set as text, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (name, attributes, ...children) =>
  fill(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

// Makes `old` equal to `fresh` and changes only the differences, so that focus, open details and
// selections survive an update. Children with a data-key are matched by that key. A `deferred`
// element gets its children only if it is shown and its `of` has changed.
export function morph(old, fresh) {
  if (fresh.of !== undefined && old.of === fresh.of) return old;
  settle(fresh);
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    const shown = whole(fresh);
    old.replaceWith(shown);
    return shown;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  old.of = fresh.of;
  if (old.of) made.set(old.of, old);
  if (old.dataset && ("held" in old.dataset || ("own" in old.dataset && "own" in fresh.dataset))) return old;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, [...fresh.childNodes]);
  return old;
}

export function deferred(element, of, fill) {
  element.of = of;
  element.fill = fill;
  return element;
}

const made = new WeakMap();  // `of` to element: the element may be shown again

function settle(element) {
  if (element.fill) {
    element.append(...element.fill());
    delete element.fill;
  }
  return element;
}

// Returns the earlier element with the same `of` if it is not in the document, else `element`.
function kept(element) {
  const before = element.of && made.get(element.of);
  if (before && before.of === element.of && !before.isConnected) return before;
  settle(element);
  if (element.of) made.set(element.of, element);
  return element;
}

// Returns a node to insert, with its deferred children filled.
function whole(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node;
  for (const row of node.querySelectorAll("tr")) {
    const shown = kept(row);
    if (shown !== row) row.replaceWith(shown);
  }
  return kept(node);
}

function morphChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.children) {
    if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
  }
  let at = parent.firstChild;
  for (const fresh of wanted) {
    const key = fresh.nodeType === Node.ELEMENT_NODE ? fresh.dataset.key : undefined;
    const known = key === undefined ? null : keyed.get(key);
    if (known) {
      keyed.delete(key);
      if (known === at) at = at.nextSibling;
      else parent.insertBefore(known, at);
      morph(known, fresh);
    } else if (at && key === undefined && !(at.dataset && at.dataset.key !== undefined)) {
      at = morph(at, fresh).nextSibling;
    } else parent.insertBefore(whole(fresh), at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// ------------------------------------------------------------------------------------- words

let skew = 0;
export const setClock = (serverMs) => { skew = serverMs - Date.now(); };
export const now = () => Date.now() + skew;

const thousands = new Intl.NumberFormat("en-US");
export const count = (value) => (value === null || value === undefined ? "–" : thousands.format(value));

export function brief(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 10000) return thousands.format(Math.round(value * 10) / 10);
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) {
      const short = value / size;
      return `${short >= 100 ? Math.round(short) : short.toFixed(1)} ${unit}`;
    }
  }
  return String(value);
}

export function bytes(value) {
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= size) return `${(value / size).toFixed(value / size >= 100 ? 0 : 1)} ${unit}`;
  }
  return `${value} B`;
}

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 && ms % 1000 ? 1 : 0)} s`;
  if (ms < 3600000) return two(Math.floor(ms / 60000), "min", Math.floor(ms / 1000) % 60, "s");
  if (ms < 172800000) return two(Math.floor(ms / 3600000), "h", Math.floor(ms / 60000) % 60, "min");
  return two(Math.floor(ms / 86400000), "days", Math.floor(ms / 3600000) % 24, "h");
}

const two = (large, unit, small, of) => `${large} ${unit}${small ? ` ${small} ${of}` : ""}`;

// Returns a duration in one unit; hovering shows the exact time.
function lasted(ms) {
  if (ms < 1000) return "under 1 s";
  if (ms < 60000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min`;
  return span(ms);
}

export function ago(ms) {
  if (!ms || ms < 0) return "–";
  const passed = now() - ms;
  if (passed < 1500) return "now";
  if (passed < 60000) return `${Math.round(passed / 1000)} s ago`;
  if (passed < 3600000) return `${Math.round(passed / 60000)} min ago`;
  if (passed < 172800000) return `${Math.round(passed / 3600000)} h ago`;
  return `${Math.round(passed / 86400000)} days ago`;
}

// A time is shown relative to now; hovering shows the time in UTC and in local time.
export const instant = (ms) => (ms ? `${new Date(ms).toISOString().slice(0, 19)}Z` : "–");
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const here = (ms) => `${local.format(new Date(ms))}, your time`;
export const when = (ms) =>
  (ms ? h("time", { class: "when", datetime: instant(ms), title: here(ms) }, instant(ms)) : "–");

// Returns an element whose text depends on the clock; app.js updates the text each second.
export const ticking = (kind, ms) =>
  h("time", { "data-tick": kind, "data-ms": ms ?? "", datetime: ms ? instant(ms) : null,
    title: ms ? `${instant(ms)}\n${here(ms)}` : null }, tickText(kind, ms));
export function tickText(kind, ms) {
  if (!ms) return "–";
  if (kind === "for") return lasted(now() - ms);
  if (kind === "until") return span(Math.max(0, Math.ceil((ms - now()) / 1000) * 1000));
  return ago(ms);
}

// Returns a sentence of the broker with ticking durations in place of times. A whole clause such as
// "since 2026-11-22T12:04:31Z" is replaced: by "for 5 min", or after a count by "in 5 min".
const CLAUSE = /(?<counted>(?:\d+ times?) )?(?<word>since|until|from|at|soon after) (?<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)(?<latest> at the latest)?/g;
export function spoken(text) {
  const parts = [];
  let end = 0;
  for (const found of (text || "").matchAll(CLAUSE)) {
    const { counted, word, at } = found.groups;
    const ms = Date.parse(at);
    parts.push(text.slice(end, found.index));
    if (counted) parts.push(counted, "in ", ticking("for", ms));
    else if (word === "since") parts.push("for ", ticking("for", ms));
    else if (word === "until") parts.push("for at most ", ticking("until", ms), " more");
    else if (word === "soon after") parts.push("in about ", ticking("until", ms));
    else parts.push(word === "at" ? "" : `${word} `, ticking("ago", ms));
    end = found.index + found[0].length;
  }
  return [...parts, (text || "").slice(end)];
}

export const ranges = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j] + 1) j += 1;
    parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}-${sorted[j]}`);
    i = j + 1;
  }
  return parts.join(",");
};

// Member ids end in a random UUID; its first eight digits distinguish members.
export const shortIds = (text) =>
  (text || "").replace(/([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "$1…");

export const groupLink = (id) => `#/groups/${encodeURIComponent(id)}`;
export const transactionLink = (id) => `#/transactions/${encodeURIComponent(id)}`;
export const topicLink = (name) => `#/topics/${encodeURIComponent(name)}`;

// ------------------------------------------------------------------------------------ pieces

const STATES = {
  Stable: ["stable", "Stable"],
  PreparingRebalance: ["preparing", "Preparing"],
  CompletingRebalance: ["completing", "Completing"],
  Empty: ["empty", "Empty"],
  Dead: ["empty", "Dead"],
  Ongoing: ["preparing", "Ongoing"],
  PrepareCommit: ["completing", "Committing"],
  PrepareAbort: ["completing", "Aborting"],
  CompleteCommit: ["stable", "Committed"],
  CompleteAbort: ["empty", "Aborted"],
};
export function stateBadge(state) {
  const [kind, word] = STATES[state] || ["empty", state || "gone"];
  return h("span", { class: `state ${kind}`, title: state }, h("i", { "aria-hidden": "true" }), word);
}

export function sparkline(values, { width = 120, height = 28, label = "" } = {}) {
  const box = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, preserveAspectRatio: "none" });
  if (values.length < 2) return box;
  const top = Math.max(...values);
  const low = Math.min(...values, 0);
  const step = width / (values.length - 1);
  const points = values.map((value, i) => {
    const y = top === low ? height - 2 : height - 2 - ((value - low) / (top - low)) * (height - 5);
    return `${(i * step).toFixed(1)},${y.toFixed(1)}`;
  });
  box.append(
    svg("path", { class: "area", d: `M0,${height} L${points.join(" L")} L${width},${height} Z` }),
    svg("polyline", { class: "line", points: points.join(" "), "vector-effect": "non-scaling-stroke" }),
  );
  return box;
}

// Returns a chart with the top and bottom of its scale and the age of its first sample. Samples are
// taken every five seconds. Hovering shows a sample.
const SAMPLE_MS = 5000;
export function chart(values, { label, words }) {
  const [width, height] = [440, 44];
  const box = sparkline(values, { width, height, label: "" });
  if (values.length < 2) return h("p", { class: "faint" }, "The chart appears after two samples.");
  const [top, low] = [Math.max(...values), Math.min(...values, 0)];
  const step = width / (values.length - 1);
  const before = (i) => (i === values.length - 1 ? "now" : `${lasted((values.length - 1 - i) * SAMPLE_MS)} ago`);
  box.setAttribute("aria-label", `${label} from ${before(0)}: at most ${words(top)}, now ${words(values.at(-1))}`);
  values.forEach((value, i) => {
    box.append(svg("rect", { class: "sample", x: ((i - 0.5) * step).toFixed(1), y: 0, width: step.toFixed(1), height },
      svg("title", null, `${words(value)}, ${before(i)}`)));
  });
  return h("figure", { class: "chart" }, box,
    h("span", { class: "most" }, words(top)), top === low ? null : h("span", { class: "least" }, words(low)),
    h("figcaption", null, h("span", null, before(0)), h("span", null, "now")));
}

export const nothing = (...words) => h("p", { class: "nothing" }, ...words);
