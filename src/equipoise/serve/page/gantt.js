/** The schedule: a row per machine, a bar per job. Only the rows and slots in sight are drawn. */

import { layBars, shadeOf } from "./bars.js";
import { board, on } from "./board.js";
import { AXIS, drawGrid, drawNow, fitted, FONT, gutter, inkOn, mix, palette, scaleOf, surface } from "./canvas.js";
import { at } from "./dom.js";
import { timeline } from "./timeline.js";

const SHADES = 6; // of a state's colour, so that neighbours can be told apart
/** Least px of a row; "fitting" rows grow until the machines fill the panel. */
const ROWS = { fine: 10, fitting: 26, tall: 56 };
const TALLEST = 72; // px

const scroller = at("gantt");
const view = at("gantt-view");
const spacer = at("gantt-space");

let laid = layBars({ machines: [], bars: [] });
let colours = {};
let size = "fitting";
let rowHeight = ROWS.fitting;
let byJob = false;

/** What the reader points at, has chosen, and is thinking of submitting. */
export const marked = { hovered: null, cursor: null, job: "", ghost: [] };

const shadesOf = (base) => Array.from({ length: SHADES }, (_, k) => {
  const fill = mix(base, palette.paper, 0.065 * k);
  return { fill, ink: inkOn(fill) };
});

function readColours() {
  for (const state of ["admitted", "lent", "pending", "refused", "finished", "cancelled", "other"]) {
    colours[state] = shadesOf(palette[`bar-${state}`]);
  }
}

function colourOf(bar) {
  if (byJob && bar.job) {
    const k = shadeOf(bar.job, 3600);
    const hue = Math.round(k * 137.508) % 360; // the golden angle: far apart, as in the reports
    return { fill: `hsl(${hue}, ${k % 3 === 0 ? 40 : 52}%, ${56 + 7 * (k % 2)}%)`, ink: "#0f141b" };
  }
  const shades = colours[bar.state] ?? colours.other;
  return shades[shadeOf(bar.job, SHADES)];
}

/** Where a part of a bar lies, in pixels of the canvas. */
function boxOf(bar, part, scale) {
  const inner = rowHeight - (rowHeight > 14 ? 4 : 1);
  const base = AXIS + (bar.machine + 1) * rowHeight - scroller.scrollTop - (rowHeight - inner) / 2;
  const tall = Math.min(1, bar.share) * inner;
  const left = Math.max(scale.left, scale.x(part.first));
  const right = scale.x(part.last + 1);
  return {
    x: left, y: base - Math.min(1, part.bottom) * inner - tall,
    w: Math.max(1, right - left - (scale.perSlot > 4 ? 1 : 0)), h: Math.max(1, tall - (tall > 3 ? 1 : 0)),
  };
}

const hatch = (pen, x, y, w, h) => {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.beginPath();
  for (let k = -h; k < w; k += 6) {
    pen.moveTo(x + k, y + h);
    pen.lineTo(x + k + h, y);
  }
  pen.stroke();
  pen.restore();
};

function drawPart(pen, bar, part, scale, faded) {
  const { x, y, w, h } = boxOf(bar, part, scale);
  const { fill, ink } = colourOf(bar);
  pen.globalAlpha = faded ? 0.62 : bar.state === "finished" ? 0.75 : 1;
  pen.fillStyle = fill;
  if (w > 5 && h > 5) {
    pen.beginPath();
    pen.roundRect(x, y, w, h, 2.5);
    pen.fill();
  } else pen.fillRect(x, y, w, h);
  if (bar.state === "lent" && h > 6 && w > 6) {
    pen.strokeStyle = "#ffffff38";
    pen.lineWidth = 1;
    hatch(pen, x, y, w, h);
  }
  if (h >= 11 && w > 26 && bar.job) {
    const text = fitted(pen, bar.name, w - 9);
    if (text.length > 2) {
      pen.fillStyle = ink;
      pen.fillText(text, x + 5, y + h / 2 + 0.5);
    }
  }
  pen.globalAlpha = 1;
}

function outline(pen, bars, scale, colour, dash = []) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.setLineDash(dash);
  for (const bar of bars) {
    for (const part of bar.parts) {
      const { x, y, w, h } = boxOf(bar, part, scale);
      if (x + w <= scale.left) continue;
      pen.beginPath();
      pen.roundRect(x + 0.25, y + 0.25, Math.max(1, w - 0.5), Math.max(1, h - 0.5), 3);
      pen.stroke();
    }
  }
  pen.setLineDash([]);
}

/** A job on trial: dashed outlines of where it would run, a stretch of slots each. */
function ghostBars() {
  const row = new Map(laid.machines.map((name, k) => [name, k]));
  const stretches = new Map();
  for (const [slot, name] of marked.ghost.toSorted((a, b) => a[0] - b[0])) {
    const parts = stretches.get(name) ?? [];
    if (parts.at(-1)?.last === slot - 1) parts.at(-1).last = slot;
    else parts.push({ first: slot, last: slot, bottom: 0 });
    stretches.set(name, parts);
  }
  return [...stretches].filter(([name]) => row.has(name)).map(([name, parts]) => ({ machine: row.get(name), share: 1, parts }));
}

function drawRows(pen, width, height, scale, [top, end]) {
  const machines = board.cluster?.machines ?? [];
  for (let k = top; k < end; k++) {
    const y = AXIS + k * rowHeight - scroller.scrollTop;
    const status = machines[k]?.status;
    if (status === "down" || status === "draining") {
      const from = Math.max(scale.left, scale.x(board.cluster.now));
      pen.fillStyle = palette[status === "down" ? "down-wash" : "drain-wash"];
      pen.fillRect(from, y, width - from, rowHeight);
      pen.strokeStyle = palette[status === "down" ? "bad" : "warn"];
      pen.globalAlpha = 0.28;
      pen.lineWidth = 1;
      hatch(pen, from, y, width - from, rowHeight);
      pen.globalAlpha = 1;
    }
    if (rowHeight > 14) {
      pen.fillStyle = palette.rule;
      pen.fillRect(scale.left, Math.round(y + rowHeight) - 1, width - scale.left, 1);
    }
  }
}

/** Names at the left, each over a thin line of how full it is in this slot. */
function drawNames(pen, height, scale, [top, end]) {
  const machines = board.cluster?.machines ?? [];
  pen.fillStyle = palette.paper;
  pen.fillRect(0, 0, scale.left, height);
  pen.textAlign = "left";
  const every = Math.max(1, Math.ceil(13 / rowHeight));
  for (let k = top; k < end; k++) {
    const y = AXIS + k * rowHeight - scroller.scrollTop;
    const machine = machines[k];
    const mark = { down: palette.bad, draining: palette.warn }[machine?.status];
    if (k % every === 0 || mark) {
      if (mark) {
        pen.fillStyle = mark;
        pen.fillRect(0, y + 2, 3, rowHeight - 4);
      }
      pen.fillStyle = mark ?? palette.soft;
      pen.fillText(fitted(pen, laid.machines[k], scale.left - 18), 8, y + rowHeight / 2 - (rowHeight >= 20 ? 2 : 0));
    }
    if (rowHeight >= 20 && machine) {
      pen.fillStyle = palette.rule;
      pen.fillRect(8, y + rowHeight - 5, scale.left - 22, 2);
      pen.fillStyle = palette.blue;
      pen.fillRect(8, y + rowHeight - 5, (scale.left - 22) * fullness(machine), 2);
    }
  }
  pen.fillStyle = palette.paper;
  pen.fillRect(0, 0, scale.left, AXIS);
}

/** Share in use of the resource a machine has least left of. */
export const fullness = (machine) => Math.max(0, ...Object.entries(machine.capacity ?? {})
  .map(([name, all]) => (all > 0 ? Math.min(1, (machine.used?.[name] ?? 0) / all) : 0)));

const inTime = ({ first, last }) => last + 1 > timeline.from && first < timeline.from + timeline.span;

function draw(pen, width, height) {
  const scale = scaleOf(width);
  const inSight = [Math.floor(scroller.scrollTop / rowHeight),
    Math.min(laid.rows.length, Math.ceil((scroller.scrollTop + height - AXIS) / rowHeight))];
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  drawGrid(pen, width, height, { labels: false, top: AXIS });
  drawRows(pen, width, height, scale, inSight);
  pen.textAlign = "left";
  pen.font = FONT;
  const lit = marked.hovered?.job || (laid.byJob.has(marked.job) ? marked.job : "");
  for (let k = inSight[0]; k < inSight[1]; k++) {
    for (const bar of laid.rows[k]) {
      if (bar.first > timeline.from + timeline.span) break;
      const faded = lit && bar.job !== lit;
      for (const part of bar.parts) if (inTime(part)) drawPart(pen, bar, part, scale, faded);
    }
  }
  if (lit) outline(pen, laid.byJob.get(lit) ?? [], scale, palette.ink);
  if (marked.cursor) outline(pen, [marked.cursor], scale, palette.focus);
  outline(pen, ghostBars(), scale, palette.ink, [4, 3]);
  drawNames(pen, height, scale, inSight);
  pen.restore();
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, width, AXIS);
  pen.clip();
  pen.fillStyle = palette.paper;
  pen.fillRect(0, 0, width, AXIS);
  drawGrid(pen, width, AXIS, { labels: true, top: AXIS });
  pen.restore();
  pen.fillStyle = palette.line;
  pen.fillRect(0, AXIS - 1, width, 1);
  drawNow(pen, width, height, { label: true });
}

const { canvas, redraw } = surface(view, draw);
export { canvas, redraw };
scroller.addEventListener("scroll", redraw, { passive: true });

function sizeSpace() {
  const filling = (scroller.clientHeight - AXIS - 1) / Math.max(1, laid.machines.length);
  rowHeight = size === "fitting" ? Math.min(TALLEST, Math.max(ROWS.fitting, filling)) : ROWS[size];
  spacer.style.blockSize = `${AXIS + laid.machines.length * rowHeight}px`;
  redraw();
}

/** @param {keyof typeof ROWS} wanted */
export function setRows(wanted) {
  size = wanted;
  sizeSpace();
}

/** @param {boolean} jobs a colour per job instead of one per state */
export function colourByJob(jobs) {
  byJob = jobs;
  redraw();
}

/** The bar or, beside bars, the machine and slot under a point of the canvas. @param {number} x @param {number} y */
export function under(x, y) {
  const scale = scaleOf(view.clientWidth);
  const row = Math.floor((y - AXIS + scroller.scrollTop) / rowHeight);
  if (y < AXIS || row < 0 || row >= laid.rows.length) return { row: -1, slot: scale.slot(x), bar: null };
  if (x < gutter()) return { row, slot: null, bar: null };
  const bar = laid.rows[row].findLast((b) => b.parts.some((part) => {
    const box = boxOf(b, part, scale);
    return x >= box.x && x <= box.x + box.w && y >= box.y - 1 && y <= box.y + box.h + 1;
  }));
  return { row, slot: scale.slot(x), bar: bar ?? null };
}

/** @returns {typeof laid} */
export const layout = () => laid;

/** Where a bar begins in the window. @returns {DOMRect} */
export function placeOf(bar) {
  const box = boxOf(bar, bar.parts[0], scaleOf(view.clientWidth));
  const { left, top } = view.getBoundingClientRect();
  return new DOMRect(left + box.x, top + box.y, box.w, box.h);
}

/** Brings a bar into sight. */
export function reveal(bar) {
  const top = bar.machine * rowHeight;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + rowHeight > scroller.scrollTop + view.clientHeight - AXIS) {
    scroller.scrollTop = top + rowHeight - view.clientHeight + AXIS;
  }
  if (bar.last + 1 < timeline.from || bar.first > timeline.from + timeline.span) {
    timeline.follows = false;
    timeline.show(bar.first - timeline.span / 4, timeline.span);
  } else redraw();
}

on("schedule", (schedule) => {
  laid = layBars(schedule, board.cluster?.machines);
  const again = (was) => was && (laid.byJob.get(was.job)?.find((b) => b.machine === was.machine) ?? null);
  marked.hovered = again(marked.hovered);
  marked.cursor = again(marked.cursor);
  sizeSpace();
});
on("cluster", redraw);
document.addEventListener("theme", readColours);
readColours();
