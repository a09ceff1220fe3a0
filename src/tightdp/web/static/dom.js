// Elements from code. Texts are set as text; what the server renders passes a list of what is allowed.

export function h(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (["value", "checked", "disabled", "selected"].includes(name)) made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function fill(place, ...children) {
  place.replaceChildren(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
}

const TAGS = new Set(
  ("div span p b small strong em code h2 h3 h4 section table caption thead tbody tr th td details summary br " +
    "svg g rect line polygon polyline circle path text title ul li").split(" "),
);
const ATTRIBUTES = new Set(
  ("class role tabindex scope colspan rowspan width height x y x1 y1 x2 y2 cx cy r rx ry d points fill " +
    "stroke stroke-width stroke-linecap stroke-dasharray opacity transform text-anchor font-size font-weight " +
    "font-family viewBox preserveAspectRatio dx dy open").split(" "),
);

// The tables and pictures of reports, which the server makes and escapes: copied tag by tag.
export function parts(html) {
  const read = new DOMParser().parseFromString(html, "text/html");
  const kept = document.createDocumentFragment();
  for (const node of read.body.childNodes) kept.append(copied(node));
  return kept;
}

function copied(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE || !TAGS.has(node.localName)) return document.createDocumentFragment();
  const made = document.createElementNS(node.namespaceURI, node.localName);
  for (const { name, value } of node.attributes) {
    if (ATTRIBUTES.has(name) || name.startsWith("aria-")) made.setAttribute(name, value);
  }
  for (const child of node.childNodes) made.append(copied(child));
  return made;
}

let count = 0;
export const fresh = (stem) => `${stem}-${(count += 1)}`;

// A label with its control, help and the problems that belong to a key of the plan.
export function field(label, control, { help, place, kind = "" } = {}) {
  const id = control.id || fresh("field");
  control.id = id;
  const said = [];
  const parts = [h("label", { for: id }, label), control];
  if (help) {
    const about = h("span", { class: "help", id: `${id}-help` }, help);
    said.push(about.id);
    parts.push(about);
  }
  if (place) {
    const problem = problemsAt(place);
    problem.id = `${id}-problem`;
    said.push(problem.id);
    parts.push(problem);
  }
  if (said.length) control.setAttribute("aria-describedby", said.join(" "));
  return h("div", { class: `field ${kind}` }, parts);
}

export const problemsAt = (place) =>
  h("span", { class: "problem", "data-place": JSON.stringify(place), role: "status" });

export function select(options, value, onchange, more = {}) {
  return h(
    "select",
    { onchange: (event) => onchange(event.target.value), ...more },
    options.map(([key, label]) => h("option", { value: key, selected: key === value }, label)),
  );
}

export function checkbox(label, checked, onchange, more = {}) {
  const id = fresh("check");
  return h(
    "div",
    { class: "check" },
    h("input", { type: "checkbox", id, checked, onchange: (event) => onchange(event.target.checked), ...more }),
    h("label", { for: id }, label),
  );
}

export function table(head, rows, caption) {
  return h(
    "div",
    { class: "tdp-scroll tdp-left", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => (i ? h("td", {}, cell) : h("th", { scope: "row" }, cell)))))),
    ),
  );
}

export function download(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
