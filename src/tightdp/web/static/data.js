// Step 1: which table. Names and types are read, never a cell.

import { ask } from "./api.js";
import { checkbox, field, fill, h, problemsAt, select, table } from "./dom.js";
import { number } from "./fields.js";
import { changed, check, keep, state } from "./state.js";
import { words } from "./words.js";

const w = words.data;
const TEXT = /\.(csv|tsv|txt|data|dat|test|train)(\.(gz|bz2|xz))?$/i;
const namesOf = (text) =>
  /^\d{1,4}$/.test(text.trim())
    ? Array.from({ length: Number(text) }, (_, i) => `c${i + 1}`)
    : text.split(",").map((name) => name.trim()).filter(Boolean);

export function dataStep(go) {
  const way = h("div", { class: "stack" });
  const found = h("div", { "aria-live": "polite" });
  const facts = h("div", { class: "stack" });
  const data = state.plan.data;
  let kind = ["sql", "folder", "file"].find((key) => key in data) ?? "file";

  const choices = ["file", "folder", "sql", "demo"].map((key) => {
    const id = `way-${key}`;
    const radio = h("input", { type: "radio", name: "way", id, value: key, checked: key === kind, onchange: () => show(key) });
    return h("div", { class: "check" }, radio, h("label", { for: id }, w[key]));
  });

  function replace(data) {
    state.plan.data = data;
    state.columns = null;
    changed();
  }

  async function read() {
    fill(found, h("p", { class: "help" }, words.working));
    try {
      const { columns } = await ask("header", { file: state.file, data: state.plan.data });
      state.columns = columns;
      keep();
      changed(0);
      show_columns();
    } catch (error) {
      state.columns = null;
      fill(found, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  function show_columns() {
    if (!state.columns) return fill(found);
    const rows = state.columns.map((column) => [column.name, column.kind || w.unknownType]);
    fill(found, h("p", { class: "good" }, w.found(rows.length)), table([w.column, w.type], rows, w.columns),
      h("button", { type: "button", class: "primary", onclick: () => go("facts") }, words.next(words.steps.facts)));
  }

  async function show(key) {
    kind = key;
    let files = { tables: [], folders: [], databases: [] };
    try {
      files = await ask("files", { file: state.file });
    } catch (error) {
      fill(found, h("p", { class: "problem", role: "alert" }, error.message));
    }
    if (kind !== key) return; // another way was chosen while this was asked for
    const now = state.plan.data;
    const pick = (names, name, label) =>
      names.length || now[name]
        ? field(label, select([["", w.choose], ...new Set([...names, ...(now[name] ? [now[name]] : [])])].map((n) => (Array.isArray(n) ? n : [n, n])), now[name] ?? "",
            (value) => {
              replace(value ? { [name]: value } : {});
              fill(found);
              textFacts("");
              // of a text file it is asked first: a record of words cannot be told from names
              if (value && !(name === "file" && TEXT.test(value))) read();
            }), { place: ["data", name] })
        : h("p", { class: "help" }, w.none);
    if (key === "file") {
      fill(way, pick(files.tables, "file", w.fileLabel), facts);
      textFacts(now.names ? "record" : now.file && state.columns ? "names" : "");
    }
    if (key === "folder") fill(way, pick(files.folders, "folder", w.folderLabel));
    if (key === "sql") fill(way, query(files.databases));
    if (key === "demo") {
      fill(way, h("p", { class: "help" }, w.demoHelp),
        h("button", { type: "button", class: "primary", onclick: demo }, w.useDemo));
    }
  }

  // What must be known to read a text file. A first line that is a record is never read for its names.
  function textFacts(first) {
    const now = state.plan.data;
    if (!TEXT.test(now.file ?? "")) return fill(facts);
    const set = (more) => {
      const all = Object.entries({ ...state.plan.data, ...more }).filter(([, value]) => value !== "" && value !== undefined);
      replace(Object.fromEntries(all));
    };
    const name = (names) => {
      set({ names });
      state.columns = names.length ? names.map((one) => ({ name: one, kind: "" })) : null;
      changed();
      show_columns();
    };
    const again = () => (first === "record" ? name(state.plan.data.names ?? []) : first && read());
    const line = select([["", w.choose], ["names", w.firstNames], ["record", w.firstRecord]], first, (value) => {
      set({ names: undefined, widths: undefined });
      fill(found);
      textFacts(value);
      facts.querySelector("select").focus();
      if (value === "names") read();
    });
    const names = h("input", { type: "text", autocomplete: "off", value: (now.names ?? []).join(", "), oninput: (e) => name(namesOf(e.target.value)) });
    const widths = h("input", { type: "text", autocomplete: "off", value: (now.widths ?? []).join(", "), oninput: (e) => {
      const given = e.target.value.split(",").map((part) => part.trim()).filter(Boolean).map(number);
      set({ widths: given.length ? given : undefined });
      again();
    } });
    const fact = (key, label, options) => field(label, select(options, now[key] ?? "", (value) => {
      set({ [key]: value });
      again();
    }), { place: ["data", key] });
    const encodings = [...new Set([...Object.keys(w.encodings), now.encoding ?? ""])].map((key) => [key, w.encodings[key] ?? key]);
    fill(facts, field(w.first, line, { help: w.firstHelp }),
      first === "record" ? [field(w.names, names, { help: w.namesHelp, place: ["data", "names"] }),
        field(w.widths, widths, { help: w.widthsHelp, place: ["data", "widths"] })] : null,
      h("div", { class: "grid" }, fact("delimiter", w.delimiter, Object.entries(w.delimiters)), fact("encoding", w.encoding, encodings)));
  }

  function query(databases) {
    const now = state.plan.data;
    const text = h("textarea", { rows: "4", spellcheck: "false", value: now.sql ?? "", oninput: (e) => replace({ ...pickBase(), sql: e.target.value }) });
    let base = now.database ?? "";
    const pickBase = () => (base ? { database: base } : {});
    const bases = databases.length
      ? field(w.database, select([["", w.choose], ...databases.map((n) => [n, n])], base, (value) => {
          base = value;
          replace({ ...pickBase(), sql: text.value });
        }))
      : null;
    return [field(w.query, text, { help: w.queryHelp, place: ["data", "sql"] }), bases,
      h("button", { type: "button", class: "primary", onclick: read }, w.read)];
  }

  async function demo() {
    try {
      const made = await ask("demo", { file: state.file });
      const { columns } = await ask("header", { file: made.file, data: made.plan.data });
      Object.assign(state, { file: made.file, base: made.base, plan: made.plan, columns, job: null });
      keep();
      document.dispatchEvent(new Event("plan"));
      await check();
    } catch (error) {
      fill(found, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  show(kind);
  show_columns();
  return [
    h("p", { class: "lead" }, w.lead),
    h("div", { class: "sheet" },
      h("fieldset", {}, h("legend", {}, w.how), h("div", { class: "checks" }, choices)),
      way, problemsAt(["data"]), found),
    h("p", { class: "help" }, w.folders(state.folders.join(", "))),
  ];
}
