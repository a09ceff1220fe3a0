// Step 3: what to publish. The forms are made from the registry of kinds.

import { field, fill, h, problemsAt } from "./dom.js";
import { control } from "./fields.js";
import { changed, state } from "./state.js";
import { words } from "./words.js";

const w = words.questions;
const titleOf = (name) => w.titles[name] ?? name.replaceAll("_", " ");

export function questionsStep(go) {
  const list = h("div", { class: "stack" });
  const said = h("p", { class: "help", role: "status" });
  const releases = state.plan.releases;

  function kinds() {
    const known = new Map(state.kinds.map((kind) => [kind.name, kind]));
    const placed = new Set(w.groups.flatMap(([, names]) => names));
    const rest = state.kinds.map((kind) => kind.name).filter((name) => !placed.has(name));
    return [...w.groups, [w.others, rest]].map(([label, names]) =>
      h("optgroup", { label }, names.filter((name) => known.has(name)).map((name) => h("option", { value: name }, titleOf(name)))));
  }
  const pick = h("select", { id: "kind" }, kinds());

  function nameFor(kind) {
    const taken = new Set(releases.map((release) => release.name));
    const stem = titleOf(kind).split(",")[0].split(" with ")[0];
    for (let i = 1; ; i += 1) {
      const name = i === 1 ? stem : `${stem} ${i}`;
      if (!taken.has(name)) return name;
    }
  }

  // A budget in rho is in the place of epsilon and of a share.
  function share(release) {
    if (!("rho" in release)) return (release.weight = 1);
    delete release.weight;
    delete release.epsilon;
  }

  function add() {
    releases.push({ name: nameFor(pick.value), kind: pick.value, weight: 1 });
    show();
    changed();
    list.lastElementChild.querySelector("input").focus();
  }

  function show() {
    fill(list, releases.length ? releases.map(card) : h("p", { class: "help" }, w.none));
  }

  function card(release, i) {
    const kind = state.kinds.find((known) => known.name === release.kind);
    const place = ["releases", i];
    const set = (key) => (value) => {
      if (value === undefined || value === "") delete release[key];
      else release[key] = value;
      if (key === "rho") share(release);
      changed();
    };
    const own = (key, label) => field(label, h("input", { type: "text", value: release[key] ?? "", autocomplete: "off",
      oninput: (e) => set(key)(e.target.value) }), { place: [...place, key] });
    const first = (option) => option.required || ["columns", "by", "column", "bins", "features", "target", "tables", "tau", "levels", "low", "high", "null"].includes(option.name);
    const options = kind?.options ?? [];
    const make = (option) => control(option, release[option.name], set(option.name), [...place, option.name]);
    return h("section", { class: "sheet question" },
      h("div", { class: "row between" }, h("h3", {}, titleOf(release.kind)),
        h("button", { type: "button", class: "quiet", "aria-label": `${w.remove}: ${release.name}`, onclick: () => {
          releases.splice(i, 1);
          show();
          said.textContent = w.removed(release.name);
          changed();
        } }, w.remove)),
      kind ? h("p", { class: "help" }, kind.about) : null,
      h("div", { class: "grid" }, own("name", w.name), options.filter(first).map(make)),
      h("details", {}, h("summary", {}, w.options),
        h("div", { class: "grid" }, options.filter((option) => !first(option)).map(make), own("key", w.key))),
      problemsAt([...place, "kind"]), problemsAt(place));
  }

  show();
  return [
    h("p", { class: "lead" }, w.lead),
    list,
    said,
    h("div", { class: "sheet row" }, field(w.kind, pick), h("button", { type: "button", class: "primary", onclick: add }, w.add)),
    problemsAt(["releases"]),
    h("button", { type: "button", onclick: () => go("errors") }, words.next(words.steps.errors)),
  ];
}
