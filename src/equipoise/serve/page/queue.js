/** The table of jobs. */

import { board, on, put } from "./board.js";
import { at, atMostEvery, chip, el, fill, meter, say } from "./dom.js";
import { count, endWords, many, OVER, percent, reasonWords, short, slotWords, STATES, STATE_WORDS } from "./format.js";
import { JobsList } from "./jobs_list.js";
import { virtualRows } from "./rows.js";

const ROW = 36; // px, as in the style sheet
const HEADING = 28; // px
const scroller = at("jobs");

const COLUMNS = ["name", "state", "why", "tenant", "submitted", "start", "end", "done", "worth", "cost"];

function make() {
  const cells = Object.fromEntries(COLUMNS.map((name) => [name, el("span", { class: `cell ${name}`, role: "gridcell" })]));
  const row = el("div", { class: "row", role: "row", tabindex: "-1" }, Object.values(cells));
  row.cells = cells;
  return row;
}

/** How far a job is, 0 to 1; null of those that will never be done. */
function shareDone(job) {
  if (job.state === "finished") return 1;
  return OVER.has(job.state) || !(job.work > 0) ? null : Math.min(1, (job.done ?? 0) / job.work);
}

function show(row, index) {
  const job = list.jobs[index];
  if (!job || (row.job === job && row.turn === board.cluster?.now)) return;
  row.job = job;
  row.turn = board.cluster?.now;
  row.dataset.job = job.id;
  const { cells } = row;
  fill(cells.name, el("b", {}, job.name || job.id), el("small", {}, job.id));
  fill(cells.state, chip(job.state));
  cells.state.title = STATE_WORDS[job.state] ?? "";
  say(cells.why, job.reason ? reasonWords(job.reason) : job.why ?? "");
  cells.why.title = job.why ?? "";
  say(cells.tenant, job.tenant || "default");
  say(cells.submitted, count(job.submitted));
  say(cells.start, slotOr(job.start));
  say(cells.end, slotOr(job.finish ?? job.end));
  const done = shareDone(job);
  fill(cells.done, done === null ? "–" : [meter(done, job.state), percent(done)]);
  say(cells.worth, short(job.worth));
  say(cells.cost, short(job.cost));
  const end = endWords(board.cluster, job.finish ?? job.end);
  row.setAttribute("aria-label", `${job.name || job.id}, ${job.state}, ends ${end}`);
}

const slotOr = (slot) => (slot === null || slot === undefined ? "–" : count(slot));

const list = new JobsList(() => draw());
const rows = virtualRows(scroller, {
  height: ROW, make, show,
  seen: (first, last) => {
    list.renew(first, last);
    if (last > list.jobs.length - 60) list.more().catch((error) => put("trouble", error.message));
  },
});

/** The job at the top of what is in sight stays there when others come or go above it. */
let top = { id: "", place: 0 };
function holdStill() {
  const by = (list.places.get(top.id) ?? top.place) - top.place;
  if (by !== 0 && scroller.scrollTop > ROW / 2) scroller.scrollTop += by * ROW;
}
function noteTop() {
  const place = Math.floor(scroller.scrollTop / ROW);
  top = { id: list.jobs[place]?.id ?? "", place };
}
scroller.addEventListener("scroll", noteTop, { passive: true });

function draw() {
  rows.size(list.jobs.length);
  holdStill();
  noteTop();
  scroller.setAttribute("aria-rowcount", String(list.whole ? list.jobs.length + 1 : -1));
  const empty = at("jobs-empty");
  empty.hidden = list.jobs.length > 0 || list.loading || list.stuck;
  const { state, name } = list.filter;
  say(empty, state || name ? "No job is like this." : "No jobs yet. Press N to submit the first.");
  const all = Object.entries(board.status?.jobs ?? {}).reduce((sum, [s, n]) => (state && s !== state ? sum : sum + n), 0);
  say(at("jobs-count"), name || list.whole ? `${many(list.jobs.length, "job")}${list.whole ? "" : " so far"}`
    : `${count(list.jobs.length)} of ${many(Math.max(all, list.jobs.length), "job")} loaded`);
}

const filterChips = at("state-filter");
fill(filterChips, ["", ...STATES].map((state) => el("button", {
  type: "button", class: "filter", "data-state": state, "aria-pressed": String(state === ""),
  on: { click: () => choose(state) },
}, el("span", {}, state || "all"), el("b", {}))));

/** Show the jobs in one state only; "" for all. @param {string} state */
export function choose(state) {
  for (const button of filterChips.children) button.setAttribute("aria-pressed", String(button.dataset.state === state));
  restart({ ...list.filter, state });
}

function restart(filter) {
  scroller.scrollTop = 0;
  list.reset(filter).catch((error) => error.status !== 401 && put("trouble", error.message));
}

let typing = 0;
at("job-search").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => restart({ ...list.filter, name: event.target.value.trim() }), 200);
});

scroller.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row?.job) put("open-job", row.job.id);
});

/** The grid is one stop of the Tab key; arrows move from row to row, Enter opens. */
scroller.addEventListener("keydown", (event) => {
  const from = Number(document.activeElement?.closest(".row")?.dataset.index ?? -1);
  const page = Math.floor(scroller.clientHeight / ROW) - 1;
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (by !== undefined) focusRow(from < 0 ? Math.floor(scroller.scrollTop / ROW) : from + by);
  else if (event.key === "Enter" && from >= 0) put("open-job", list.jobs[from].id);
  else return;
  event.preventDefault();
});

function focusRow(wanted) {
  const index = Math.max(0, Math.min(list.jobs.length - 1, wanted));
  const room = scroller.clientHeight - HEADING - ROW;
  scroller.scrollTop = Math.min(index * ROW, Math.max(scroller.scrollTop, index * ROW - room));
  rows.now();
  scroller.querySelector(`.row[data-index="${index}"]:not([hidden])`)?.focus({ preventScroll: true });
}

const newest = atMostEvery(500, () => list.newest().catch(() => {}));
on("events", (events) => {
  const named = new Set(events.map((e) => e.job).filter(Boolean));
  list.mark(named);
  const worked = events.some((e) => e.kind === "tick") ? list.jobs.filter((job) => !OVER.has(job.state)) : [];
  list.mark(worked.map((job) => job.id));
  if (events.some((e) => e.kind === "submitted") || (list.filter.state && named.size)) newest();
  rows.draw();
});
on("status", (status) => {
  const all = Object.values(status.jobs).reduce((sum, n) => sum + n, 0);
  for (const button of filterChips.children) {
    const { state } = button.dataset;
    say(button.lastChild, count(state ? status.jobs[state] ?? 0 : all));
  }
  draw();
});
on("me", () => restart(list.filter));
on("gap", () => restart(list.filter));
on("connection", (kind) => {
  if (kind === "live" && list.stuck) restart(list.filter);
});
on("cluster", rows.draw);
