// The place that the address names: a view, and how it is filtered, sorted and how much of it is
// shown, such as #/groups?q=billing&sort=-lag. A reload and a shared link show the same.

let changed = () => {};
let at = read();
let seen = location.hash;
const lists = {};  // where each list of things was left

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [kind, ...rest] = path.split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* shown as it is written */ }
  return { path, kind: kind || "groups", name, query: new URLSearchParams(query) };
}

export const place = {
  get kind() { return at.kind; },
  get name() { return at.name; },
  get path() { return at.path; },
  get(key) { return at.query.get(key) ?? ""; },

  // An empty value goes. Each change is a step that the back button undoes, but for `replace`.
  set(key, value, { replace = false } = {}) {
    if (this.get(key) === value) return;
    if (value === "") at.query.delete(key);
    else at.query.set(key, value);
    const query = String(at.query);
    const address = `#/${at.path || at.kind}${query && `?${query}`}`;
    if (replace) history.replaceState(history.state, "", address);
    else history.pushState({}, "", address);
    seen = location.hash;
    changed();
  },

  // The address of a list as it was left, for the way back from one of its things.
  list(kind) { return lists[kind] ?? `#/${kind}`; },
};

// `arrived(isNew)` is called when the address has become another by a link or by the browser's
// buttons, `changedHere` after each `place.set`.
export function follow(arrived, changedHere) {
  const leave = () => { if (!at.name) lists[at.kind] = location.hash || "#/groups"; };
  changed = () => { leave(); changedHere(); };
  const moved = () => {
    if (location.hash === seen) return;  // both events report one move
    seen = location.hash;
    const isNew = history.state === null;
    if (isNew) history.replaceState({}, "");
    at = read();
    leave();
    arrived(isNew);
  };
  window.addEventListener("popstate", moved);
  window.addEventListener("hashchange", moved);
  if (history.state === null) history.replaceState({}, "");
  leave();
}
