// Shows the record at the committed offset of a group, with commands for the next steps. The dialog
// only reads; the content of a record is shown as text.
import { command, commandLine } from "./commands.js";
import { bytes, count, h, nothing, plural, ticking, when } from "./dom.js";

const KINDS = [["json", "JSON"], ["text", "Text"], ["hex", "Hex"]];
let asked = 0;

const present = (part, kind) => part[kind] !== null && part[kind] !== undefined;

const dump = (hex) => hex.match(/.{1,32}/g)?.map((line, i) =>
  `${(i * 16).toString(16).padStart(4, "0")}  ${line.match(/../g).join(" ")}`).join("\n") ?? "";

function spelled(part, kind) {
  if (kind === "json") return JSON.stringify(part.json, null, 2);
  return kind === "hex" ? dump(part.hex) : part.text;
}

// Returns a key or a value as text, JSON or hex, as far as it has these forms.
function content(name, part) {
  if (!part) return [h("h3", null, name), h("p", { class: "faint" }, name === "Value" ? "none: a tombstone" : "none")];
  const kinds = KINDS.filter(([kind]) => present(part, kind));
  const first = kinds[0]?.[0] ?? "hex";
  const pre = h("pre", { tabindex: "0", role: "region", "aria-label": name }, spelled(part, first));
  const size = `${bytes(part.size)}${part.truncated ? ", only the beginning is shown" : ""}`;
  const choices = kinds.map(([kind, word]) => h("label", null,
    h("input", { type: "radio", name: `as-${name}`, checked: kind === first, onchange: () => { pre.textContent = spelled(part, kind); } }), word));
  return [h("h3", null, name, " ", h("span", { class: "faint" }, size)),
    kinds.length > 1 ? h("fieldset", { class: "forms" }, h("legend", { class: "unseen" }, `${name} as`), choices) : null, pre];
}

function headers(list, more) {
  if (!list.length) return null;
  return [h("h3", null, "Headers"), h("dl", { class: "headers" }, list.map((each) => [
    h("dt", null, each.key), h("dd", null, each.value ? each.value.text ?? dump(each.value.hex) : h("span", { class: "faint" }, "null"))])),
    more ? h("p", { class: "faint" }, `and ${plural(more, "more header")}`) : null];
}

function record(found, wanted) {
  const facts = [
    ["Offset", count(found.offset)],
    ["Time", found.timestamp_ms !== null ? [when(found.timestamp_ms), ", ", ticking("ago", found.timestamp_ms)] : "none"],
    ["Size", bytes(found.bytes)],
    ["Transaction", found.transaction],
  ].filter(([, value]) => value !== null);
  return [
    found.offset === wanted ? null : h("p", { class: "note" }, `Offset ${count(wanted)} has no record: this is the next record.`),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    content("Key", found.key), content("Value", found.value), headers(found.headers, found.more_headers),
  ];
}

// Returns the offset at which the group continues: the committed offset, or the log start without a
// commit, or after the record at the committed offset was deleted.
const place = (offset) => Math.max(offset.offset ?? 0, offset.log_start_offset);

function commands(group, offset, owner) {
  const { topic, partition } = offset;
  const at = place(offset);
  const of = `${topic}:${partition}`;
  return [h("h3", null, "Commands"),
    commandLine(command("consume", [of], ["--offset", `${at}`, "--max", "1"]), "Read this record in a terminal"),
    commandLine(command("groups describe", [group]), "Describe the group"),
    owner ? commandLine(command("groups evict", [group, owner.member]), "Evict the member that owns the partition (asks for confirmation)") : null,
    offset.lag > 0 ? commandLine(command("groups reset", [group], ["--topic", of, "--to-offset", `${at + 1}`]), "Skip this record (asks for confirmation; the group must be empty)") : null,
    commandLine(command("groups reset", [group], ["--topic", of, "--to-earliest"]), "Read again from the log start (asks for confirmation; the group must be empty)"),
  ];
}

async function read({ topic, partition, log_end_offset: end }, offset) {
  if (offset >= end) return { problem: `The log of ${topic}:${partition} ends at ${count(end)}; offset ${count(offset)} does not exist yet.` };
  try {
    const answer = await fetch(`/api/topics/${encodeURIComponent(topic)}/${partition}/record?offset=${offset}`);
    const body = await answer.json();
    return answer.ok ? { found: body } : { problem: body.error };
  } catch (error) {
    return { problem: `The broker did not respond: ${error.message}` };
  }
}

// Opens the dialog for one committed offset of a group.
export async function look(group, offset, owner) {
  const dialog = document.getElementById("look");
  const at = place(offset);
  const turn = asked += 1;
  const title = h("h2", { id: "look-title" }, `${offset.topic}:${offset.partition} at ${count(at)}`);
  const body = h("div", null, nothing("Reading…"));
  dialog.replaceChildren(h("header", null, title, h("button", { class: "quiet", type: "button", onclick: () => dialog.close() }, "Close")), body);
  dialog.showModal();
  const { found, problem } = await read(offset, at);
  if (turn !== asked) return;  // another record was opened during this read
  body.replaceChildren(...[found ? record(found, at) : nothing(problem), commands(group, offset, owner)].flat(Infinity).filter(Boolean));
}
