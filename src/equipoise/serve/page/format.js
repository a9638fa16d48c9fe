/** Numbers, times and states in words. */

export const STATES = ["admitted", "lent", "pending", "refused", "finished", "cancelled"];
export const OVER = new Set(["refused", "finished", "cancelled"]);

export const STATE_WORDS = {
  admitted: "promised to finish",
  lent: "runs on idle slots, without a promise",
  pending: "waits",
  refused: "turned away",
  finished: "done",
  cancelled: "taken back",
};

export const REASON_WORDS = {
  infeasible_alone: "could not finish even on an empty cluster",
  beyond_horizon: "would end after the planned slots",
  no_capacity: "no room in time",
  priced_out: "worth less than the room it takes",
  too_late: "too late even alone",
  over_quota: "over its tenant's quota",
  over_jobs: "its tenant has too many jobs",
  beyond_quota: "more than its tenant's quota",
  overdue: "has not said that it is done",
  machine_down: "a machine went down",
  late: "ended after its promise",
};

/** @param {string} reason */
export const reasonWords = (reason) => REASON_WORDS[reason] ?? reason.replaceAll("_", " ");

export const count = (n) => Number(n).toLocaleString("en");

/** @param {number} n @param {string} word */
export const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** A number in at most `digits` digits; a dash where there is none. */
export function short(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(Math.min(2, digits - 1));
  return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 7 : digits, maximumFractionDigits: 4 });
}

/** 0.4231 -> "42 %" */
export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** An amount of a resource; amounts of bytes get their binary unit. */
export function amount(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1 << 20) return short(value);
  const k = Math.min(5, Math.floor(Math.log2(value) / 10));
  return `${short(value / 1024 ** k, 4)} ${BINARY[k]}`;
}

/** {"gpu": 1, "memory": 2**34} -> "1 gpu, 16 Gi memory" */
export const amounts = (demand) =>
  Object.entries(demand ?? {}).map(([name, value]) => `${amount(value)} ${name}`).join(", ") || "–";

/** Prices of what is counted in bytes are per unit tiny: told per Gi. */
export const priceScale = (resource) =>
  (/memory|disk|storage/.test(resource) ? { by: 2 ** 30, per: "Gi" } : { by: 1, per: resource });

/** 5400 -> "1 h 30 min" */
export function duration(seconds) {
  if (seconds < 1) return `${short(seconds, 3)} s`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const told = [];
  let rest = Math.round(seconds);
  for (const [size, unit] of parts) {
    if (rest >= size && told.length < 2) {
      told.push(`${Math.floor(rest / size)} ${unit}`);
      rest %= size;
    }
  }
  return told.join(" ");
}

/** @typedef {{slot_seconds: number, start: string, clock: string}} Clock */

/** The time a slot begins, or null where slots are not bound to any. @param {Clock|null} cluster @param {number} slot */
export function timeOf(cluster, slot) {
  const start = cluster?.start && cluster.clock === "real" ? Date.parse(cluster.start) : NaN;
  return Number.isNaN(start) ? null : new Date(start + slot * cluster.slot_seconds * 1000);
}

const HOUR = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const DAY = { weekday: "short", day: "numeric", month: "short" };
const sameDay = (a, b) => a.toDateString() === b.toDateString();

/** "14:30", with the day where it is not today. @param {Date} time */
export function clockTime(time, today = new Date()) {
  const hour = time.toLocaleTimeString("en-GB", HOUR);
  return sameDay(time, today) ? hour : `${time.toLocaleDateString("en-GB", DAY)} ${hour}`;
}

/** "slot 12", with its time where it has one. */
export function slotWords(cluster, slot) {
  if (slot === null || slot === undefined) return "–";
  const time = timeOf(cluster, slot);
  return time ? `slot ${count(slot)} (${clockTime(time)})` : `slot ${count(slot)}`;
}

/** "slot 12", with the time it is over. */
export function endWords(cluster, slot) {
  if (slot === null || slot === undefined) return "–";
  const time = timeOf(cluster, slot + 1);
  return time ? `slot ${count(slot)} (until ${clockTime(time)})` : `slot ${count(slot)}`;
}

/** "2026-11-16T14:32:07Z" -> "14:32:07" here, with the day where it is not today. @param {string} at */
export function second(at, today = new Date()) {
  const time = new Date(at);
  const told = time.toLocaleTimeString("en-GB", { ...HOUR, second: "2-digit" });
  return sameDay(time, today) ? told : `${time.toLocaleDateString("en-GB", DAY)} ${told}`;
}
