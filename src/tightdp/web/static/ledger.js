// Step 6: what was spent, for what, and what is left.

import { ask } from "./api.js";
import { fill, h, parts, table } from "./dom.js";
import { asked } from "./state.js";
import { words } from "./words.js";

const w = words.ledger;

export function ledgerStep() {
  const place = h("div", { class: "stack" }, h("p", { class: "help" }, words.working));
  const checked = h("p", { role: "status" });
  const stored = h("div", {});

  async function verify() {
    checked.textContent = words.working;
    try {
      checked.textContent = (await ask("verify", asked())).words;
    } catch (error) {
      checked.textContent = error.message;
    }
  }
  async function show(key) {
    try {
      fill(stored, parts((await ask("stored", asked({ key }))).html));
    } catch (error) {
      fill(stored, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }
  async function load() {
    try {
      const found = await ask("ledger", asked());
      if (!found.exists) return fill(place, h("p", {}, w.none));
      fill(place,
        h("section", { class: "sheet" },
          h("dl", {}, [[w.caps, found.caps], [w.spent, found.spent], [w.left, found.remaining]].map(([term, said]) => [h("dt", {}, term), h("dd", {}, said)])),
          table([w.unit, w.amount], found.units, w.units)),
        h("section", { class: "sheet" }, h("h3", {}, w.history), parts(found.table),
          h("button", { type: "button", onclick: verify }, w.verify), checked),
        h("section", { class: "sheet" }, h("h3", {}, w.stored),
          h("div", { class: "row" }, found.stored.map((key) => h("button", { type: "button", onclick: () => show(key) }, w.show(key))))),
        stored);
    } catch (error) {
      fill(place, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }
  load();
  return [h("p", { class: "lead" }, w.lead), place];
}
