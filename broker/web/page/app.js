// The page's frame: routing, the live connection, the keyboard, the theme.
import { brokerView } from "./broker.js";
import { clusterView } from "./cluster.js";
import { copy, setBootstrap } from "./commands.js";
import { h, morph, nothing, tickText } from "./dom.js";
import { groupView } from "./group.js";
import { groupsView } from "./groups.js";
import { Watch } from "./live.js";
import { follow, place } from "./place.js";
import { hasten } from "./table.js";
import { topicView, topicsView } from "./topics.js";
import { transactionView, transactionsView } from "./transactions.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
const dialog = document.getElementById("look");
const PAUSE_MS = 250;
let view = null;
let watch = null;
let scheduled = 0;
let rest = 0;  // the timer that draws the rows which were omitted during typing
let broker = null;
let arrival = null;  // scroll position and focus to restore at the first drawing of the view

// ------------------------------------------------------------------------------------ routing

function route() {
  const { kind, name } = place;
  if (kind === "groups" && name) return { kind, what: `groups/${name}`, title: name, make: groupView, up: () => place.list("groups") };
  if (kind === "transactions" && name) return { kind, what: `transactions/${name}`, title: name, make: transactionView, up: () => place.list("transactions") };
  if (kind === "transactions") return { kind, what: "transactions", title: "Transactions", make: transactionsView };
  if (kind === "topics" && name) return { kind, what: `topics/${name}`, title: name, make: topicView, up: () => place.list("topics") };
  if (kind === "topics") return { kind, what: "topics", title: "Topics", make: topicsView };
  if (kind === "cluster") return { kind, what: "cluster", title: "Cluster", make: clusterView };
  if (kind === "broker") return { kind, what: "broker", title: "Broker", make: brokerView };
  return { kind: "groups", what: "groups", title: "Groups", make: groupsView };
}

function show({ first = false, back = false } = {}) {
  if (watch) watch.end();
  if (dialog.open) dialog.close();
  const from = view && view.address;
  const to = route();
  view = { ...to, ...to.make(), address: `#/${place.path}` };
  nameDocument();
  for (const each of document.querySelectorAll("nav a")) {
    if (each.dataset.view === to.kind) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  main.replaceChildren();
  if (!first) main.focus({ preventScroll: true });
  arrival = { scroll: back ? scrolled.get(location.hash) ?? 0 : 0, from: first ? null : from };
  showLink("connecting");
  watch = new Watch(to.what, redraw, showLink);
}

// Redraws if only the filter or the order of the view has changed; otherwise shows the other view.
function arrived(isNew) {
  if (view && route().what === view.what) {
    const field = main.querySelector("input[type=search]");
    if (field) field.value = place.get("q");
    redraw();
  } else show({ back: !isNew });
}

const scrolled = new Map();  // last scroll position by address
history.scrollRestoration = "manual";
window.addEventListener("scroll", () => { if (!arrival) scrolled.set(location.hash, window.scrollY); }, { passive: true });

function showLink(state) {
  const words = { live: "live", waiting: "can't reach the broker, retrying", connecting: "connecting", refused: "not shown" };
  if (link.dataset.state === state) return;
  link.dataset.state = state;
  link.textContent = words[state];
  if (state === "live") meet();
}

// Reads the broker's identity at each new connection, since another broker may listen here now.
async function meet() {
  try {
    const answer = await fetch("/api/broker");
    if (!answer.ok) return;
    broker = await answer.json();
  } catch { return; }  // the live connection reports that the broker is down
  setBootstrap(broker.address);
  const where = document.getElementById("where");
  where.replaceChildren(h("b", null, `broker ${broker.broker}`), ` at ${broker.address}, cluster `, h("span", null, broker.cluster));
  for (const each of document.querySelectorAll(".in-cluster")) each.hidden = !broker.in_cluster;
  nameDocument();
  redraw();
}

function nameDocument() {
  const where = broker ? [`broker ${broker.broker}, cluster ${broker.cluster}`] : [];
  document.title = [view.title, ...where, "Muster"].join(" – ");
}

function redraw() {
  if (!scheduled) scheduled = requestAnimationFrame(draw);
}

function draw() {
  scheduled = 0;
  // If the broker does not show the view, or this reader may not see it, the reason replaces it.
  const problem = watch?.head?.denied ?? watch?.problem;
  if (!problem && !watch?.head) return;
  hasten(rest !== 0);
  const fresh = h("main", { id: "main", tabindex: "-1" });
  const seen = problem ? [h("h1", null, view.title), nothing(`${problem[0].toUpperCase()}${problem.slice(1)}.`)] : view.render(watch);
  fresh.append(...[seen].flat(Infinity).filter(Boolean));
  morph(main, fresh);
  if (arrival) arrive();
}

// After the first drawing of a view: restores its scroll position, and focuses the row of the
// view that the user returns from.
function arrive() {
  const { scroll, from } = arrival;
  arrival = null;
  window.scrollTo(0, scroll);
  if (document.activeElement !== main) return;
  const left = [...main.querySelectorAll("tbody a[href]")].find((each) => each.getAttribute("href") === from);
  if (left) left.focus({ preventScroll: scroll > 0 });
}

follow(arrived, redraw);
setInterval(() => {
  for (const each of document.querySelectorAll("[data-tick]")) {
    const text = tickText(each.dataset.tick, Number(each.dataset.ms));
    if (each.textContent !== text) each.textContent = text;
  }
}, 1000);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) redraw();
  width = window.innerWidth;
});

main.addEventListener("input", (event) => {
  if (event.target.type !== "search") return;
  // Rows below the visible part are drawn when the user stops typing.
  clearTimeout(rest);
  rest = setTimeout(() => { rest = 0; redraw(); }, PAUSE_MS);
  // The first key adds a history entry; further keys replace it.
  place.set("q", event.target.value, { replace: place.get("q") !== "" });
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("set" in button.dataset) place.set(button.dataset.set, button.dataset.to);
  if ("copy" in button.dataset) copy(button);
  if ("look" in button.dataset) view.open(watch, button.dataset);
});

// ----------------------------------------------------------------------------------- keyboard

const ROWS = "tbody tr a[href], ol.story > li > details > summary";
const rowLinks = () => [...main.querySelectorAll(ROWS)].filter((each) => each.offsetParent);

function walk(by) {
  const links = rowLinks();
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}

function inFilter(event) {
  const field = event.target;
  if (event.key === "Escape" && field.value) {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (event.key === "Escape") field.blur();
  else if (event.key === "ArrowDown" || event.key === "Enter") walk(1);
  else return;
  event.preventDefault();
}

// Keys that scroll, such as the arrow keys, are not handled, so that they still scroll.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  if (event.target.matches("input[type=search]")) { inFilter(event); return; }
  if (event.target.matches("input, textarea, select")) return;
  const filter = main.querySelector("input[type=search]");
  if (event.key === "Escape") { if (view.up) location.hash = view.up(); }
  else if (event.key === "j") walk(1);
  else if (event.key === "k") walk(-1);
  else if (event.key === "/" && filter) {
    filter.focus();
    filter.select();
  } else if (event.key === "g") location.hash = place.list("groups");
  else if (event.key === "x") location.hash = place.list("transactions");
  else if (event.key === "t") location.hash = place.list("topics");
  else if (event.key === "c" && broker && broker.in_cluster) location.hash = place.list("cluster");
  else if (event.key === "b") location.hash = "#/broker";
  else return;
  event.preventDefault();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();  // the address names a view, not an element in the view
  main.focus();
});

// -------------------------------------------------------------------------------------- theme

const THEMES = ["auto", "light", "dark"];
const button = document.getElementById("theme");

function theme() {
  return document.documentElement.dataset.theme || "auto";
}

function nameTheme() {
  button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme()];
  button.setAttribute("aria-label", `Theme: ${theme()}. Press to change it.`);
}

button.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try { localStorage.setItem("muster.theme", next); } catch { /* kept until the page is closed */ }
  nameTheme();
});

nameTheme();
show({ first: true });
