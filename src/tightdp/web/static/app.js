// The frame: steps, the budget bar, the plan as a file. Every step is an address, so Back works.

import { ask, login, takeToken } from "./api.js";
import { dataStep } from "./data.js";
import { download, field, fill, h, select } from "./dom.js";
import { errorsStep } from "./errors.js";
import { factsStep } from "./facts.js";
import { ledgerStep } from "./ledger.js";
import { questionsStep } from "./questions.js";
import { releaseStep } from "./release.js";
import { asked, changed, check, emptyPlan, keep, onChecked, remembered, state, stepOf } from "./state.js";
import { words } from "./words.js";

const STEPS = { data: dataStep, facts: factsStep, questions: questionsStep, errors: errorsStep, release: releaseStep, ledger: ledgerStep };
const page = document.getElementById("page");
const body = h("div", { class: "body" });
const bar = h("div", { class: "budget" });
const nav = h("ol", {});
const said = h("p", { class: "help", role: "status" });
const general = h("div", {});
const title = h("input", { type: "text", id: "title", autocomplete: "off", oninput: (e) => {
  state.plan.title = e.target.value;
  changed();
} });

const stepNow = () => (location.hash.slice(1) in STEPS ? location.hash.slice(1) : "data");
const go = (step) => (location.hash = step);

function frame() {
  const menu = h("details", { class: "menu" }, h("summary", {}, words.plan.menu), h("div", { class: "stack" },
    field(words.plan.title, title), fileField(),
    h("div", { class: "row" },
      h("button", { type: "button", onclick: save }, words.plan.save),
      h("button", { type: "button", onclick: () => exported("toml") }, words.plan.toml),
      h("button", { type: "button", onclick: () => exported("python") }, words.plan.python)),
    h("div", { id: "others" }), said));
  menu.addEventListener("toggle", () => menu.open && others());
  document.addEventListener("plan", () => (menu.open = false));
  document.addEventListener("pointerdown", (event) => menu.contains(event.target) || (menu.open = false));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  fill(page,
    h("a", { class: "skip", href: "#content", onclick: (e) => {
      e.preventDefault();
      document.getElementById("content").focus();
    } }, words.skip),
    h("header", { class: "top" }, h("h1", {}, words.product), menu, bar),
    h("div", { class: "shell" }, h("nav", { "aria-label": words.stepsLabel }, nav),
      h("main", { id: "content", tabindex: "-1" }, h("h2", { id: "step", tabindex: "-1" }), general, body)));
}

function fileField() {
  const box = h("input", { type: "text", id: "file", autocomplete: "off", value: state.file, onchange: (e) => {
    state.file = e.target.value.trim() || "plan.toml";
    state.base = null;
    changed();
  } });
  return field(words.plan.file, box);
}

async function others() {
  const place = document.getElementById("others");
  try {
    const { plans } = await ask("files", { file: state.file });
    const pick = select([["", "…"], ...plans.map((name) => [name, name === state.file ? words.plan.again(name) : name])], "", open);
    fill(place, plans.length ? field(words.plan.open, pick) : h("p", { class: "help" }, words.plan.none));
  } catch (error) {
    said.textContent = error.message;
  }
}

async function open(file) {
  try {
    use(await withColumns(await ask("open", { file })));
    await check();
  } catch (error) {
    said.textContent = error.message;
  }
}

async function save() {
  try {
    state.base = (await ask("save", asked({ base: state.base }))).base;
    keep();
    said.textContent = words.saved;
  } catch (error) {
    said.textContent = error.message;
  }
}

async function exported(form) {
  try {
    const { name, text } = await ask("export", asked({ form }));
    download(name, "text/plain", text);
    said.textContent = "";
  } catch (error) {
    said.textContent = error.message;
  }
}

// Names and types of the columns of a plan that was just opened; without them the forms ask less.
// The server tells them of a text file only where the plan states some of them: else the first line
// may be a record, and it is asked first.
async function withColumns(opened) {
  const data = opened.plan?.data ?? {};
  if (opened.columns || !(data.file || data.folder || data.sql)) return opened;
  const { columns, person } = opened.plan.schema ?? {};
  const stated = [...Object.keys(columns ?? {}), ...(person ? [person] : [])];
  try {
    return { ...opened, ...(await ask("header", { file: opened.file, data, stated })) };
  } catch {
    return opened;
  }
}

function use(opened) {
  const blank = emptyPlan(opened.file);
  const plan = opened.plan ?? blank;
  for (const key of ["data", "schema", "budget", "releases"]) plan[key] ??= blank[key];
  // columns may have any names, also such as every object of JavaScript knows
  plan.schema.columns = Object.assign(Object.create(null), plan.schema.columns);
  Object.assign(state, { file: opened.file, base: opened.base, plan, columns: opened.columns ?? null, job: opened.job ?? null });
  keep();
  document.dispatchEvent(new Event("plan"));
}

function show() {
  const step = stepNow();
  fill(nav, Object.entries(words.steps).map(([key, label]) =>
    h("li", {}, h("a", { href: `#${key}`, "aria-current": key === step ? "step" : undefined, "data-step": key }, h("span", {}, label), h("small", { class: "todo" })))));
  const here = nav.querySelector("[aria-current]");
  nav.scrollLeft = here.offsetLeft - nav.offsetLeft - 40;
  const heading = document.getElementById("step");
  heading.textContent = words.steps[step];
  document.title = `${words.steps[step]} – ${state.plan.title || words.product}`;
  fill(body, STEPS[step](go));
  tell(state.checked);
}

// Every problem stands beside what it is about; what has no place here is counted in the steps.
function tell({ problems, budget }) {
  const places = new Map();
  for (const slot of page.querySelectorAll("[data-place]")) {
    slot.textContent = "";
    places.set(slot.dataset.place, slot);
  }
  const counts = {};
  const loose = [];
  for (const { place, message } of problems) {
    const step = stepOf(place);
    counts[step] = (counts[step] ?? 0) + 1;
    let slot = null;
    for (let end = place.length; end > 0 && !slot; end -= 1) slot = places.get(JSON.stringify(place.slice(0, end)));
    if (slot) slot.textContent += (slot.textContent ? " " : "") + message;
    else if (!place.length) loose.push(message);
  }
  fill(general, loose.map((message) => h("p", { class: "problem" }, message)));
  for (const link of nav.querySelectorAll("a")) {
    const n = counts[link.dataset.step];
    link.querySelector(".todo").textContent = n ? words.todo(n) : "";
  }
  for (const control of page.querySelectorAll("[aria-describedby]")) {
    const wrong = control.getAttribute("aria-describedby").split(" ").some((id) => id.endsWith("-problem") && document.getElementById(id)?.textContent);
    if (wrong) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
  showBudget(budget);
}

function showBudget(budget) {
  const b = words.budget;
  if (!budget) return fill(bar, h("span", { class: "help" }, b.none));
  const share = (amount) => `${Math.max(0, Math.min(100, (100 * amount) / budget.cap))}%`;
  const figure = (amount) => Number(amount.toPrecision(4)).toString();
  const part = (kind, amount) => {
    const made = h("span", { class: kind });
    made.style.width = share(amount);
    return made;
  };
  const left = budget.left < 0 ? b.over : `${figure(budget.left)} ${b.left}`;
  const text = `${figure(budget.spent)} ${b.spent}, ${figure(budget.asked)} ${b.asked}, ${left} (${b.of(budget.unit, figure(budget.cap))})`;
  fill(bar, h("span", { class: "label" }, `${b.label}: `, h("span", { id: "budget-text" }, text)),
    h("span", { class: "meter", "aria-hidden": "true", title: b.hint }, part("spent", budget.spent), part("asked", Math.min(budget.asked, budget.cap - budget.spent))));
}

function askPassword(reason) {
  const box = h("input", { type: "password", autocomplete: "current-password" });
  const wrong = h("p", { class: "problem", role: "alert" });
  fill(page, h("main", { class: "door" }, h("h1", {}, words.product), h("p", {}, reason),
    h("form", { class: "stack", onsubmit: async (event) => {
      event.preventDefault();
      try {
        await login(box.value);
        begin();
      } catch (error) {
        wrong.textContent = error.message;
      }
    } }, field(words.password, box), h("button", { type: "submit", class: "primary" }, words.enter), wrong)));
}

async function begin() {
  takeToken();
  let found;
  try {
    found = await ask("start");
  } catch (error) {
    if (error.kind === "password") return askPassword(error.message);
    return fill(page, h("main", { class: "door" }, h("h1", {}, words.product), h("p", { class: "problem", role: "alert" }, error.message)));
  }
  Object.assign(state, { kinds: found.kinds, folders: found.folders, version: found.version, home: `${found.folders[0]}/${found.file}` });
  frame();
  use(await withColumns(remembered() ?? found));
  window.addEventListener("hashchange", () => {
    if (new URLSearchParams(location.hash.slice(1)).get("token")) return location.reload();
    show();
    document.getElementById("step").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  });
  document.documentElement.dataset.ready = "yes";
  await check();
}

document.addEventListener("plan", () => {
  title.value = state.plan.title ?? "";
  const box = document.getElementById("file");
  if (box) box.value = state.file;
  show();
});
onChecked(tell);
begin();
