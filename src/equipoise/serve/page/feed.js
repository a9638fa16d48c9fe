/** What happened, newest first: the last 500 events. */

import { on, put } from "./board.js";
import { at, el, fill } from "./dom.js";
import { count, second } from "./format.js";
import { layout } from "./gantt.js";

const KEPT = 500;
/** Events name jobs by their ids; what people call them is in the event that submitted them. */
const names = new Map();
const feed = at("feed");
const choice = at("feed-kind");

const KINDS = ["submitted", "decided", "finished", "cancelled", "machine", "tick", "prices", "progress"];
fill(choice, el("option", { value: "" }, "all kinds"), KINDS.map((kind) => el("option", { value: kind }, kind)));

const unwanted = (kind) => Boolean(choice.value) && kind !== choice.value;

/** Whom an event is about, once that is known. @param {HTMLElement} whose */
function nameIt(whose) {
  const { job } = whose.dataset;
  const name = names.get(job) || layout().byJob.get(job)?.[0].name;
  if (job && name) whose.textContent = `${name} · `;
}
on("schedule", () => feed.querySelectorAll(".whose:empty").forEach(nameIt));

/** One event as a line; where it is about a job, that opens it. */
function line(event) {
  const when = el("time", { datetime: event.at }, second(event.at));
  const text = event.text || `${event.kind} ${event.job}`;
  const told = event.job
    ? el("button", { type: "button", class: "told", on: { click: () => put("open-job", event.job) } }, text)
    : el("span", { class: "told" }, text);
  if (event.kind === "submitted") names.set(event.job, event.data?.name ?? "");
  const whose = el("span", { class: "whose", "data-job": event.kind === "submitted" ? "" : event.job });
  nameIt(whose);
  return el("li", {
    class: "event", "data-kind": event.kind, "data-state": event.data?.state, hidden: unwanted(event.kind),
  }, el("i", { "aria-hidden": "true" }), el("div", {}, told, el("small", {}, whose, `slot ${count(event.slot)} · `, when)));
}

on("events", (events) => {
  const lines = events.slice(-KEPT).map(line).reverse();
  const far = feed.scrollTop > 4;
  const before = feed.scrollHeight;
  feed.prepend(...lines);
  while (feed.children.length > KEPT) feed.lastChild.remove();
  for (const id of names.keys()) if (names.size > 2 * KEPT) names.delete(id);
  if (far) feed.scrollTop += feed.scrollHeight - before; // whoever reads on is not pushed away
});

choice.addEventListener("change", () => {
  for (const item of feed.children) item.hidden = unwanted(item.dataset.kind);
});
