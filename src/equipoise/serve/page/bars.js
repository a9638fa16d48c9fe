/**
 * Bars of the schedule, stacked in the rows of their machines as in the reports: a bar is as high as its share of the
 * machine.
 * A bar stays at its height while it can; where it has to move for others it is cut into parts.
 */

/**
 * @typedef {{first: number, last: number, bottom: number}} Part slots, and the share of the machine below it
 * @typedef {{job: string, name: string, state: string, machine: number, first: number, last: number, workers: number,
 *   servers: number, share: number, parts: Part[]}} Bar
 */

const EXACT = 1e-9; // shares that differ by less are the same

/**
 * @param {{machines: string[], bars: any[], others?: any[]}} schedule
 * @param {{capacity: Object<string, number>}[]} cluster the machines, as far as they are known
 * @returns {{machines: string[], rows: Bar[][], byJob: Map<string, Bar[]>}} rows by machine, each in order of time
 */
export function layBars(schedule, cluster = []) {
  const rows = schedule.machines.map(() => []);
  for (const bar of schedule.bars) rows[bar.machine]?.push({ ...bar, parts: [] });
  guessShares(rows, cluster);
  for (const other of schedule.others ?? []) {
    const nobody = { job: "", name: "another tenant", state: "other", workers: 0, servers: 0, parts: [] };
    rows[other.machine]?.push({ ...other, ...nobody });
  }
  const byJob = new Map();
  for (const row of rows) {
    row.sort((a, b) => a.first - b.first || b.last - a.last || (a.job < b.job ? -1 : 1));
    stack(row);
    for (const bar of row) {
      const own = byJob.get(bar.job);
      if (own) own.push(bar);
      else if (bar.job) byJob.set(bar.job, [bar]);
    }
  }
  return { machines: schedule.machines, rows, byJob };
}

/**
 * Where the server does not say what share a bar takes: its workers and servers, of the GPUs of the machine or of the most
 * that any machine of its kind holds.
 */
function guessShares(rows, cluster) {
  const kinds = cluster.map(({ capacity }) => JSON.stringify(capacity));
  const most = new Map(cluster.map(({ capacity }, k) => [kinds[k], Math.max(1, capacity.gpu ?? 1)]));
  rows.forEach((row, k) => {
    const turns = row.flatMap((b) => [[b.first, b.workers + b.servers], [b.last + 1, -b.workers - b.servers]]);
    turns.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let there = 0;
    for (const [, change] of turns) {
      there += change;
      most.set(kinds[k], Math.max(most.get(kinds[k]) ?? 1, there));
    }
  });
  rows.forEach((row, k) => {
    for (const bar of row) bar.share ??= (bar.workers + bar.servers) / most.get(kinds[k]);
  });
}

/** In order of time, each takes the lowest gap it fits in; if there is none, those there move down first. @param {Bar[]} row */
function stack(row) {
  let there = []; // from bottom to top
  const bottom = (bar) => bar.parts.at(-1).bottom;
  const settle = (slot) => {
    let top = 0;
    for (const bar of there) {
      const part = bar.parts.at(-1);
      if (part.bottom > top + EXACT) {
        if (part.first === slot) part.bottom = top;
        else {
          part.last = slot - 1;
          bar.parts.push({ first: slot, last: bar.last, bottom: top });
        }
      }
      top += bar.share;
    }
    return top;
  };
  const gapFor = (share) => {
    let top = 0;
    for (let k = 0; k < there.length; k++) {
      if (bottom(there[k]) - top >= share - EXACT) return [k, top];
      top = bottom(there[k]) + there[k].share;
    }
    return top + share <= 1 + EXACT ? [there.length, top] : null;
  };
  for (const bar of row) {
    there = there.filter((other) => other.last >= bar.first);
    const [place, low] = gapFor(bar.share) ?? [there.length, settle(bar.first)];
    bar.parts.push({ first: bar.first, last: bar.last, bottom: low });
    there.splice(place, 0, bar);
  }
}

/** The same job has the same shade, now and after a reload. @param {string} job @param {number} shades */
export function shadeOf(job, shades) {
  let hash = 7;
  for (let k = 0; k < job.length; k++) hash = (hash * 31 + job.charCodeAt(k)) >>> 0;
  return (Math.imul(hash, 2654435761) >>> 16) % shades;
}
