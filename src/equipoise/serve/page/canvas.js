/** Drawing surfaces: sharp on any screen, in the colours of the style sheet, with one time axis for all. */

import { board } from "./board.js";
import { perFrame } from "./dom.js";
import { timeline } from "./timeline.js";

export const AXIS = 24; // px of the axis of slots
const NEAR = 36; // px about now that are kept free for its own label
export const FONT = '11px "Inter", system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

const NAMES = [
  "page", "paper", "ink", "soft", "line", "rule", "blue", "bad", "warn", "low", "high", "past", "focus",
  "bar-admitted", "bar-lent", "bar-pending", "bar-refused", "bar-finished", "bar-cancelled", "bar-other",
  "down-wash", "drain-wash",
];

/** @type {Object<string, string>} colours by name, read again when the theme changes */
export let palette = {};

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
readPalette();
document.addEventListener("theme", readPalette);

/** Width of the names left of a chart; the same for all that share the timeline. */
export const gutter = () => (innerWidth < 640 ? 76 : 112);

/**
 * A canvas that fills `host` and is drawn again when its size, the theme or the timeline changes.
 * @param {HTMLElement} host
 * @param {(pen: CanvasRenderingContext2D, width: number, height: number) => void} draw in CSS pixels
 * @returns {{canvas: HTMLCanvasElement, redraw: () => void}}
 */
export function surface(host, draw) {
  const canvas = host.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const redraw = perFrame(() => {
    const width = host.clientWidth;
    const height = host.clientHeight;
    const scale = devicePixelRatio || 1;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    pen.textBaseline = "middle";
    draw(pen, width, height);
  });
  new ResizeObserver(redraw).observe(host);
  document.addEventListener("theme", redraw);
  timeline.onChange(redraw);
  return { canvas, redraw };
}

/** From slots to pixels and back, for a chart of this width. */
export function scaleOf(width) {
  const left = gutter();
  const perSlot = (width - left) / timeline.span;
  return {
    left, perSlot,
    x: (slot) => left + (slot - timeline.from) * perSlot,
    slot: (x) => timeline.from + (x - left) / perSlot,
  };
}

/** Marks of slots along the top, thin lines down the chart, and what lies in the past a shade darker. */
export function drawGrid(pen, width, height, { labels = true, top = labels ? AXIS : 0 } = {}) {
  const { x, left } = scaleOf(width);
  const now = board.cluster?.now ?? 0;
  const passed = Math.min(width, Math.max(left, x(now)));
  pen.fillStyle = palette.past;
  pen.fillRect(left, top, passed - left, height - top);
  pen.textAlign = "center";
  for (const { slot, text } of timeline.ticks(width - left)) {
    const at = Math.round(x(slot)) + 0.5;
    if (at < left) continue;
    pen.fillStyle = palette.rule;
    pen.fillRect(at - 0.5, top, 1, height - top);
    if (labels && at > left + 14 && at < width - 18 && Math.abs(at - x(now)) > NEAR) {
      pen.fillStyle = palette.soft;
      pen.fillText(text, at, AXIS / 2);
    }
  }
}

/** The line of now, and the slot pointed at in any of the charts. */
export function drawNow(pen, width, height, { label = false } = {}) {
  const { x, left, perSlot } = scaleOf(width);
  const top = label ? AXIS : 0;
  if (timeline.pointed !== null) {
    const from = Math.max(left, x(Math.floor(timeline.pointed)));
    pen.globalAlpha = 0.09;
    pen.fillStyle = palette.ink;
    pen.fillRect(from, top, Math.max(1, Math.min(width, x(Math.floor(timeline.pointed)) + perSlot) - from), height - top);
    pen.globalAlpha = 1;
  }
  if (!board.cluster) return;
  const at = Math.round(x(board.cluster.now));
  if (at < left - 1 || at > width) return;
  pen.fillStyle = palette.ink;
  pen.fillRect(at - 1, top, 2, height - top);
  if (!label) return;
  const text = "now";
  const wide = pen.measureText(text).width + 12;
  const from = Math.max(left - 4, Math.min(width - wide - 2, at - wide / 2));
  pen.beginPath();
  pen.roundRect(from, 4, wide, AXIS - 7, 5);
  pen.fill();
  pen.fillStyle = palette.paper;
  pen.textAlign = "center";
  pen.fillText(text, from + wide / 2, AXIS / 2 + 1);
}

/** As much of a text as fits, with an ellipsis. */
export function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = [...text];
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${letters.slice(0, middle).join("")}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low ? `${letters.slice(0, low).join("")}…` : "";
}

/** @param {string} hex "#rrggbb" @returns {number[]} */
export const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

/** Between two colours: share 0 is the first, 1 the second. */
export function mix(from, to, share) {
  const [a, b] = [rgb(from), rgb(to)];
  return `#${a.map((v, k) => Math.round(v + (b[k] - v) * share).toString(16).padStart(2, "0")).join("")}`;
}

/** Black or white, whichever is easier to read on a colour (relative luminance of WCAG). */
export function inkOn(hex) {
  const [r, g, b] = rgb(hex).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (light + 0.05) / 0.0562 > 1.05 / (light + 0.05) ? "#0f141b" : "#ffffff";
}
