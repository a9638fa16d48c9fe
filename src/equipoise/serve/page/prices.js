/** Prices as a heat map: a column per slot ahead, a row per machine (of one resource) or per resource (their means). */

import { board, on } from "./board.js";
import { drawGrid, drawNow, fitted, mix, palette, rgb, scaleOf, surface } from "./canvas.js";
import { at, el, fill, say } from "./dom.js";
import { priceScale, short, slotWords } from "./format.js";
import { pointTogether } from "./gantt_hand.js";
import { watchPrices } from "./live.js";
import { showTip } from "./tip.js";

const host = at("prices");
const choice = at("price-of");

const MOST = 40; // rows that can be told apart; more are drawn as means of neighbours

/** @type {{names: string[], rows: (number|null)[][], scales: {by: number, per: string}[]}} */
let map = { names: [], rows: [], scales: [] };
/** A pixel per price; stretched when drawn, so that a thousand machines cost no more than ten. */
const image = document.createElement("canvas");

function read(prices) {
  if (prices.by_machine && choice.value) {
    const scale = priceScale(choice.value);
    const machines = board.cluster?.machines ?? [];
    const has = (_, k) => (machines[k]?.capacity[choice.value] ?? 1) > 0;
    const told = prices.by_machine.map((row, k) => (machines[k]?.status === "down" ? row.map(() => null) : row));
    const { names, rows } = grouped(prices.machines.filter(has), told.filter(has));
    return { names, rows, scales: names.map(() => scale) };
  }
  const names = prices.resources;
  return { names, rows: names.map((r) => prices.mean[r] ?? []), scales: names.map(priceScale) };
}

/** At most so many rows: neighbours become one, of their mean price. */
function grouped(machines, prices) {
  const each = Math.ceil(machines.length / MOST);
  if (each <= 1) return { names: machines, rows: prices };
  const [names, rows] = [[], []];
  for (let k = 0; k < machines.length; k += each) {
    const some = prices.slice(k, k + each);
    names.push(`${machines[k]} … ${machines[Math.min(k + each, machines.length) - 1]}`);
    rows.push(some[0].map((_, slot) => mean(some.map((row) => row[slot]))));
  }
  return { names, rows };
}

function mean(values) {
  const known = values.filter((v) => v !== null);
  return known.length ? known.reduce((sum, v) => sum + v, 0) / known.length : null;
}

/** Least and most; on a logarithmic scale where prices spread far (they rise exponentially as room fills). */
function range(rows) {
  let [low, high] = [Infinity, 0];
  for (const row of rows) {
    for (const v of row) if (v !== null) [low, high] = [Math.min(low, v), Math.max(high, v)];
  }
  if (low > high) return { low: 0, high: 0, place: () => 0 };
  if (low > 0 && high > 20 * low) return { low, high, place: (v) => Math.log(v / low) / Math.log(high / low) };
  return { low, high, place: (v) => (high > low ? (v - low) / (high - low) : 0) };
}

function paint() {
  const columns = Math.max(1, ...map.rows.map((row) => row.length));
  image.width = columns;
  image.height = Math.max(1, map.rows.length);
  const pen = image.getContext("2d");
  const pixels = pen.createImageData(image.width, image.height);
  const ramp = Array.from({ length: 256 }, (_, k) => rgb(mix(palette.low, palette.high, k / 255)));
  const whole = range(map.rows);
  map.rows.forEach((row, k) => {
    const { place } = choice.value ? whole : range([row]); // means of different resources do not compare
    row.forEach((v, slot) => {
      if (v === null) return;
      pixels.data.set([...ramp[Math.round(255 * place(v))], 255], 4 * (k * columns + slot));
    });
  });
  pen.putImageData(pixels, 0, 0);
  legend(whole);
  redraw();
}

function legend({ low, high }) {
  const { by, per } = map.scales[0] ?? { by: 1, per: "" };
  const ramp = el("i", { class: "ramp", "aria-hidden": "true" });
  const words = choice.value
    ? [short(low * by, 3), `${short(high * by, 3)} per ${per} and slot`] : ["low", "high, each by its own scale"];
  if (high === 0) fill(at("price-legend"), "no prices are set: first come, first served");
  else fill(at("price-legend"), el("span", {}, words[0]), ramp, el("span", {}, words[1]));
  say(at("price-said"), high === 0 ? "all free" : words.join(" to "));
}

function draw(pen, width, height) {
  const scale = scaleOf(width);
  drawGrid(pen, width, height, { labels: false });
  const first = board.prices?.slots?.[0];
  if (first !== undefined && map.rows.length) {
    pen.save();
    pen.beginPath();
    pen.rect(scale.left, 0, width - scale.left, height);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    pen.drawImage(image, scale.x(first), 0, image.width * scale.perSlot, height);
    pen.restore();
    drawNames(pen, height, scale);
  }
  drawNow(pen, width, height);
}

function drawNames(pen, height, scale) {
  const row = height / map.names.length;
  const every = Math.max(1, Math.ceil(15 / row));
  pen.textAlign = "left";
  pen.fillStyle = palette.soft;
  for (let k = 0; k < map.names.length && k * row + 12 < height; k += every) {
    pen.fillText(fitted(pen, map.names[k].split(" … ")[0], scale.left - 16), 8, row > 15 ? (k + 0.5) * row : k * row + 7);
  }
  if (row <= 12) return;
  pen.fillStyle = palette.paper;
  for (let k = 1; k < map.names.length; k++) pen.fillRect(scale.left, Math.round(k * row), host.clientWidth, 1);
}

const { redraw } = surface(host, draw);

pointTogether(host, (slot, event) => {
  const y = event.clientY - host.getBoundingClientRect().top;
  const row = Math.floor((y / host.clientHeight) * map.names.length);
  const column = Math.floor(slot) - (board.prices?.slots?.[0] ?? 0);
  const price = map.rows[row]?.[column];
  const { by, per } = map.scales[row] ?? {};
  const words = price === undefined ? "no price: not among the planned slots" : price === null
    ? "no price: the machine is down" : `${short(price * by)} per ${per} and slot${choice.value ? "" : ", mean of the machines"}`;
  showTip(event.clientX, event.clientY, map.names[row] ?? "", [slotWords(board.cluster, Math.floor(slot)), words]);
});

choice.addEventListener("change", () => watchPrices(choice.value));

on("cluster", (cluster) => {
  const known = [...choice.options].map((o) => o.value).filter(Boolean);
  if (String(known) === String(cluster.resources)) return;
  const options = cluster.resources.map((r) => el("option", { value: r }, `${r}, by machine`));
  fill(choice, options, el("option", { value: "" }, "all, mean of machines"));
  choice.value = cluster.resources[0] ?? "";
  watchPrices(choice.value);
});
on("prices", (prices) => {
  map = read(prices);
  paint();
});
document.addEventListener("theme", () => map.rows.length && paint());
