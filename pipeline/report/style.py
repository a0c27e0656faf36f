"""The report's style sheet: light and dark, for desktop, phone and paper."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: light-dark(#f6f5f1, #14181a); --card: light-dark(#fffefb, #1b2023);
  --line: light-dark(#e4e1d8, #2b3236); --ink: light-dark(#23292b, #e3e6e4);
  --soft: light-dark(#5d6669, #9aa5a8); --accent: light-dark(#1d6b66, #74c7bd);
  --bad: light-dark(#a83232, #f09090); --warn: light-dark(#8a4b08, #f0b35c);
}
* { box-sizing: border-box; }
html { scroll-padding-top: 12px; }
body {
  margin: 0 auto; max-width: 1080px; padding: 28px 20px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 4px; overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 20px 0 2px; }
p { margin: 4px 0 10px; overflow-wrap: anywhere; }
a { color: var(--accent); }
h2 a { color: inherit; text-decoration: none; }
.note, .nothing, .cut, dt { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: 2px 22px; margin: 0; }
.facts div, .meanings div { display: flex; gap: 7px; }
dd { margin: 0; overflow-wrap: anywhere; }
p.above { margin-bottom: 2px; }
ul.above { list-style: none; margin: 0 0 10px; padding: 0; }
ul.above li { padding: 1px 0; overflow-wrap: anywhere; }
ul.above time { white-space: nowrap; }
.warn { color: var(--warn); margin: 10px 0 0; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(104px, 1fr)); gap: 10px;
  margin: 16px 0; padding: 0; list-style: none;
}
.figures li {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 9px 11px;
  font-size: 13px; color: var(--soft);
}
.figures b {
  display: block; font-size: 22px; line-height: 1.2; font-weight: 620; color: var(--ink);
}
.figures .bad b, .over, .bad { color: var(--bad); }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 16px 18px; margin: 14px 0;
}
.meanings { font-size: 13px; margin: 0 0 10px; }
.meanings dt { min-width: 108px; }
.state { font-weight: 620; white-space: nowrap; }
.part:target { border-color: var(--accent); }
.plots { position: relative; margin: 10px 0 6px; }
.plots svg { display: block; width: 100%; overflow: hidden; }
.plots svg * { vector-effect: non-scaling-stroke; }
.plots p, .plots span { position: absolute; margin: 0; line-height: 1.2; }
.plots .name {
  left: 0; right: 0; font-size: 13px; color: var(--soft); padding-top: 5px;
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis; pointer-events: none;
}
.plots .name b { color: var(--ink); font-weight: 620; }
.plots .tick, .plots .limit {
  left: 0; font-size: 11px; padding: 0 3px; color: var(--soft); pointer-events: none;
  background: color-mix(in srgb, var(--card) 80%, transparent);
}
.plots .limit { color: var(--bad); transform: translateY(-100%); }
.plots .axis { position: absolute; left: 0; right: 0; bottom: 0; height: 18px; }
.axis span {
  font-size: 11px; color: var(--soft); transform: translateX(-50%); white-space: nowrap;
}
.axis .first { transform: none; }
.axis .last { right: 0; left: auto; transform: none; color: var(--ink); }
.grid { stroke: var(--line); stroke-width: 1; }
.line { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round;
  stroke-linecap: round; }
.threshold { stroke: var(--bad); stroke-width: 1; stroke-dasharray: 5 4; }
.mark { stroke: var(--bad); stroke-width: 9; stroke-linecap: round; fill: none; }
.bar, .cell { fill: var(--accent); }
.bar.none { fill: var(--line); }
.stripe { fill: transparent; }
.stripe:hover { fill: var(--ink); fill-opacity: .09; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td {
  text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere;
}
thead th { color: var(--soft); font-weight: 500; font-size: 13px; overflow-wrap: normal; }
tbody th { font-weight: 500; min-width: 130px; }
.n { text-align: right; white-space: nowrap; overflow-wrap: normal; }
tr:last-child > * { border-bottom: 0; }
.gens { list-style: none; margin: 6px 0 0; padding: 0; font-size: 14px; }
.gens > li { border-bottom: 1px solid var(--line); padding: 4px 0; overflow-wrap: anywhere; }
.gens > li:last-child { border-bottom: 0; }
.gens a { color: inherit; text-decoration: none; display: block; }
.gens a b { color: var(--accent); text-decoration: underline; }
.gens :target { scroll-margin-top: 20px; }
.gens .held { display: none; padding: 4px 0 8px 14px; border-left: 3px solid var(--accent); }
.gens :target > .held { display: block; }
.up { margin: 14px 0 0; font-size: 13px; }
footer { color: var(--soft); font-size: 13px; margin-top: 20px; overflow-wrap: anywhere; }
@media (max-width: 700px) {
  body { padding: 18px 12px 40px; }
  section { padding: 14px 12px; }
  thead { display: none; }
  table, tbody { display: block; }
  tr {
    display: flex; flex-wrap: wrap; gap: 0 14px; padding: 6px 0;
    border-bottom: 1px solid var(--line);
  }
  tbody th { flex-basis: 100%; }
  th, td, .n { border: 0; padding: 1px 0; text-align: left; white-space: normal; }
  td::before { content: attr(data-label) " "; color: var(--soft); font-size: 12px; }
  .axis .odd { display: none; }
  .plots .name { font-size: 12px; }
}
@media print {
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; background: none; }
  section { border: 0; padding: 0; background: none; }
  .plots, .figures, tr { break-inside: avoid; }
  .plots svg, .figures li { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, h3 { break-after: avoid; }
  .gens .held { display: block; }
  .up { display: none; }
}
"""
