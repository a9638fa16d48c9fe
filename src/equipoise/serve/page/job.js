/** The drawer of one job: what it is, why it is so, where it runs, and what happened to it. */

import { api } from "./api.js";
import { board, may, on } from "./board.js";
import { confirmed, facts, note, openDrawer, trying } from "./dialogs.js";
import { at, atMostEvery, chip, el, fill, meter } from "./dom.js";
import {
  amounts, count, many, OVER, percent, priceScale, reasonWords, second, short, slotWords, endWords, STATE_WORDS,
} from "./format.js";
import { layout, marked, redraw, reveal } from "./gantt.js";

const drawer = at("job");
let shown = "";

function head(job) {
  const whose = job.tenant ? `${job.id} · ${job.tenant}` : job.id;
  return el("div", { class: "drawer-head" },
    el("div", {}, el("h2", { id: "job-title" }, job.name || job.id), el("p", { class: "soft" }, whose)),
    el("button", { type: "button", id: "close-job", class: "icon close", "aria-label": "Close" }, "✕"));
}

/** What the planner answered about a job; the form shows the same of one on trial. */
export function answerOf(job) {
  const share = job.work > 0 ? Math.min(1, (job.done ?? 0) / job.work) : 0;
  return [
    el("p", { class: "verdict" }, chip(job.state), el("span", {}, job.reason ? reasonWords(job.reason) : STATE_WORDS[job.state])),
    job.why ? el("p", {}, job.why) : null,
    share > 0 ? el("p", { class: "progress" }, meter(share, job.state), `${percent(share)} done`) : null,
    facts([
      ["starts", job.start === null ? null : slotWords(board.cluster, job.start)],
      ["ends", job.end === null ? null : endWords(board.cluster, job.end)],
      ["finished", job.finish === null || job.finish === undefined ? null : slotWords(board.cluster, job.finish)],
      ["worth", short(job.worth)], ["costs", short(job.cost)],
      ["workers", job.workers ? `${count(job.workers)} at most` : null], ["each", amounts(job.worker)],
      ["machines", machinesOf(job)], ["submitted", job.id ? slotWords(board.cluster, job.submitted) : null],
    ]),
  ];
}

function machinesOf({ machines = [] }) {
  if (machines.length <= 8) return machines.join(", ");
  return `${machines.slice(0, 7).join(", ")} and ${count(machines.length - 7)} more`;
}

/** Prices of the slots it wanted, what they came to, and how full the cluster was. */
function pricesOf(explained) {
  if (!explained.prices?.length) return null;
  const rows = explained.prices.map(({ resource, price, cost, full }) => {
    const { by, per } = priceScale(resource);
    const cells = [`${short(price * by, 3)} / ${per}`, short(cost, 3), percent(full)].map((text) => el("td", {}, text));
    return el("tr", {}, el("th", { scope: "row" }, resource), cells);
  });
  const heads = ["resource", "price", "cost", "full"].map((word) => el("th", { scope: "col" }, word));
  return el("details", {}, el("summary", {}, "Prices of that moment"),
    el("table", { class: "small-table" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)));
}

const part = (title, ...content) => el("section", { class: "part" }, el("h3", {}, title), ...content);

function historyOf(events) {
  const line = (e) => el("li", { class: "event", "data-kind": e.kind, "data-state": e.data?.state },
    el("i", { "aria-hidden": "true" }), el("div", {}, e.text || e.kind, el("small", {}, `slot ${count(e.slot)} · ${second(e.at)}`)));
  return el("ol", { class: "history" }, events.map(line));
}

function actsOf(job) {
  const bars = layout().byJob.get(job.id);
  const button = (id, words, click, kind = "") => el("button", { type: "button", id, class: kind, on: { click } }, words);
  return el("div", { class: "buttons" },
    bars && button("show-job", "Show in the schedule", () => showBar(bars[0])),
    may("submit") && !OVER.has(job.state) && button("cancel-job", "Cancel job", () => cancel(job), "danger"));
}

function showBar(bar) {
  if (drawer.matches(":modal")) drawer.close(); // it covers all of a narrow screen
  marked.job = bar.job;
  at("schedule-panel").scrollIntoView({ block: "start" });
  reveal(bar);
}

async function cancel(job) {
  const meaning = "Its room is given to others; work that is not saved is lost.";
  if (!(await confirmed(`Cancel ${job.name || job.id}?`, meaning, "Cancel the job"))) return;
  if (await trying(() => api.cancel(job.id))) {
    note(`${job.name || job.id} was cancelled.`);
    load(job.id);
  }
}

/** Asks for all of a job at once; a part that is not to be had is left out. */
async function load(id) {
  const [job, explained, history] = await Promise.all([
    trying(() => api.job(id)), api.explain(id).catch(() => null), api.history(id).catch(() => null),
  ]);
  if (shown !== id) return;
  if (!job) {
    drawer.close();
    return;
  }
  const { scrollTop } = drawer;
  const focused = drawer.contains(document.activeElement) ? document.activeElement.id : null;
  const opened = drawer.querySelector("details")?.open;
  fill(drawer, head(job), answerOf(job), actsOf(job),
    explained && part("Explained", el("p", { class: "explained" }, explained.text), pricesOf(explained)),
    history?.events?.length ? part(`History, ${many(history.events.length, "event")}`, historyOf(history.events)) : null);
  if (opened) drawer.querySelector("details")?.setAttribute("open", "");
  drawer.scrollTop = scrollTop;
  if (focused !== null) (at(focused) ?? at("close-job")).focus();
}

/** @param {string} id */
export function openJob(id) {
  shown = id;
  marked.job = id;
  fill(drawer, head({ name: layout().byJob.get(id)?.[0].name, id }));
  openDrawer(drawer);
  at("close-job").focus();
  redraw();
  load(id);
}

drawer.addEventListener("close", () => {
  shown = "";
  marked.job = "";
  redraw();
});

const again = atMostEvery(1000, () => shown && drawer.open && load(shown));
on("open-job", openJob);
on("events", (events) => {
  if (shown && events.some((e) => e.job === shown || e.kind === "tick")) again();
});
