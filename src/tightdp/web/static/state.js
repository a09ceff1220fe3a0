// The plan, as the page holds it: the record of plan.toml. Nothing private is in it.

import { ask } from "./api.js";
import { words } from "./words.js";

const KEPT = "tightdp-plan";
export const state = {
  home: "", file: "plan.toml", base: null, plan: null, columns: null, kinds: [], folders: [], version: "",
  checked: { problems: [], releases: [], budget: null }, job: null,
};
const listeners = [];
let timer = 0;
let turn = 0;

export const onChecked = (act) => listeners.push(act);

export const emptyPlan = (file) => ({
  title: words.plan.fresh,
  data: {},
  schema: { neighbors: "replace-one", columns: {} },
  budget: { epsilon: 1, ledger: file.replace(/\.toml$/, "") + ".ledger", confidence: 0.95 },
  releases: [],
});

export function keep() {
  const { home, file, base, plan, columns, job } = state;
  sessionStorage.setItem(KEPT, JSON.stringify({ home, file, base, plan, columns, job }));
}

export function remembered() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT));
    return kept?.home === state.home ? kept : null; // another server was started for another plan
  } catch {
    return null;
  }
}

// The plan as it is sent: without what was left empty.
export function record() {
  const plan = structuredClone(state.plan);
  const dropEmpty = (table) => {
    for (const key of Object.keys(table)) {
      const value = table[key];
      const empty = value === "" || value === null || value === undefined || (Array.isArray(value) && !value.length);
      if (empty) delete table[key];
    }
  };
  dropEmpty(plan.data);
  dropEmpty(plan.schema);
  dropEmpty(plan.budget);
  for (const facts of Object.values(plan.schema.columns || {})) dropEmpty(facts);
  for (const release of plan.releases || []) dropEmpty(release);
  return plan;
}

export const asked = (more = {}) => ({ file: state.file, plan: record(), ...more });

export function changed(delay = 250) {
  keep();
  clearTimeout(timer);
  timer = setTimeout(check, delay);
}

export async function check() {
  clearTimeout(timer);
  const mine = (turn += 1);
  let found;
  try {
    found = await ask("check", asked());
  } catch (error) {
    found = { problems: [{ place: [], message: error.message }], releases: [], budget: null };
  }
  if (mine !== turn) return;
  state.checked = found;
  for (const act of listeners) act(found);
}

// Which step a problem belongs to.
export function stepOf(place) {
  const first = place[0];
  if (first === "data") return "data";
  if (first === "schema") return "facts";
  if (first === "releases") return "questions";
  return "errors";
}
