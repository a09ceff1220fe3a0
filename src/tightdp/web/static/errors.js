// Step 4: the error while epsilon moves, and the other way round. Free, and from public facts alone.

import { ask } from "./api.js";
import { checkbox, field, fill, h, parts, problemsAt, select, table } from "./dom.js";
import { asked, changed, check, onChecked, state } from "./state.js";
import { words } from "./words.js";

const w = words.errors;
const [LOW, HIGH, STEPS] = [0.01, 10, 300];
const toSlider = (epsilon) => Math.round((STEPS * Math.log(epsilon / LOW)) / Math.log(HIGH / LOW));
const fromSlider = (place) => Number((LOW * (HIGH / LOW) ** (place / STEPS)).toPrecision(2));
let chosen = "";
let active = null;
onChecked(() => active?.isConnected && active.refresh());

function budgetForm() {
  const b = words.budget;
  const { budget } = state.plan;
  const text = (key, label, help) => field(label, h("input", { type: "text", autocomplete: "off", value: budget[key] ?? "", oninput: (e) => {
    if (e.target.value.trim()) budget[key] = e.target.value.trim();
    else delete budget[key];
    if (key === "confidence" && Number.isFinite(Number(budget[key]))) budget[key] = Number(budget[key]);
    changed();
  } }), { help, place: ["budget", key] });
  return h("section", { class: "sheet" }, h("h3", {}, b.heading),
    h("div", { class: "grid" }, text("epsilon", b.epsilon, b.epsilonHelp), text("ledger", b.ledger, b.ledgerHelp)),
    h("details", {}, h("summary", {}, words.facts.more),
      h("div", { class: "grid" }, text("delta", b.delta, b.deltaHelp), text("confidence", b.confidence, ""))),
    problemsAt(["budget"]));
}

export function errorsStep(go) {
  const releases = state.plan.releases;
  const nameOf = (release, i) => release.name ?? `${release.kind} ${i + 1}`;
  const names = releases.map(nameOf);
  if (!releases.length) return [h("p", { class: "lead" }, w.lead), budgetForm(), h("p", { class: "help" }, w.none)];
  if (!names.includes(chosen)) chosen = names[0];

  const result = h("div", { class: "preview" });
  const status = h("p", { class: "help", role: "status" });
  const image = h("div", { class: "drawn" });
  const meaning = h("div", {});
  const compared = h("div", {});
  const wished = h("p", { role: "status" });
  const slider = h("input", { type: "range", min: "0", max: String(STEPS), id: "epsilon-slider", "aria-label": w.slider });
  const figure = h("input", { type: "text", inputmode: "decimal", id: "epsilon", autocomplete: "off" });
  const size = h("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
  const target = field(w.error, size);
  let assume = false;
  const assumed = checkbox(w.assume, false, (on) => (assume = on));
  let inRanks = false;

  const release = () => releases[names.indexOf(chosen)];
  const known = () => state.checked.releases.find((one) => one.name === chosen);
  const current = () => String(release().epsilon ?? known()?.epsilon ?? 0.1);
  const spoken = () => slider.setAttribute("aria-valuetext", `epsilon ${figure.value}`);

  // One question at a time: while one is under way only the latest that follows is kept.
  const latest = (place, act) => {
    let busy = false;
    let waiting = null;
    const run = async (given) => {
      if (busy) return (waiting = given);
      busy = true;
      try {
        await act(given);
      } catch (error) {
        fill(place, h("p", { class: "problem" }, error.message));
      }
      busy = false;
      if (waiting !== null) {
        const next = waiting;
        waiting = null;
        run(next);
      }
    };
    return run;
  };
  // An answer about a question is shown, and kept, only while that question is chosen.
  const about = async (act, more) => {
    const name = chosen;
    const found = await ask(act, asked({ name, ...more }));
    return name === chosen && section.isConnected ? found : null;
  };
  const preview = latest(result, async (epsilon) => {
    const begun = performance.now();
    const found = await about("preview", { epsilon });
    if (!found) return;
    const [head, ...rows] = found.rows;
    inRanks = found.in_ranks;
    target.querySelector("label").textContent = inRanks ? w.ranks : w.error;
    assumed.hidden = !found.assumes || inRanks;
    fill(result, table(head, rows, w.table),
      found.more ? h("p", { class: "help" }, w.more_rows(found.more)) : null, h("p", { class: "help" }, found.note));
    fill(meaning, h("div", { class: "two" }, h("p", {}, found.meaning), parts(found.power)));
    status.textContent = w.took(Math.round(performance.now() - begun));
    document.documentElement.dataset.previewed = `${chosen} ${epsilon}`;
  });
  const draw = latest(image, async (epsilon) => {
    const found = await about("picture", { epsilon });
    if (!found) return;
    fill(image, parts(found.svg), h("p", { class: "help" }, w.pictureNote(found.rows.toLocaleString("en")), " ", found.note, "."));
  });

  let pause = 0;
  function move(epsilon) {
    preview(epsilon);
    clearTimeout(pause);
    pause = setTimeout(() => draw(epsilon), 300);
  }
  function commit(epsilon) {
    const mine = release();
    if (mine.epsilon === epsilon || !(Number(epsilon) > 0 || /^\d+\/\d+$/.test(epsilon))) return;
    delete mine.weight;
    delete mine.rho;
    mine.epsilon = epsilon;
    changed(0);
  }
  slider.addEventListener("input", () => {
    figure.value = String(fromSlider(Number(slider.value)));
    spoken();
    move(figure.value);
  });
  slider.addEventListener("change", () => commit(figure.value));
  figure.addEventListener("change", () => {
    const epsilon = figure.value.trim();
    if (Number(epsilon) > 0) slider.value = toSlider(Number(epsilon));
    spoken();
    commit(epsilon);
    move(epsilon);
  });

  function reset() {
    figure.value = current();
    if (Number(figure.value) > 0) slider.value = toSlider(Number(figure.value));
    spoken();
    fill(compared);
    wished.textContent = "";
    move(figure.value);
  }

  async function find(event) {
    event.preventDefault();
    wished.textContent = words.working;
    try {
      const found = await about("needed", { epsilon: figure.value, error: size.value, unit: inRanks ? "ranks" : "error", assume });
      if (!found) return;
      const { epsilon } = found;
      wished.textContent = w.needs(epsilon);
      figure.value = epsilon;
      slider.value = toSlider(Number(epsilon));
      spoken();
      commit(epsilon);
      move(epsilon);
    } catch (error) {
      wished.textContent = error.message;
    }
  }

  async function compare() {
    fill(compared, h("p", { class: "help" }, words.working));
    try {
      const found = await about("compare", { epsilon: figure.value });
      if (!found) return;
      const refused = Object.entries(found.refused).map(([noise, why]) => h("li", {}, `${noise}: ${why}`));
      fill(compared, found.svg ? [parts(found.svg), h("p", { class: "help" }, w.compared), h("ul", { class: "help" }, refused)] : h("p", {}, w.oneNoise));
    } catch (error) {
      fill(compared, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  const pick = select(names.map((name) => [name, name]), chosen, (name) => {
    chosen = name;
    reset();
  });
  const section = h("section", { class: "sheet" },
    field(w.which, pick),
    h("div", { class: "epsilon" }, field(w.epsilon, figure, { place: ["releases", names.indexOf(chosen), "epsilon"] }),
      h("div", { class: "slide" }, slider, h("span", { class: "help" }, w.more))),
    status, result,
    h("form", { class: "row", onsubmit: find }, target, assumed, h("button", { type: "submit" }, w.find)), wished);
  section.refresh = () => {
    if (document.activeElement !== figure && document.activeElement !== slider && figure.value !== current()) reset();
  };
  active = section;
  reset();
  return [
    h("p", { class: "lead" }, w.lead), budgetForm(), section,
    h("section", { class: "sheet" }, h("h3", {}, w.picture), image),
    h("section", { class: "sheet" }, h("h3", {}, w.meaning), meaning),
    h("section", { class: "sheet" }, h("h3", {}, w.compare), h("button", { type: "button", onclick: compare }, w.compare), compared),
    h("button", { type: "button", class: "primary", onclick: () => go("release") }, words.next(words.steps.release)),
  ];
}
