// Step 2: what is public, stated by a person. Nothing comes from the data.

import { ask } from "./api.js";
import { checkbox, field, fill, h, parts, problemsAt, select } from "./dom.js";
import { isDate, number } from "./fields.js";
import { asked, changed, state } from "./state.js";
import { words } from "./words.js";

const w = words.facts;

export function factsStep(go) {
  const schema = state.plan.schema;
  schema.columns ??= {};
  const list = h("div", { class: "columns" });
  const looked = h("div", { "aria-live": "polite" });

  const text = (target, key, label, { help, place, read = (t) => t, blank, ...more } = {}) =>
    field(label, h("input", { type: "text", autocomplete: "off", value: target[key] ?? "", ...more,
      oninput: (e) => {
        const given = e.target.value.trim() === "" ? blank : read(e.target.value);
        if (given === undefined) delete target[key];
        else target[key] = given;
        changed();
      } }), { help, place });
  const figures = { read: number, inputmode: "decimal" };
  // while 2014 is typed the year is 2, 20 and 201: a table of all days since then is no wish of anybody
  const day = (target, key, label, more) => text(target, key, label, { ...more, type: "date", read: (t) => (t.startsWith("0") ? undefined : t),
    value: String(target[key] ?? "").replace(/^(\d{4})(\d\d)(\d\d)$/, "$1-$2-$3").slice(0, 10) });

  const rowsLabel = () => (schema.neighbors === "add-remove" ? w.rowsPrivate : w.rowsPublic);
  const rows = text(schema, "rows", rowsLabel(), { ...figures, inputmode: "numeric", place: ["schema", "rows"] });
  const relation = [["replace-one", w.replace], ["add-remove", w.addRemove]].map(([key, label]) => {
    const id = `relation-${key}`;
    return h("div", { class: "check" },
      h("input", { type: "radio", name: "relation", id, checked: (schema.neighbors ?? "replace-one") === key, onchange: () => relate(key) }),
      h("label", { for: id }, label));
  });
  function relate(key) {
    schema.neighbors = key;
    rows.querySelector("label").textContent = rowsLabel();
    if (key === "replace-one") {
      delete schema.person;
      delete schema.rows_per_person;
    }
    persons();
    changed();
  }

  const who = h("div", { class: "stack" });
  function persons() {
    if (schema.neighbors !== "add-remove") return fill(who);
    const names = (state.columns ?? []).map((column) => column.name).filter((name) => !(name in schema.columns));
    if (schema.person && !names.includes(schema.person)) names.push(schema.person);
    const pick = select([["", w.personNone], ...names.map((n) => [n, n])], schema.person ?? "", (value) => {
      if (value) schema.person = value;
      else {
        delete schema.person;
        delete schema.rows_per_person;
      }
      persons();
      changed();
    });
    fill(who, field(w.person, pick, { help: w.personHelp, place: ["schema", "person"] }),
      schema.person ? text(schema, "rows_per_person", w.perPerson, { ...figures, place: ["schema", "rows_per_person"] }) : null);
  }

  function cards() {
    const seen = (state.columns ?? []).map((column) => column.name);
    const names = [...new Set([...seen, ...Object.keys(schema.columns)])].filter((name) => name !== schema.person);
    fill(list, names.length ? names.map((name) => card(name, seen)) : h("p", { class: "help" }, w.noColumns));
  }

  function card(name, seen) {
    const place = ["schema", "columns", name];
    const inside = h("div", { class: "grid" });
    const kindOf = () => {
      const facts = schema.columns[name];
      return facts === undefined ? "" : "levels" in facts ? "category" : isDate(facts) ? "date" : "number";
    };
    const pick = select(Object.entries(w.kinds), kindOf(), (kind) => {
      delete schema.columns[name];
      if (kind === "number") schema.columns[name] = {};
      if (kind === "category") schema.columns[name] = { levels: [] };
      if (kind === "date") schema.columns[name] = { unit: "month" };
      show(kind);
      persons();
      changed();
    }, { "aria-label": `${name}: ${w.kind}` });
    function show(kind) {
      const facts = schema.columns[name] ?? {};
      const at = (key) => ({ place: [...place, key] });
      const numeric = state.columns?.find((column) => column.name === name)?.kind === "number";
      if (kind === "number") {
        fill(inside,
          text(facts, "low", w.low, { ...figures, ...at("low"), blank: "" }), text(facts, "high", w.high, { ...figures, ...at("high"), help: w.bounds }),
          text(facts, "unit", w.unit, { ...at("unit"), read: (t) => {
            facts.low ??= ""; // a number all the same, if its unit is that of dates
            return t;
          } }),
          h("details", {}, h("summary", {}, w.more), h("div", { class: "grid" },
            text(facts, "missing", w.missing, { ...figures, ...at("missing"), help: w.missingHelp }),
            text(facts, "step", w.step, { ...figures, ...at("step") }),
            text(facts, "decimal", w.decimal, at("decimal")), text(facts, "thousands", w.thousands, at("thousands")))));
      } else if (kind === "category") {
        const before = facts.levels ?? []; // levels of a plan stay what they are: 1 and "1" are two
        const numbers = numeric || (before.length > 0 && before.every((one) => typeof one === "number"));
        const level = (t) => before.find((one) => String(one) === t) ?? (numbers ? number(t) : t);
        const levels = h("textarea", { rows: "4", value: before.join("\n"), oninput: (e) => {
          facts.levels = e.target.value.split("\n").map((line) => line.trim()).filter(Boolean).map(level);
          changed();
        } });
        fill(inside, field(w.levels, levels, { help: w.levelsHelp, ...at("levels") }),
          text(facts, "other", w.other, { help: w.otherHelp, ...at("other"), read: level }),
          checkbox(w.loose, Boolean(facts.loose), (on) => {
            if (on) facts.loose = true;
            else delete facts.loose;
            changed();
          }));
      } else if (kind === "date") {
        fill(inside, day(facts, "low", w.first, at("low")), day(facts, "high", w.last, { ...at("high"), help: w.dates }),
          field(w.period, select(Object.entries(w.units), facts.unit ?? "month", (unit) => {
            facts.unit = unit;
            changed();
          }), { help: w.periodHelp, ...at("unit") }),
          h("details", {}, h("summary", {}, w.more), h("div", { class: "grid" },
            day(facts, "missing", w.missing, { ...at("missing"), help: w.missingDate }),
            text(facts, "format", w.format, { ...at("format"), help: w.formatHelp }),
            text(facts, "zone", w.zone, { ...at("zone"), help: w.zoneHelp }))));
      } else fill(inside);
    }
    show(kindOf());
    const strange = seen.length && !seen.includes(name) ? h("span", { class: "help" }, w.notInTable) : null;
    return h("div", { class: "column" }, h("h4", {}, name, " ", strange), pick, inside, problemsAt(place));
  }

  const added = h("input", { type: "text", autocomplete: "off" });
  const add = h("form", { class: "row", onsubmit: (event) => {
    event.preventDefault();
    const name = added.value.trim();
    if (name && !(name in schema.columns)) schema.columns[name] = {};
    added.value = "";
    cards();
    changed();
  } }, field(w.addLabel, added), h("button", { type: "submit" }, w.add));

  async function look() {
    fill(looked, h("p", { class: "help" }, words.working));
    try {
      const { html } = await ask("curator", asked());
      fill(looked, h("div", { class: "not-private" }, h("p", {}, h("strong", {}, w.checkMark)), parts(html),
        h("button", { type: "button", onclick: () => fill(looked) }, w.clear)));
    } catch (error) {
      fill(looked, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  cards();
  persons();
  return [
    h("p", { class: "lead" }, w.lead),
    h("section", { class: "sheet" }, h("h3", {}, w.rows),
      h("fieldset", {}, h("legend", {}, w.neighbors), relation), rows, who, problemsAt(["schema"])),
    h("section", { class: "sheet" }, h("h3", {}, w.columns), list, add),
    h("section", { class: "sheet" }, h("h3", {}, w.check), h("p", {}, w.checkLead),
      h("button", { type: "button", onclick: look }, w.check), looked),
    h("button", { type: "button", class: "primary", onclick: () => go("questions") }, words.next(words.steps.questions)),
  ];
}
