// Commands to copy. The page does not change anything: each change is a `muster` command that a
// person reads and runs. Clients choose names freely, so that each word must be quoted.
import { h } from "./dom.js";

const PLAIN = /^[\w@%+=:,./-]+$/;
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/u;  // control characters, bidirectional marks, line ends

let bootstrap = null;
export const setBootstrap = (address) => { bootstrap = address; };

// Returns a word quoted for a POSIX shell; a word with hidden characters has the form $'...' of
// bash, zsh and ksh.
export function quoted(word) {
  if (PLAIN.test(word)) return word;
  if (!HIDDEN.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const spelled = [...word].map((char) => {
    if (char === "'" || char === "\\") return `\\${char}`;
    if (!HIDDEN.test(char)) return char;
    return [...new TextEncoder().encode(char)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  });
  return `$'${spelled.join("")}'`;
}

const address = () => (bootstrap ? ["--bootstrap", quoted(bootstrap)] : []);

// A "--" precedes names that look like an option.
export function command(verb, names, options = []) {
  const dashes = names.some((name) => name.startsWith("-")) ? ["--"] : [];
  return ["muster", verb, ...address(), ...options.map(quoted), ...dashes, ...names.map(quoted)].join(" ");
}

// Returns a command of the broker's with the address added.
export const addressed = (text) =>
  text.replace(/^muster (?:(?:groups|share|transactions|topics|offsets) )?\w+/, (verb) => [verb, ...address()].join(" "));

export const commandLine = (text, words = null) => h("p", { class: "command" },
  words ? h("span", null, words) : null, h("code", { tabindex: "0" }, text),
  h("button", { class: "quiet", type: "button", "data-copy": "", "aria-label": `Copy: ${text}` }, "Copy"));

// With plain HTTP from another machine the browser has no clipboard API: the text is selected instead.
export async function copy(button) {
  const code = button.closest(".command").querySelector("code");
  let result = "Copied";
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    result = "Selected: press Ctrl+C";
  }
  button.dataset.held = "";  // updates do not change the button until the text is reset
  button.textContent = result;
  document.getElementById("said").textContent = result;
  setTimeout(() => { button.textContent = "Copy"; delete button.dataset.held; }, 2500);
}
