// The part of the address after #: a view with its filter, order and number of rows, such as
// #/groups?q=billing&sort=-lag. A reload and a shared link show the same view.

let changed = () => {};
let at = read();
let seen = location.hash;
const lists = {};  // last address by list

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [kind, ...rest] = path.split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* shown undecoded */ }
  return { path, kind: kind || "groups", name, query: new URLSearchParams(query) };
}

export const place = {
  get kind() { return at.kind; },
  get name() { return at.name; },
  get path() { return at.path; },
  get(key) { return at.query.get(key) ?? ""; },

  // An empty value is removed. Each change adds a history entry, except with `replace`.
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

  // Returns the last address of a list, for links back from an entry to the list.
  list(kind) { return lists[kind] ?? `#/${kind}`; },
};

// `arrived(isNew)` is called when a link or the browser's buttons have changed the address,
// `changedHere` after each `place.set`.
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
