/** A new job: checked first (a dry run, stored nowhere), its answer shown, then submitted once and only once. */

import { api } from "./api.js";
import { board, may, on, put } from "./board.js";
import { note, openDrawer } from "./dialogs.js";
import { at, el, field, fill, say } from "./dom.js";
import { answerOf } from "./job.js";
import { layout, marked, redraw, reveal } from "./gantt.js";

const drawer = at("new-job");
const form = at("job-form");
const submit = at("submit-job");

const NUMBERS = new Set(["workers", "work", "batch", "most", "value"]);
const FIELDS = {
  short: ["workers", "duration", "value", "deadline"],
  long: ["work", "batch", "time_per_sample", "gradient", "most", "value", "deadline"],
};
const USUAL = { gpu: "1", cpu: "4", memory: "16Gi" };

/** The job that was checked last, and the key under which it is submitted however often the button is pressed. */
let checked = null;

const key = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

/** A number where the field wants one and has one; else the text, for the server to judge. */
const read = (name, text) => (NUMBERS.has(name) && text !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

/** The form as the API reads it. */
function jobOf(given) {
  const kind = given.get("form");
  const text = (name) => String(given.get(name) ?? "").trim();
  if (kind === "json") return JSON.parse(text("json"));
  const job = { name: text("name"), worker: {} };
  for (const resource of board.cluster?.resources ?? []) {
    const needs = text(`worker ${resource}`);
    if (needs) job.worker[resource] = Number.isFinite(Number(needs)) ? Number(needs) : needs;
  }
  for (const name of FIELDS[kind]) if (text(name)) job[name] = read(name, text(name));
  return job;
}

function showForm() {
  const kind = new FormData(form).get("form");
  for (const part of form.querySelectorAll("[data-form]")) part.hidden = !part.dataset.form.split(" ").includes(kind);
  form.elements.name.closest("label").hidden = kind === "json";
  if (kind === "json" && !form.elements.json.value) {
    const given = new FormData(form);
    given.set("form", "short");
    form.elements.json.value = JSON.stringify(jobOf(given), null, 2);
  }
}

/** A change makes the answer one about another job. */
function forget() {
  checked = null;
  submit.hidden = true;
  marked.ghost = [];
  redraw();
}

function refuse(message) {
  forget();
  fill(at("job-answer"), el("p", { class: "error" }, message));
}

form.addEventListener("input", (event) => {
  if (event.target.name === "form") showForm();
  if (checked) fill(at("job-answer"), el("p", { class: "soft" }, "Changed since it was checked."));
  forget();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  let job;
  try {
    job = jobOf(new FormData(form));
  } catch (error) {
    refuse(`This is not JSON: ${error.message}`);
    return;
  }
  at("check-job").setAttribute("aria-busy", "true");
  try {
    const [answer, forecast] = await Promise.all([api.check(job), api.forecast(job).catch(() => null)]);
    checked = { job, key: key() };
    marked.ghost = answer.cells ?? [];
    fill(at("job-answer"), el("h3", {}, "If submitted now"), answerOf(answer),
      forecast?.text ? el("p", { class: "soft" }, forecast.text) : null,
      ...(answer.explain?.text ?? "").split("\n").slice(1).map((line) => el("p", { class: "soft" }, line)));
    say(submit, answer.state === "refused" ? "Submit all the same" : "Submit");
    submit.hidden = !may("submit");
    submit.focus();
    redraw();
  } catch (error) {
    refuse(error.message);
  } finally {
    at("check-job").removeAttribute("aria-busy");
  }
});

submit.addEventListener("click", async () => {
  if (!checked || submit.disabled) return;
  submit.disabled = true;
  try {
    const job = await api.submit(checked.job, checked.key);
    note(`${job.name} is ${job.state}.`);
    fill(at("job-answer"));
    forget();
    drawer.close();
    put("submitted-here", job);
  } catch (error) {
    // The key stays: pressed again, the same job is not submitted twice.
    fill(at("job-answer"), el("p", { class: "error" }, error.message));
  } finally {
    submit.disabled = false;
  }
});

/** Opens the form. */
export function newJob() {
  if (!may("submit")) return;
  openDrawer(drawer);
  form.elements.name.focus();
}
at("new-job-button").addEventListener("click", newJob);
drawer.addEventListener("close", forget);

on("cluster", ({ resources }) => {
  const host = at("worker-fields");
  if (host.dataset.resources === String(resources)) return;
  host.dataset.resources = String(resources);
  fill(host, resources.map((r) => field(r, { name: `worker ${r}`, value: USUAL[r] ?? "" })));
});
on("me", () => { at("new-job-button").hidden = !may("submit"); });

/** Once its bars are there, they are brought into sight. */
let awaited = "";
on("submitted-here", (job) => { awaited = job.id; });
on("schedule", () => {
  const bars = layout().byJob.get(awaited);
  if (!bars) return;
  awaited = "";
  reveal(bars[0]);
});
showForm();
