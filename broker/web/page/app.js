// The page's frame: which view is shown, the live connection, the keyboard, the theme.
import { h, morph, tickText } from "./dom.js";
import { Watch } from "./live.js";
import { brokerView } from "./broker.js";
import { groupView } from "./group.js";
import { groupsView } from "./groups.js";
import { topicView, topicsView } from "./topics.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
let view = null;
let watch = null;
let scheduled = 0;

// ------------------------------------------------------------------------------------ routing

function route() {
  const [kind = "groups", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* shown as it is written */ }
  if (kind === "groups" && name) return { kind, what: `groups/${name}`, title: name, make: groupView, up: "#/groups" };
  if (kind === "topics" && name) return { kind, what: `topics/${name}`, title: name, make: topicView, up: "#/topics" };
  if (kind === "topics") return { kind, what: "topics", title: "Topics", make: topicsView };
  if (kind === "broker") return { kind, what: "broker", title: "Broker", make: brokerView };
  return { kind: "groups", what: "groups", title: "Groups", make: groupsView };
}

function show(first) {
  if (watch) watch.end();
  const to = route();
  view = { ...to, render: to.make({ redraw }) };
  document.title = `${to.title} – Muster`;
  for (const each of document.querySelectorAll("nav a")) {
    if (each.dataset.view === to.kind) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  main.replaceChildren(h("p", { class: "nothing" }, "Loading…"));
  if (!first) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  tell("connecting");
  watch = new Watch(to.what, redraw, tell);
}

function tell(state) {
  const words = { live: "live", waiting: "broker not reached, trying again", connecting: "connecting" };
  if (link.dataset.state === state) return;
  link.dataset.state = state;
  link.textContent = words[state];
}

function redraw() {
  if (!scheduled) scheduled = requestAnimationFrame(draw);
}

function draw() {
  scheduled = 0;
  if (!watch || !watch.head) return;
  const fresh = h("main", { id: "main", tabindex: "-1" });
  fresh.append(...[view.render(watch)].flat(Infinity).filter(Boolean));
  morph(main, fresh);
}

window.addEventListener("hashchange", () => show(false));
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

// ----------------------------------------------------------------------------------- keyboard

const rowLinks = () => [...main.querySelectorAll("tbody tr a[href], ol.story summary")].filter((each) => each.offsetParent);

function walk(by) {
  const links = rowLinks();
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape") {
    if (typing && event.target.value) {
      event.target.value = "";
      event.target.dispatchEvent(new Event("input"));
    } else if (typing) event.target.blur();
    else if (view && view.up) location.hash = view.up;
    return;
  }
  if (event.key === "ArrowDown" || (event.key === "j" && !typing)) walk(1);
  else if (event.key === "ArrowUp" || (event.key === "k" && !typing)) walk(-1);
  else if (typing) return;
  else if (event.key === "/") {
    const filter = main.querySelector("input[type=search]");
    if (!filter) return;
    filter.focus();
    filter.select();
  } else if (event.key === "g") location.hash = "#/groups";
  else if (event.key === "t") location.hash = "#/topics";
  else if (event.key === "b") location.hash = "#/broker";
  else return;
  event.preventDefault();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();  // the address names the view, not a place in it
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
  try { localStorage.setItem("muster.theme", next); } catch { /* it holds until the page is left */ }
  nameTheme();
});

nameTheme();
show(true);
