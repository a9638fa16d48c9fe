/** Puts the page together, and lets tests look at what is drawn. */

import { board, on } from "./board.js";
import "./certificate.js";
import { note } from "./dialogs.js";
import { at } from "./dom.js";
import "./feed.js";
import { newJob } from "./form.js";
import { layout, placeOf } from "./gantt.js";
import "./gantt_hand.js";
import "./header.js";
import "./machines.js";
import "./prices.js";
import "./queue.js";
import "./usage.js";
import { start } from "./live.js";

const KEYS = {
  n: newJob,
  "/": () => at("job-search").focus(),
  g: () => document.querySelector("#gantt-view canvas").focus(),
  j: () => at("jobs").focus(),
  t: () => document.dispatchEvent(new Event("theme-toggle")),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (!KEYS[event.key]) return;
  KEYS[event.key]();
  event.preventDefault();
});

on("trouble", (text) => note(text, "bad"));

/** Read-only: what a test can not see on a canvas. */
window.equipoise = Object.freeze({
  gantt: Object.freeze({
    bars: () => layout().rows.flat().map((bar) => {
      const { job, name, state, first, last } = bar;
      const { x, y, width, height } = placeOf(bar);
      return { job, name, state, machine: layout().machines[bar.machine], first, last, x, y, width, height };
    }),
  }),
  seq: () => board.status?.seq ?? 0,
});

start();
