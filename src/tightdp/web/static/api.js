// Questions to the server. The token came behind the # of the address and is kept for this tab.

import { words } from "./words.js";

const KEPT = "tightdp-token";

export function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem(KEPT, found);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEPT);
}

export class Refused extends Error {
  constructor(message, status, kind) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

export async function ask(act, body = {}) {
  let found;
  try {
    found = await fetch(`/api/${act}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-tightdp": sessionStorage.getItem(KEPT) || "" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refused(words.offline, 0, "offline");
  }
  let said = {};
  try {
    said = await found.json();
  } catch {
    throw new Refused(words.offline, found.status, "offline");
  }
  if (!found.ok) {
    const locked = said.kind === "password" ? words.askPassword : words.noToken;
    throw new Refused(found.status === 401 ? locked : said.error, found.status, said.kind);
  };
  return said;
}

export async function login(password) {
  const found = await fetch("/api/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ password }),
  });
  const said = await found.json();
  if (!found.ok) throw new Refused(said.error, found.status, "");
  sessionStorage.setItem(KEPT, said.token);
}
