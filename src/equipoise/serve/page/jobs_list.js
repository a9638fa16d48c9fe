/** The jobs known to the page, newest first: pages come in as one scrolls, and jobs that events name are asked for again. */

import { api } from "./api.js";

const PAGE = 200; // jobs asked for at once
const FRESH = 100; // of the newest, asked for when some were submitted
const TOGETHER = 6; // jobs asked for at the same time

/** "j17" -> 17: jobs are numbered as they come. */
const number = (job) => Number(job.id.slice(1));

export class JobsList {
  /** @param {() => void} changed called after every change */
  constructor(changed) {
    this.changed = changed;
    /** @type {any[]} */
    this.jobs = [];
    this.places = new Map();
    this.stale = new Set();
    this.filter = { state: "", name: "" };
    this.next = null;
    this.whole = false;
    this.loading = false;
    this.stuck = true; // nothing is asked for until told to, nor after a refusal: no server is hammered
    this.asking = 0;
    this.turn = 0; // a new filter: answers to the old one are dropped
  }

  /** @param {{state: string, name: string}} filter */
  async reset(filter = this.filter) {
    this.filter = filter;
    this.turn += 1;
    this.loading = false;
    this.stuck = false;
    this.whole = false;
    this.next = null;
    this.stale.clear();
    await this.more(true);
  }

  /** The next page, older than all so far. */
  async more(afresh = false) {
    if (this.loading || this.whole || this.stuck) return;
    this.loading = true;
    const turn = this.turn;
    try {
      const page = await api.jobs({ ...this.filter, limit: PAGE, order: "newest", after: this.next });
      if (turn !== this.turn) return;
      const known = afresh ? [] : this.jobs;
      const ids = new Set(known.map((j) => j.id));
      this.jobs = [...known, ...page.jobs.filter((j) => !ids.has(j.id))];
      this.next = page.next;
      this.whole = page.next === null;
    } catch (error) {
      if (turn === this.turn) this.stuck = true;
      throw error;
    } finally {
      if (turn === this.turn) {
        this.loading = false;
        this.index();
      }
    }
  }

  index() {
    this.places = new Map(this.jobs.map((job, k) => [job.id, k]));
    this.changed();
  }

  /** Jobs that came since, or that the filter now lets through. More than a page at once: the list starts anew. */
  async newest() {
    const turn = this.turn;
    const page = await api.jobs({ ...this.filter, limit: FRESH, order: "newest" });
    if (turn !== this.turn) return;
    if (this.jobs.length && page.next !== null && !page.jobs.some((j) => this.places.has(j.id))) {
      await this.reset();
      return;
    }
    const known = new Map(this.jobs.map((job) => [job.id, job]));
    for (const job of page.jobs) {
      known.set(job.id, job);
      this.stale.delete(job.id);
    }
    this.jobs = [...known.values()].sort((a, b) => number(b) - number(a));
    this.index();
  }

  /** Events named these; they are asked for again once in sight. @param {Iterable<string>} ids */
  mark(ids) {
    for (const id of ids) if (this.places.has(id)) this.stale.add(id);
  }

  /** Ask again for what is stale between two places. */
  async renew(first, last) {
    for (const { id } of this.jobs.slice(first, last)) {
      if (this.asking >= TOGETHER) return;
      if (this.stale.delete(id)) this.fetchOne(id);
    }
  }

  async fetchOne(id) {
    this.asking += 1;
    try {
      this.put(await api.job(id));
    } catch {
      /* it stays as it was; the next event about it asks again */
    } finally {
      this.asking -= 1;
      this.changed();
    }
  }

  /** A job as it now is. One that the filter no longer lets through goes. */
  put(job) {
    const place = this.places.get(job.id);
    if (place === undefined) return;
    if (this.filter.state && job.state !== this.filter.state) {
      this.jobs.splice(place, 1);
      this.index();
    } else this.jobs[place] = job;
  }
}
