// Sets the chosen theme before the page is drawn; "auto" follows the system.
"use strict";
(() => {
  let kept = "auto";
  try { kept = localStorage.getItem("muster.theme") || "auto"; } catch { /* no storage: auto */ }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
