// The live connection: the event stream of a view, applied to tables.
import { setClock } from "./dom.js";

export class Watch {
  // `changed` is called after each complete update and when the broker refuses the stream;
  // `onState` is called with "live", "waiting" or "refused".
  constructor(what, changed, onState) {
    this.address = `/api/live?watch=${encodeURIComponent(what)}`;
    this.changed = changed;
    this.onState = onState;
    this.head = null;
    this.problem = null;  // the broker's reason for refusing the view
    this.turn = 0;  // counts the updates
    this.tables = new Map();
    this.source = null;
    this.retry = 0;
    this.visible = () => (document.hidden ? this.close() : this.open());
    document.addEventListener("visibilitychange", this.visible);
    this.open();
  }

  open() {
    if (this.source || this.ended) return;
    clearTimeout(this.retry);
    this.source = new EventSource(this.address);
    this.source.onmessage = (event) => this.take(JSON.parse(event.data));
    this.source.onerror = () => {
      // The browser does not retry a refused stream.
      if (this.source && this.source.readyState === EventSource.CLOSED) {
        this.close();
        this.retry = setTimeout(() => this.open(), 3000);
        this.ask();
      } else this.onState("waiting");
    };
  }

  // Fetches the reason why the stream was refused, which an EventSource does not report.
  async ask() {
    const ended = new AbortController();
    try {
      const answer = await fetch(this.address, { signal: ended.signal });
      this.problem = answer.ok ? null : (await answer.json()).error;
      if (answer.status === 404) clearTimeout(this.retry);  // this broker does not have the view: no retry
    } catch { this.problem = null; }
    ended.abort();
    if (this.ended) return;
    this.onState(this.problem ? "refused" : "waiting");
    this.changed();
  }

  close() {
    if (this.source) this.source.close();
    this.source = null;
  }

  end() {
    this.ended = true;
    this.close();
    clearTimeout(this.retry);
    document.removeEventListener("visibilitychange", this.visible);
  }

  take(event) {
    setClock(event.at_ms);
    if (event.reset) this.tables = new Map();
    this.head = event.head;
    this.problem = null;
    this.turn += 1;
    for (const [table, key, value] of event.rows) {
      if (!this.tables.has(table)) this.tables.set(table, new Map());
      if (value === null) this.tables.get(table).delete(key);
      else this.tables.get(table).set(key, value);
    }
    if (event.more) return;
    this.onState("live");
    this.changed();
  }

  rows(table) {
    return [...(this.tables.get(table) || new Map()).values()];
  }
}
