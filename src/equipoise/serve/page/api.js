/** Talking to the server: JSON in and out, errors in its own words, and a call for help when it wants a login. */

/** What the server refused, in one line of its own. */
export class Refusal extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let onLogin = () => {};

/** @param {() => void} ask called whenever the server answers 401 */
export function whenLoginIsNeeded(ask) {
  onLogin = ask;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, headers?: Object<string, string>, signal?: AbortSignal}} [more]
 */
async function call(method, path, { body, headers = {}, signal } = {}) {
  const sent = { Accept: "application/json", ...headers };
  if (method !== "GET") sent["X-Equipoise"] = "page";
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method, headers: sent, signal, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer. Is it running?");
  }
  const text = await answer.text();
  let content = null;
  try { content = text ? JSON.parse(text) : null; } catch { /* not JSON: the status says enough */ }
  if (answer.ok) return content;
  if (answer.status === 401 && path !== "/v1/login") onLogin();
  throw new Refusal(answer.status, errorWords(content) ?? `The server answered ${answer.status} to ${method} ${path}.`);
}

/** The server's one line, whichever of its two forms it has. */
function errorWords(content) {
  if (typeof content?.error === "string") return content.error;
  const first = Array.isArray(content?.detail) ? content.detail[0] : null;
  return first ? `${(first.loc ?? []).slice(1).join(".")}: ${first.msg}` : content?.detail ?? null;
}

const query = (values) => {
  const kept = Object.entries(values).filter(([, v]) => v !== "" && v !== null && v !== undefined);
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
};
const one = encodeURIComponent;

export const api = {
  me: () => call("GET", "/v1/me"),
  login: (token) => call("POST", "/v1/login", { body: { token } }),
  logout: () => call("POST", "/v1/logout"),
  status: () => call("GET", "/v1/status"),
  cluster: () => call("GET", "/v1/cluster"),
  schedule: (first, last) => call("GET", `/v1/schedule${query({ first, last })}`),
  prices: (resource) => call("GET", `/v1/prices${query({ resource })}`),
  certificate: () => call("GET", "/v1/certificate"),
  log: (after, limit) => call("GET", `/v1/log${query({ after, limit })}`),
  jobs: (filter, signal) => call("GET", `/v1/jobs${query(filter)}`, { signal }),
  job: (id) => call("GET", `/v1/jobs/${one(id)}`),
  explain: (id) => call("GET", `/v1/jobs/${one(id)}/explain`),
  history: (id) => call("GET", `/v1/jobs/${one(id)}/history`),
  cancel: (id) => call("DELETE", `/v1/jobs/${one(id)}`),
  check: (job) => call("POST", "/v1/jobs?dry_run=true&explain=true", { body: job }),
  forecast: (job) => call("POST", "/v1/forecast", { body: job }),
  submit: (job, key) => call("POST", "/v1/jobs", { body: job, headers: { "Idempotency-Key": key } }),
  machine: (name, what) => call("POST", `/v1/machines/${one(name)}/${what}`),
  addMachines: (machine) => call("POST", "/v1/machines", { body: machine }),
  advance: (slots) => call("POST", "/v1/clock", { body: { advance: slots } }),
};
