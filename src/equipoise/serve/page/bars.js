/** Bars of the schedule, laid into the rows of their machines: those that overlap in time lie in lanes above each other. */

/**
 * @typedef {{job: string, name: string, state: string, machine: number, first: number, last: number, workers: number,
 *   servers: number, lane: number, tall: number, lanes: number, share?: number}} Bar
 */

/**
 * @param {{machines: string[], bars: any[], others?: any[]}} schedule
 * @returns {{machines: string[], rows: Bar[][], byJob: Map<string, Bar[]>}} rows by machine, each in order of time
 */
export function layBars(schedule) {
  const rows = schedule.machines.map(() => []);
  const byJob = new Map();
  for (const given of schedule.bars) {
    const bar = { ...given, lane: 0, tall: 1, lanes: 1 };
    rows[given.machine]?.push(bar);
    const own = byJob.get(given.job);
    if (own) own.push(bar);
    else byJob.set(given.job, [bar]);
  }
  for (const other of schedule.others ?? []) {
    rows[other.machine]?.push({ ...other, job: "", name: "another tenant", state: "other", workers: 0, servers: 0, lane: 0, tall: 1, lanes: 1 });
  }
  for (const row of rows) layRow(row);
  return { machines: schedule.machines, rows, byJob };
}

/** Greedy lanes: a bar takes the first that is free when it begins, and then grows over those that stay free beside it. */
function layRow(row) {
  row.sort((a, b) => a.first - b.first || b.last - a.last || (a.job < b.job ? -1 : 1));
  let crowd = [];
  let ends = []; // last slot of each lane
  let until = -1;
  const close = () => {
    for (const bar of crowd) {
      bar.lanes = ends.length;
      let limit = ends.length;
      for (const other of crowd) {
        if (other.lane > bar.lane && other.first <= bar.last && other.last >= bar.first) limit = Math.min(limit, other.lane);
      }
      bar.tall = limit - bar.lane;
    }
  };
  for (const bar of row) {
    if (bar.first > until) {
      close();
      crowd = [];
      ends = [];
    }
    let lane = ends.findIndex((end) => end < bar.first);
    if (lane < 0) lane = ends.length;
    ends[lane] = bar.last;
    bar.lane = lane;
    crowd.push(bar);
    until = Math.max(until, bar.last);
  }
  close();
}

/** The same job has the same shade, now and after a reload. @param {string} job @param {number} shades */
export function shadeOf(job, shades) {
  let hash = 7;
  for (let k = 0; k < job.length; k++) hash = (hash * 31 + job.charCodeAt(k)) >>> 0;
  return ((hash * 2654435761) >>> 16) % shades;
}
