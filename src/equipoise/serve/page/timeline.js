/** The stretch of slots that schedule, utilisation and prices all show, and the slot the reader points at. */

import { board, on } from "./board.js";
import { clockTime, timeOf } from "./format.js";

const LEAD = 0.02; // share of the stretch that may lie before now: the schedule is of the slots ahead
const WIDEST = 2000; // slots
const NARROWEST = 4; // slots
const NICE_SLOTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000];
const NICE_SECONDS = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

const listeners = [];
/** @type {{first: number, last: number}|null} */
let asked = null;

export const timeline = {
  /** First slot shown (may lie between two) and how many are. */
  from: 0,
  span: 48,
  /** Whether it moves along with the clock. */
  follows: true,
  /** The slot pointed at, or null. @type {number|null} */
  pointed: null,

  /** @param {() => void} listener called after every change */
  onChange(listener) {
    listeners.push(listener);
  },

  /** The slots worth asking the server for: what is shown, and as much again on either side. */
  wanted() {
    if (!board.cluster) return {};
    asked = { first: Math.max(0, Math.floor(this.from - this.span)), last: Math.ceil(this.from + 2 * this.span) };
    return asked;
  },

  /** Whether what was last asked for covers what is shown. */
  covered() {
    return !asked || (asked.first <= Math.max(0, this.from) && asked.last + 1 >= this.from + this.span);
  },

  /** @param {number} from @param {number} span */
  show(from, span) {
    this.span = Math.max(NARROWEST, Math.min(WIDEST, span));
    const { now = 0, horizon = 0 } = board.cluster ?? {};
    this.from = Math.max(now - this.span * LEAD, Math.min(now + horizon - this.span / 2, from));
    tell();
  },

  /** @param {number} slots */
  pan(slots) {
    this.follows = false;
    this.show(this.from + slots, this.span);
  },

  /** Zoom by a factor about a slot, which stays where it is. */
  zoom(factor, about = this.from + this.span / 2) {
    const span = Math.max(NARROWEST, Math.min(WIDEST, this.span * factor));
    this.follows = this.follows && about === board.cluster?.now;
    this.show(about - ((about - this.from) * span) / this.span, span);
  },

  /** Back to the clock. */
  follow() {
    this.follows = true;
    if (board.cluster) this.show(board.cluster.now - this.span * LEAD, this.span);
  },

  /** @param {number|null} slot */
  point(slot) {
    if (slot === this.pointed) return;
    this.pointed = slot;
    tell();
  },

  /** Where slots are marked on an axis this wide. @param {number} width px @returns {{slot: number, text: string}[]} */
  ticks(width) {
    const room = 76 / (width / this.span); // slots that a label takes
    return timeOf(board.cluster, 0) ? timeTicks(this, room) : slotTicks(this, room);
  },
};

function slotTicks({ from, span }, room) {
  const step = NICE_SLOTS.find((s) => s >= room) ?? NICE_SLOTS.at(-1);
  const ticks = [];
  for (let slot = Math.max(0, Math.ceil(from / step) * step); slot <= from + span; slot += step) {
    ticks.push({ slot, text: String(slot) });
  }
  return ticks;
}

function timeTicks({ from, span }, room) {
  const seconds = board.cluster.slot_seconds;
  const step = 1000 * (NICE_SECONDS.find((s) => s >= room * seconds) ?? NICE_SECONDS.at(-1));
  const zero = timeOf(board.cluster, 0).getTime();
  const [begin, end] = [zero + Math.max(0, from) * seconds * 1000, zero + (from + span) * seconds * 1000];
  const zone = new Date(begin).getTimezoneOffset() * 60000;
  const ticks = [];
  for (let at = Math.ceil((begin - zone) / step) * step + zone; at <= end; at += step) {
    const time = new Date(at);
    const text = time.getHours() + time.getMinutes() === 0 || step >= 86400000
      ? time.toLocaleDateString("en-GB", { weekday: "short", day: "numeric" }) : clockTime(time, time);
    ticks.push({ slot: (at - zero) / 1000 / seconds, text });
  }
  return ticks;
}

function tell() {
  for (const listener of listeners) listener();
}

let opened = false;
on("cluster", (cluster) => {
  if (!opened) {
    opened = true;
    timeline.span = Math.max(12, Math.min(cluster.horizon, 60) / (1 - LEAD));
  }
  if (timeline.follows) timeline.follow();
});
