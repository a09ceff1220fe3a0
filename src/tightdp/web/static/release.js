// Step 5: what it costs, one explicit yes, and the results. Asking twice pays once.

import { ask } from "./api.js";
import { download, fill, h, parts, table } from "./dom.js";
import { asked, check, keep, record, state } from "./state.js";
import { words } from "./words.js";

const w = words.release;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

export function releaseStep() {
  const costs = h("section", { class: "sheet", "aria-live": "polite" });
  const work = h("div", { "aria-live": "polite" });
  const results = h("div", { id: "results" });

  async function offer() {
    fill(costs, h("p", { class: "help" }, words.working));
    await check();
    const { problems } = state.checked;
    if (problems.length) {
      return fill(costs, h("h3", {}, w.problems), h("ul", { class: "problems" }, problems.map((p) => h("li", {}, p.message))));
    }
    try {
      const body = { ...asked(), base: state.base };
      const found = await ask("offer", body);
      body.agreed = found.new;
      const rows = found.releases.map((one) => [one.name, one.epsilon, one.delta, one.refusal || w.states[one.state]]);
      fill(costs, table([w.name, w.epsilon, w.delta, w.state], rows, w.costs),
        h("p", {}, h("strong", {}, w.sum(found.new.length, found.amount, found.protects))),
        h("button", { type: "button", class: "primary", id: "release", onclick: () => (found.new.length ? confirm(found, body) : run(body)) }, w.button(found.new.length, found.amount)));
    } catch (error) {
      fill(costs, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  // What was agreed to is what is sent: the plan as it was when the costs were asked for.
  function confirm(found, body) {
    const yes = h("button", { type: "button", class: "primary", disabled: true, onclick: () => {
      dialog.close();
      run(body);
    } }, w.yes);
    setTimeout(() => (yes.disabled = false), 400); // a second click or Enter that was meant for Release is no yes
    const dialog = h("dialog", { "aria-labelledby": "sure" }, h("h3", { id: "sure", tabindex: "-1", autofocus: true }, w.sure),
      h("p", {}, w.sureText(found.new.length, found.amount, found.ledger)),
      h("ul", {}, found.new.map((name) => h("li", {}, name))),
      h("div", { class: "row" }, yes, h("button", { type: "button", onclick: () => dialog.close() }, w.no)));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  async function run(body) {
    fill(results);
    for (const button of costs.querySelectorAll("button")) button.disabled = true;
    try {
      const job = await ask("release", body);
      state.job = job.id;
      keep();
      await follow(job);
    } catch (error) {
      fill(work, h("p", { class: "problem", role: "alert" }, error.message));
      for (const button of costs.querySelectorAll("button")) button.disabled = false;
    }
  }

  async function follow(job) {
    let failures = 0;
    const line = h("p", { role: "status" });
    const bar = h("progress", { "aria-label": words.steps.release });
    const stop = h("button", { type: "button", onclick: () => ask("cancel", { id: job.id }).catch(() => {}) }, w.cancel);
    if (["checking", "running"].includes(job.state)) fill(work, h("div", { class: "sheet" }, line, bar, stop));
    while (["checking", "running"].includes(job.state)) {
      const { release, number, count } = job.progress;
      line.textContent = number ? w.running(number, count, release) : w.checking;
      if (number) {
        bar.max = count;
        bar.value = number - 1;
      }
      await wait(150);
      try {
        job = await ask("job", { id: job.id });
        failures = 0;
      } catch (error) {
        failures += 1;
        if (failures > 3 || error.kind !== "offline") throw error;
        await wait(500);
      }
      if (!work.isConnected) return;
    }
    if (job.base) state.base = job.base; // the plan was written down: what follows builds on it
    keep();
    show(job);
    await offer();
    if (job.state === "done") results.querySelector("h3")?.focus();
  }

  function show(job) {
    if (job.state !== "done") {
      const said = job.state === "cancelled" ? w.cancelled : w.failed;
      return fill(work, h("div", { class: "sheet" }, h("p", { class: job.state === "failed" ? "problem" : "", role: "alert" }, h("strong", {}, said), " ", job.message)));
    }
    const paid = job.fresh.length ? w.fresh(job.fresh.join(", ")) : w.again;
    fill(work);
    const save = async (form, release) => {
      try {
        const file = await ask("download", { id: job.id, form, release });
        download(file.name, file.type, file.text);
        wrong.textContent = "";
      } catch (error) {
        wrong.textContent = error.message;
      }
    };
    const wrong = h("p", { class: "problem", role: "alert" });
    const lost = Object.entries(job.lost);
    fill(results,
      h("section", { class: "sheet good-sheet" }, h("h3", { tabindex: "-1" }, w.done), h("p", {}, paid, " ", w.left(job.remaining)), h("p", { class: "help" }, job.guarantee),
        h("h4", {}, w.downloads),
        h("div", { class: "row" }, Object.entries(w.forms).map(([form, label]) => h("button", { type: "button", onclick: () => save(form) }, label)),
          job.rows.map((name) => h("button", { type: "button", onclick: () => save("rows", name) }, w.rows(name)))), wrong),
      job.sheets.map((sheet) => parts(sheet.html)),
      lost.length ? h("section", { class: "sheet" }, h("h3", {}, w.lost), h("ul", {}, lost.map(([name, why]) => h("li", {}, `${name}: ${why}`)))) : null);
  }

  async function resume() {
    if (!state.job) return;
    try {
      const job = await ask("job", { id: state.job });
      if (["checking", "running"].includes(job.state)) await follow(job);
      else show(job);
    } catch {
      state.job = null; // another server: what was stored is in the ledger
      keep();
    }
  }

  offer().then(resume);
  return [h("p", { class: "lead" }, w.lead), costs, work, results];
}
