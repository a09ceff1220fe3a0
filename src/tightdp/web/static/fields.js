// Controls for the options of a question, by what an option takes. The registry decides which there are.

import { checkbox, field, h, problemsAt, select } from "./dom.js";
import { state } from "./state.js";
import { words } from "./words.js";

const w = words.questions;
const isNumber = (facts) => !("levels" in facts); // dates are numbers of days, too
const isDay = (bound) => typeof bound === "string" && /^\d{4}-|^\d{8}$/.test(bound);
export const isDate = (facts) =>
  isNumber(facts) && (isDay(facts.low) || isDay(facts.high) || (!("low" in facts) && facts.unit in words.facts.units));
export const fits = (facts, of) => !of || (of === "number" ? isNumber(facts) : !isNumber(facts) || (of === "groups" && isDate(facts)));
const columns = (of) =>
  Object.entries(state.plan.schema.columns || {}).filter(([, facts]) => fits(facts, of)).map(([name]) => name);
const pieces = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
export const number = (text) => {
  const plain = text.trim();
  const found = Number(plain);
  const exact = Number.isFinite(found) && (!Number.isInteger(found) || Number.isSafeInteger(found)); // else it would be another
  return plain !== "" && exact ? found : plain;
};
const bins = (text) => {
  const all = pieces(text).map(number);
  const alone = all.length === 1 && (Number.isInteger(all[0]) || all[0] in words.facts.units); // how many, or a unit of dates
  return alone ? all[0] : all;
};
// By names of columns, which may be such as every object of JavaScript knows.
export const byColumn = (value) => Object.assign(Object.create(null), value);
export const shownBins = (value) => (Array.isArray(value) ? value.join(", ") : String(value ?? ""));

function input(value, onvalue, more = {}) {
  return h("input", { type: "text", value: value ?? "", autocomplete: "off", oninput: (e) => onvalue(e.target.value), ...more });
}
function area(value, onvalue, more = {}) {
  return h("textarea", { rows: "3", value: value ?? "", oninput: (e) => onvalue(e.target.value), ...more });
}

// One control for one option; `set` is called with the value of the plan, undefined where there is none.
export function control(option, value, set, place) {
  const usual = option.default === null || option.default === undefined ? "" : ` (${w.default(option.default)})`;
  const label = `${option.name.replaceAll("_", " ")}${option.required ? ` (${w.required})` : usual}`;
  const plain = (made, hint) => field(label, made, { help: hint ? `${option.about}; ${hint}` : option.about, place });
  const text = (read, show, hint, make = input) =>
    plain(make(show(value), (given) => set(given.trim() ? read(given) : undefined)), hint);
  const asText = (shown) => (shown ?? "").toString();
  switch (option.takes) {
    case "column":
      return plain(select([["", w.choose], ...columns(option.of).map((name) => [name, name])], value ?? "", (v) => set(v || undefined)));
    case "columns":
      return many(label, option, columns(option.of), value, set, place);
    case "terms":
      return text(pieces, (v) => (v ?? []).join(", "), w.terms);
    case "by":
      return groups(label, option, value, set, place);
    case "shares of columns":
      return text(readShares, shownShares, w.shares);
    case "number":
      return plain(input(value, (v) => set(v.trim() || undefined), { inputmode: "decimal" }));
    case "numbers":
      return text(pieces, (v) => (v ?? []).join(", "), w.list);
    case "integer":
      return text(number, asText, "");
    case "bins":
      return text(bins, shownBins, w.bins);
    case "labels":
      return text((t) => pieces(t).map(levelOf(state.plan.releases[place[1]])), (v) => (v ?? []).join(", "), w.list);
    case "equations":
      return text(lines, (v) => [v ?? []].flat().map(shownEquation).join("\n"), w.equations, area);
    case "pairs":
      return text((t) => lines(t).map(pieces), (v) => (v ?? []).map((p) => p.join(", ")).join("\n"), w.pairs, area);
    case "lists":
      return text((t) => lines(t).map(pieces), (v) => (v ?? []).map((p) => p.join(", ")).join("\n"), w.lines, area);
    case "tables":
      return text(
        (t) => (/^\d+$/.test(t.trim()) ? Number(t) : lines(t).map(pieces)),
        (v) => (Array.isArray(v) ? v.map((p) => [p].flat().join(", ")).join("\n") : (v ?? "").toString()), w.tables, area);
    case "group tables":
      return text((t) => lines(t).map((line) => halves(line, pieces)), shownHalves, w.groupTables, area);
    case "counts of columns":
      return text((t) => lines(t).map((line) => halves(line, (right) => pieces(right).map(number))), shownHalves, w.countsOf, area);
    case "bins of columns":
      return binsOf(label, option, value, set, place);
    case "flag":
      return plain(select([["", w.unset], ["true", w.yes], ["false", w.no]], value === undefined ? "" : String(value),
        (v) => set(v === "" ? undefined : v === "true")));
    default: {
      if (!option.choices.length) return text((t) => t.trim(), asText, "");
      return plain(select([["", w.unset], ...option.choices.map((c) => [c, c])], value ?? "", (v) => set(v || undefined)));
    }
  }
}

// Weights of coefficients, as a plan may state them, in the words of a line: "2 a - b".
export const shownEquation = (part) =>
  typeof part === "string" ? part : Object.entries(part).map(([name, weight], place) => {
    const given = String(weight);
    const sign = given.startsWith("-") ? "- " : place ? "+ " : "";
    return `${sign}${given.replace(/^-/, "")} ${name}`;
  }).join(" ");

// One share for all columns, or of some by their names: "age: 0.2, pay: 0.5".
export const readShares = (text) =>
  text.includes(":")
    ? Object.fromEntries(pieces(text).map((part) => {
        const cut = part.lastIndexOf(":");
        return [part.slice(0, cut < 0 ? undefined : cut).trim(), cut < 0 ? "" : part.slice(cut + 1).trim()];
      }))
    : text.trim();
export const shownShares = (value) =>
  typeof value === "object" && value !== null
    ? Object.entries(value).map(([name, share]) => `${name}: ${share}`).join(", ")
    : String(value ?? "");

// A level as the schema has it: 1 and "1" are two levels.
const levelOf = (release) => (text) => {
  const known = state.plan.schema.columns[release.column]?.levels ?? [];
  return known.find((one) => String(one) === text) ?? number(text);
};

// Two lists on a line, with a bar between them.
function halves(line, read) {
  const [left, right = ""] = line.split("|");
  return [pieces(left), read(right)];
}
const shownHalves = (value) =>
  (Array.isArray(value) ? value : Object.entries(value ?? {})).map((pair) => pair.map((part) => [part].flat().join(", ")).join(" | ")).join("\n");

function group(label, option, place, ...inside) {
  return h("fieldset", {}, h("legend", {}, label), h("span", { class: "help" }, option.about), inside, problemsAt(place));
}

function many(label, option, names, value, set, place) {
  const chosen = new Set(value ?? []);
  const boxes = names.map((name) =>
    checkbox(name, chosen.has(name), (on) => {
      if (on) chosen.add(name);
      else chosen.delete(name);
      const kept = names.filter((known) => chosen.has(known));
      set(kept.length ? kept : undefined);
    }));
  return group(label, option, place, boxes.length ? h("div", { class: "checks" }, boxes) : h("p", { class: "help" }, w.noColumn));
}

// Categories by name, dates by a unit, numbers with their bins; and, where that is allowed, a column that nobody listed.
function groups(label, option, value, set, place) {
  const items = new Map([value ?? []].flat().map((item) => (Array.isArray(item) ? [item[0], item[1]] : [item, null])));
  const known = state.plan.schema.columns || {};
  const tell = () => {
    const made = [...items].map(([name, edges]) => (edges === null ? name : [name, edges]));
    set(made.length ? made : undefined);
  };
  const rows = Object.entries(known).map(([name, facts]) => {
    const edges = isDate(facts)
      ? select([["", w.ownUnit], ...Object.entries(words.facts.units)], items.get(name) ?? "", (unit) => {
          if (items.has(name)) {
            items.set(name, unit || null);
            tell();
          }
        }, { "aria-label": w.unitOf(name), class: "narrow" })
      : isNumber(facts)
      ? input(shownBins(items.get(name)), (text) => {
          if (items.has(name)) {
            items.set(name, bins(text));
            tell();
          }
        }, { "aria-label": w.binsOf(name), placeholder: w.bins, class: "narrow" })
      : null;
    const box = checkbox(name, items.has(name), (on) => {
      if (on) items.set(name, isDate(facts) ? edges.value || null : edges ? bins(edges.value) : null);
      else items.delete(name);
      tell();
    });
    return h("div", { class: "with-bins" }, box, edges);
  });
  const free = [...items.keys()].find((name) => !(name in known)) ?? "";
  const unlisted = option.choices.length
    ? field(w.unlisted, input(free, (text) => {
        for (const name of [...items.keys()]) if (!(name in known)) items.delete(name);
        if (text.trim()) items.set(text.trim(), null);
        tell();
      }))
    : null;
  return group(label, option, place, h("div", { class: "checks" }, rows), unlisted);
}

function binsOf(label, option, value, set, place) {
  const all = byColumn(value);
  const rows = columns("number").map((name) =>
    field(name, input(shownBins(all[name]), (text) => {
      if (text.trim()) all[name] = bins(text);
      else delete all[name];
      set(Object.keys(all).length ? { ...all } : undefined);
    }, { placeholder: w.bins })));
  return group(label, option, place, rows.length ? rows : h("p", { class: "help" }, w.noColumn));
}
