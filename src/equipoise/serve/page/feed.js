/** What happened, newest first: the last 500 events. */

import { on, put } from "./board.js";
import { at, el, fill } from "./dom.js";
import { count, second } from "./format.js";

const KEPT = 500;
const feed = at("feed");
const choice = at("feed-kind");

fill(choice, el("option", { value: "" }, "all kinds"), ["submitted", "decided", "finished", "cancelled", "machine", "tick", "prices", "progress"]
  .map((kind) => el("option", { value: kind }, kind)));

/** One event as a line; where it is about a job, that opens it. */
function line(event) {
  const when = el("time", { datetime: new Date(event.at * 1000).toISOString(), title: second(event.at) }, `slot ${count(event.slot)}`);
  const text = event.text || `${event.kind} ${event.name || event.job}`;
  const told = event.job
    ? el("button", { type: "button", class: "told", on: { click: () => put("open-job", event.job) } }, text)
    : el("span", { class: "told" }, text);
  const state = event.kind === "decided" ? event.data?.state ?? "" : "";
  return el("li", { "data-kind": event.kind, class: `event ${event.kind} ${state}`, hidden: Boolean(choice.value) && choice.value !== event.kind },
    el("i", { "aria-hidden": "true" }), el("div", {}, told, el("small", {}, event.kind, " · ", when, " · ", second(event.at))));
}

on("events", (events) => {
  const lines = events.slice(-KEPT).map(line).reverse();
  const far = feed.scrollTop > 4;
  const before = feed.scrollHeight;
  feed.prepend(...lines);
  while (feed.children.length > KEPT) feed.lastChild.remove();
  if (far) feed.scrollTop += feed.scrollHeight - before; // whoever reads on is not pushed away
});

choice.addEventListener("change", () => {
  for (const item of feed.children) item.hidden = Boolean(choice.value) && item.dataset.kind !== choice.value;
});
