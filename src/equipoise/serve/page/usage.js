/** How much of each resource is in use: what was, and what is planned. */

import { board, on } from "./board.js";
import { drawGrid, drawNow, palette, scaleOf, surface } from "./canvas.js";
import { at, el, fill } from "./dom.js";
import { percent, slotWords } from "./format.js";
import { pointTogether } from "./gantt_hand.js";
import { timeline } from "./timeline.js";
import { showTip } from "./tip.js";

const host = at("usage");

/** The colour of a resource, the same wherever it is shown. @param {string} resource */
export function resourceColour(resource) {
  const k = Math.max(0, (board.cluster?.resources ?? []).indexOf(resource)) % 6;
  return getComputedStyle(document.documentElement).getPropertyValue(`--resource-${k}`).trim();
}

function shareAt(resource, slot) {
  const { first, utilisation } = board.schedule;
  return utilisation[resource]?.[slot - first];
}

/** One step per slot: a path over those in sight. */
function steps(pen, shares, first, scale, y) {
  const from = Math.max(0, Math.floor(timeline.from) - first);
  const to = Math.min(shares.length, Math.ceil(timeline.from + timeline.span) - first + 1);
  pen.beginPath();
  for (let k = from; k < to; k++) {
    const x = scale.x(first + k);
    if (k === from) pen.moveTo(x, y(shares[k]));
    else pen.lineTo(x, y(shares[k]));
    pen.lineTo(scale.x(first + k + 1), y(shares[k]));
  }
  return [scale.x(first + from), scale.x(first + to)];
}

function draw(pen, width, height) {
  const scale = scaleOf(width);
  const [top, bottom] = [8, height - 8];
  const y = (share) => bottom - (bottom - top) * Math.max(0, Math.min(1, share));
  drawGrid(pen, width, height, { labels: false });
  pen.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    pen.fillStyle = palette.rule;
    pen.fillRect(scale.left, Math.round(y(share)), width - scale.left, 1);
    pen.fillStyle = palette.soft;
    pen.fillText(percent(share), scale.left - 8, y(share));
  }
  if (board.schedule) drawLines(pen, width, height, scale, y);
  drawNow(pen, width, height);
}

function drawLines(pen, width, height, scale, y) {
  const { first, utilisation } = board.schedule;
  pen.save();
  pen.beginPath();
  pen.rect(scale.left, 0, width - scale.left, height);
  pen.clip();
  for (const [resource, shares] of Object.entries(utilisation)) {
    const colour = resourceColour(resource);
    const [x1, x2] = steps(pen, shares, first, scale, y);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.75;
    pen.stroke();
    pen.lineTo(x2, y(0));
    pen.lineTo(x1, y(0));
    pen.globalAlpha = 0.06;
    pen.fillStyle = colour;
    pen.fill();
    pen.globalAlpha = 1;
  }
  pen.restore();
}

const { redraw } = surface(host, draw);

function legend() {
  fill(at("usage-legend"), (board.cluster?.resources ?? []).map((resource) => {
    const line = el("i");
    line.style.background = resourceColour(resource);
    return el("span", { class: "key" }, line, resource, el("b", {}, percent(board.status?.utilisation?.[resource])));
  }));
}

pointTogether(host, (slot, event) => {
  if (!board.schedule) return;
  const at = Math.floor(slot);
  const lines = Object.keys(board.schedule.utilisation).map((r) => `${r}: ${percent(shareAt(r, at))}`);
  showTip(event.clientX, event.clientY, slotWords(board.cluster, at), lines);
});

on("schedule", redraw);
on("cluster", legend);
on("status", legend);
document.addEventListener("theme", legend);
