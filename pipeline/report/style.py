"""The report's style sheet and its script: what is pointed at shows its values."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: light-dark(#f6f5f1, #14181a); --card: light-dark(#fffefb, #1b2023);
  --line: light-dark(#e4e1d8, #2b3236); --ink: light-dark(#23292b, #e3e6e4);
  --soft: light-dark(#5d6669, #9aa5a8); --accent: light-dark(#1d6b66, #74c7bd);
  --bad: light-dark(#a83232, #f09090);
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1000px; padding: 28px 20px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
h1 { font-size: 25px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 4px; }
p { margin: 4px 0 12px; overflow-wrap: anywhere; }
.sub, .note, .nothing, .cut { color: var(--soft); }
.nothing { margin: 10px 0 0; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(120px, 1fr)); gap: 10px;
  margin: 18px 0; padding: 0; list-style: none;
}
.figures li {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px;
}
.figures b { display: block; font-size: 22px; line-height: 1.2; font-weight: 620; }
.figures .bad b { color: var(--bad); }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 16px 18px; margin: 14px 0;
}
.scroll { overflow-x: auto; }
.plot { display: block; width: 100%; min-width: 640px; height: auto; }
.plot text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.plot .tick { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.dot { fill: var(--c); }
.pointer { fill: transparent; }
.pointer:hover { fill: var(--ink); fill-opacity: .07; }
.bar, .cell { fill: var(--accent); }
.bar.none { fill: var(--line); }
.bar:hover, .cell:hover { stroke: var(--ink); stroke-width: 1.5; }
.key {
  display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0 0; padding: 0; list-style: none;
}
.key li { font-size: 13px; overflow-wrap: anywhere; }
.key li::before {
  content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 3px;
  background: var(--c); margin-right: 6px;
}
.c0 { --c: light-dark(#1d6b66, #74c7bd); } .c1 { --c: light-dark(#c2661a, #f0a35c); }
.c2 { --c: light-dark(#37609a, #8fb3e4); } .c3 { --c: light-dark(#a83a6b, #ea8fb8); }
.c4 { --c: light-dark(#6b7a1c, #bccb66); } .c5 { --c: light-dark(#6a4aa0, #b79ceb); }
.c6 { --c: light-dark(#8a5a3a, #cfa383); } .c7 { --c: light-dark(#5d6669, #b3bcbf); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); }
table { min-width: 600px; }
td { overflow-wrap: anywhere; min-width: 62px; vertical-align: top; }
th { color: var(--soft); font-weight: 500; font-size: 13px; }
th.n, td.n { text-align: right; overflow-wrap: normal; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
.tables { display: grid; grid-template-columns: minmax(0, 1fr); gap: 24px; margin-top: 12px; }
.tables h3 { font-size: 14px; margin: 0 0 2px; }
#tip {
  position: fixed; z-index: 2; max-width: min(340px, 90vw); padding: 7px 11px; font-size: 13px;
  background: var(--ink); color: var(--paper); border-radius: 8px; pointer-events: none;
  white-space: pre-line; overflow-wrap: anywhere;
}
footer { color: var(--soft); font-size: 13px; margin-top: 20px; overflow-wrap: anywhere; }
"""

SCRIPT: Final = """
const tip = document.getElementById('tip');
function show(event) {
  const of = event.target.closest('[data-tip]');
  tip.hidden = !of;
  if (!of) return;
  tip.textContent = of.dataset.tip;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const below = event.clientY + 18;
  const y = below + box.height > innerHeight ? event.clientY - box.height - 12 : below;
  tip.style.left = Math.max(8, x) + 'px';
  tip.style.top = Math.max(8, y) + 'px';
}
document.addEventListener('pointermove', show);
document.addEventListener('click', show);
document.addEventListener('scroll', () => { tip.hidden = true; }, true);
"""
