// Numbers members in the order of their ids, as the command line does. Former members that are still
// in the history of rebalances have the numbers after the present members.
import { h } from "./dom.js";

export const hostOf = (each) => each.host || "–";

export class Members {
  constructor(rows, rebalances) {
    this.numbers = new Map();
    for (const id of rows.map((row) => row.member).sort()) this.meet(id);
    for (const each of [...rebalances].reverse()) {
      for (const member of [...each.assigned, ...each.changes, ...each.awaited]) this.meet(member.member);
    }
  }

  meet(member) {
    if (member && !this.numbers.has(member)) this.numbers.set(member, this.numbers.size + 1);
  }

  number(member) {
    const found = this.numbers.get(member);
    return found === undefined ? "" : `#${found}`;
  }

  // Returns a member for a sentence: number and client id; hovering shows the member id.
  name(each) {
    const text = [this.number(each.member), each.client || (each.member ? "" : "a member")].filter(Boolean).join(" ");
    return h("b", { title: each.member ?? null }, text || each.member);
  }
}

// Returns the full ids of members, which the user can open.
export function ids(members, each) {
  const known = new Map(each.map((member) => [member.member, member]));
  known.delete(null);
  if (!known.size) return null;
  return h("details", { class: "ids" }, h("summary", null, "Full ids"),
    h("ul", null, [...known.values()].map((member) =>
      h("li", null, h("b", null, members.number(member.member)), " ", h("code", null, member.member), member.host ? ` on ${member.host}` : ""))));
}
