/** Hands on the schedule: point, click, drag, wheel, pinch and keys. */

import { board, put } from "./board.js";
import { gutter, scaleOf } from "./canvas.js";
import { at, say } from "./dom.js";
import { endWords, many, percent, slotWords, STATE_WORDS } from "./format.js";
import { canvas, colourByJob, fullness, layout, marked, placeOf, redraw, reveal, setRows, under } from "./gantt.js";
import { refresh } from "./live.js";
import { timeline } from "./timeline.js";
import { hideTip, showTip } from "./tip.js";

const view = at("gantt-view");

/** What is to say of a bar. @returns {[string, string[]]} */
function words(bar) {
  const machine = layout().machines[bar.machine];
  if (!bar.job) return ["Another tenant", [`${percent(bar.share)} of ${machine}`, `slots ${bar.first} to ${bar.last}`]];
  const many_machines = new Set((layout().byJob.get(bar.job) ?? []).map((b) => b.machine)).size;
  return [bar.name || bar.job, [
    `${bar.job} · ${bar.state}: ${STATE_WORDS[bar.state] ?? ""}`,
    `${slotWords(board.cluster, bar.first)} to ${endWords(board.cluster, bar.last)}`,
    `${most(bar)} on ${machine}`,
    many_machines > 1 ? `on ${many_machines} machines` : "",
  ].filter(Boolean)];
}

const most = (bar) => `${many(bar.workers, "worker")}${bar.servers ? `, ${many(bar.servers, "server")}` : ""}`;

function machineWords(machine) {
  const full = `${percent(fullness(machine))} of its fullest resource in use now`;
  return [machine.name, [machine.status, full]];
}

function point(event) {
  const { left, top } = view.getBoundingClientRect();
  const found = under(event.clientX - left, event.clientY - top);
  if (marked.hovered !== found.bar) {
    marked.hovered = found.bar;
    redraw();
  }
  view.classList.toggle("on-bar", Boolean(found.bar?.job));
  timeline.point(found.slot);
  const machine = board.cluster?.machines?.[found.row];
  if (found.bar) showTip(event.clientX, event.clientY, ...words(found.bar));
  else if (machine && found.slot === null) showTip(event.clientX, event.clientY, ...machineWords(machine));
  else hideTip();
}

function leave() {
  marked.hovered = null;
  timeline.point(null);
  hideTip();
  redraw();
}

/** Fingers and buttons that are down: id -> x. One drags, two pinch. */
const held = new Map();
let moved = 0;

view.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  held.set(event.pointerId, event.clientX);
  moved = 0;
});
view.addEventListener("pointermove", (event) => {
  const was = held.get(event.pointerId);
  if (was === undefined) {
    point(event);
    return;
  }
  const { perSlot, slot } = scaleOf(view.clientWidth);
  const by = event.clientX - was;
  moved += Math.abs(by);
  if (moved > 4 && !view.hasPointerCapture(event.pointerId)) view.setPointerCapture(event.pointerId);
  if (held.size === 2) {
    const other = [...held].find(([id]) => id !== event.pointerId)[1];
    const about = slot(other - view.getBoundingClientRect().left);
    timeline.zoom(Math.abs(was - other) / Math.max(20, Math.abs(event.clientX - other)), about);
  } else if (moved > 4) {
    hideTip();
    timeline.pan(-by / perSlot);
  }
  held.set(event.pointerId, event.clientX);
});
for (const kind of ["pointerup", "pointercancel"]) {
  addEventListener(kind, (event) => held.delete(event.pointerId)); // also where it was let go outside
}
view.addEventListener("pointerleave", leave);
view.addEventListener("click", (event) => {
  if (moved > 4) return;
  const { left, top } = view.getBoundingClientRect();
  const { bar } = under(event.clientX - left, event.clientY - top);
  if (bar?.job) put("open-job", bar.job);
});

/** Sideways or with Shift: through time. With Ctrl (or a pinch on a trackpad): zoom. Else rows scroll as anywhere. */
view.addEventListener("wheel", (event) => {
  const { perSlot, slot } = scaleOf(view.clientWidth);
  const aside = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
  if (event.ctrlKey || event.metaKey) {
    timeline.zoom(Math.exp(event.deltaY / 300), slot(event.clientX - view.getBoundingClientRect().left));
  } else if (Math.abs(aside) > Math.abs(event.shiftKey ? 0 : event.deltaY)) timeline.pan(aside / perSlot);
  else return;
  event.preventDefault();
}, { passive: false });

/** The next bar of a row, or the nearest in another row. */
function step(key) {
  const { rows } = layout();
  const from = marked.cursor;
  if (!from) {
    const first = rows.findIndex((row) => row.some((b) => b.job && b.last >= timeline.from));
    return first < 0 ? null : rows[first].find((b) => b.job && b.last >= timeline.from);
  }
  const row = rows[from.machine].filter((b) => b.job);
  const place = row.indexOf(from);
  if (key === "ArrowRight") return row[place + 1] ?? from;
  if (key === "ArrowLeft") return row[place - 1] ?? from;
  const by = key === "ArrowDown" ? 1 : -1;
  const away = (b) => Math.abs((b.first + b.last) / 2 - (from.first + from.last) / 2);
  for (let k = from.machine + by; k >= 0 && k < rows.length; k += by) {
    const own = rows[k].filter((b) => b.job);
    if (own.length) return own.reduce((best, b) => (away(b) < away(best) ? b : best));
  }
  return from;
}

function showCursor() {
  const bar = marked.cursor;
  if (!bar) return;
  reveal(bar);
  const [title, lines] = words(bar);
  say(at("gantt-said"), [title, ...lines].join(", "));
  requestAnimationFrame(() => {
    const box = placeOf(bar);
    showTip(Math.min(box.right, innerWidth - 40) - 12, box.bottom - 8, title, lines);
  });
}

const KEYS = {
  "+": () => timeline.zoom(0.75), "=": () => timeline.zoom(0.75), "-": () => timeline.zoom(4 / 3),
  0: () => timeline.follow(), Home: () => timeline.follow(),
  PageDown: () => timeline.pan(timeline.span / 2), PageUp: () => timeline.pan(-timeline.span / 2),
  Enter: () => marked.cursor && put("open-job", marked.cursor.job),
};

canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith("Arrow")) {
    if (event.shiftKey) timeline.pan({ ArrowLeft: -1, ArrowRight: 1 }[event.key] * timeline.span / 8 || 0);
    else {
      marked.cursor = step(event.key);
      showCursor();
    }
  } else if (KEYS[event.key]) KEYS[event.key]();
  else if (event.key === "Escape" && marked.cursor) marked.cursor = null;
  else return;
  redraw();
  event.preventDefault();
});
canvas.addEventListener("blur", () => {
  marked.cursor = null;
  leave();
});

at("zoom-in").addEventListener("click", () => timeline.zoom(0.7, board.cluster?.now));
at("zoom-out").addEventListener("click", () => timeline.zoom(1 / 0.7, board.cluster?.now));
at("to-now").addEventListener("click", () => timeline.follow());
at("rows").addEventListener("change", (event) => setRows(event.target.value));
at("colours").addEventListener("change", (event) => colourByJob(event.target.value === "job"));

timeline.onChange(() => {
  at("to-now").setAttribute("aria-pressed", String(timeline.follows));
  if (!timeline.covered()) refresh();
});

/**
 * Points at the same slot from a chart below the schedule.
 * @param {HTMLElement} host
 * @param {(slot: number, event: PointerEvent) => void} told
 */
export function pointTogether(host, told) {
  host.addEventListener("pointermove", (event) => {
    const x = event.clientX - host.getBoundingClientRect().left;
    const slot = x < gutter() ? null : scaleOf(host.clientWidth).slot(x);
    timeline.point(slot);
    if (slot === null) hideTip();
    else told(slot, event);
  });
  host.addEventListener("pointerleave", leave);
}
