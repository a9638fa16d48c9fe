/**
 * Staying up to date: events are pushed (SSE); after some, what depends on them is asked for again, at most every half
 * second.
 * Where pushing does not work (a proxy that buffers, say), the log is asked for every two seconds instead.
 */

import { api } from "./api.js";
import { board, put } from "./board.js";
import { atMostEvery } from "./dom.js";
import { timeline } from "./timeline.js";

const KINDS = ["opened", "submitted", "decided", "tick", "progress", "finished", "cancelled", "machine", "prices"];
const REFRESH = 500; // ms between two rounds of asking again
const POLL = 2000; // ms between two looks at the log without SSE
const PATIENCE = 8000; // ms without a first word before SSE is given up for now
const RETRY = 30000; // ms of polling before SSE is tried again
const KEPT = 200; // events asked for when the page opens
const MISSED = 2000; // events after which a page that slept begins anew
const ASLEEP = 60000; // ms out of sight until the stream is closed: browsers allow six to a server, over all tabs

let seq = 0;
let source = null;
let timer = 0;
let resource = "";

/** @param {string} name whose prices by machine are wanted; "" for the means of all */
export function watchPrices(name) {
  resource = name;
  refresh();
}

/** Ask again for all that changes. One part that fails leaves the others alone. */
async function askAgain() {
  if (document.hidden) return; // asked once it is looked at
  const { first, last } = timeline.wanted();
  const parts = {
    cluster: api.cluster(), status: api.status(), schedule: api.schedule(first, last), prices: api.prices(resource),
  };
  await Promise.all(Object.entries(parts).map(async ([part, answer]) => {
    try { put(part, await answer); } catch (error) { failed(error); }
  }));
}

let asking = false;
let askedMeanwhile = false;
/** One round at a time: a slow server is not asked faster than it answers. */
export const refresh = atMostEvery(REFRESH, async () => {
  if (asking) {
    askedMeanwhile = true;
    return;
  }
  asking = true;
  await askAgain();
  asking = false;
  if (askedMeanwhile) {
    askedMeanwhile = false;
    refresh();
  }
});

const refreshCertificate = atMostEvery(5000, async () => {
  try { put("certificate", await api.certificate()); } catch (error) { failed(error); }
});

function failed(error) {
  if (error.status === 0) put("connection", "lost");
  if (error.status === 401) put("connection", "login");
}

/** Of events already told (a reconnect repeats some) none is told twice. @param {any[]} events */
function hear(events) {
  const fresh = events.filter((e) => e.seq > seq);
  if (!fresh.length) return;
  seq = fresh.at(-1).seq;
  put("events", fresh);
  refresh();
  refreshCertificate();
}

let heard = [];
/** Many at once are told as one: a burst must not stop the page. */
const tellSoon = atMostEvery(100, () => {
  const events = heard;
  heard = [];
  hear(events);
});

function listen() {
  source?.close();
  clearTimeout(timer);
  source = new EventSource(`/v1/events?after=${seq}`);
  const giveUp = () => {
    clearTimeout(timer);
    source.close();
    put("connection", "polling");
    poll(performance.now() + RETRY);
  };
  timer = setTimeout(giveUp, PATIENCE);
  source.addEventListener("hello", (message) => {
    clearTimeout(timer);
    timer = 0;
    if (JSON.parse(message.data).seq < seq) location.reload(); // another store: nothing here is true of it
    put("connection", "live");
    refresh();
  });
  for (const kind of KINDS) source.addEventListener(kind, (message) => {
    heard.push(JSON.parse(message.data));
    tellSoon();
  });
  source.onerror = () => {
    put("connection", "lost");
    if (source.readyState === EventSource.CLOSED) giveUp();
    else timer ||= setTimeout(giveUp, PATIENCE); // until then the browser tries again by itself, from the last event it saw
  };
}

async function poll(until) {
  clearTimeout(timer);
  try {
    const { events } = await api.log(seq, 500);
    put("connection", "polling");
    hear(events);
  } catch (error) {
    put("connection", error.status === 401 ? "login" : "lost");
    if (error.status === 401) return; // the login starts it all anew
  }
  timer = setTimeout(() => (performance.now() > until ? listen() : poll(until)), POLL);
}

let sleeping = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(sleeping);
  if (!source) return;
  if (document.hidden) {
    sleeping = setTimeout(() => {
      clearTimeout(timer);
      source.close();
    }, ASLEEP);
  } else if (source.readyState === EventSource.CLOSED) wake();
  else refresh();
});

async function wake() {
  try {
    const { seq: last } = await api.status();
    if (last - seq > MISSED) {
      seq = last - KEPT;
      put("gap", null);
    }
  } catch { /* listening finds out what is wrong */ }
  listen();
}

/** Opens the page's ears: who is reading, the recent past, and from there on whatever happens. */
export async function start() {
  put("connection", "connecting");
  try {
    put("me", await api.me());
    put("cluster", await api.cluster());
    seq = Math.max(0, board.cluster.seq - KEPT);
    const past = await api.log(seq, KEPT);
    hear(past.events);
    seq = Math.max(seq, board.cluster.seq);
  } catch (error) {
    put("connection", error.status === 401 ? "login" : "lost");
    if (error.status !== 401) setTimeout(start, POLL);
    return;
  }
  refresh();
  refreshCertificate();
  listen();
}
