/** The header and the numbers under it: slot and time, connection, who is reading, and how full the cluster is. */

import { api, whenLoginIsNeeded } from "./api.js";
import { board, may, on } from "./board.js";
import { facts, trying } from "./dialogs.js";
import { at, el, fill, meter, say } from "./dom.js";
import { clockTime, count, duration, percent, timeOf } from "./format.js";
import { refresh, start } from "./live.js";
import { choose } from "./queue.js";
import { resourceColour } from "./usage.js";

/** In a word, and what it means. */
const CONNECTIONS = {
  connecting: ["connecting", ""],
  live: ["live", "Events arrive as they happen"],
  polling: ["polling", "No stream of events: the log is asked every two seconds"],
  lost: ["reconnecting", "The server does not answer; trying again"],
  login: ["not logged in", ""],
};

on("connection", (kind) => {
  at("connection").className = `pill ${kind}`;
  const [word, meaning] = CONNECTIONS[kind];
  say(at("connection").lastChild, word);
  at("connection").title = meaning;
});

function showNow() {
  const { cluster } = board;
  if (!cluster) return;
  say(at("now-slot"), `slot ${count(cluster.now)}`);
  const time = timeOf(cluster, cluster.now) && new Date();
  say(at("now-time"), time ? clockTime(time) : `${cluster.clock} clock`);
  document.title = `slot ${cluster.now} · Equipoise`;
}
on("cluster", showNow);
setInterval(showNow, 10000);

on("me", (me) => {
  say(at("who-name"), me.open ? "open" : me.name || "reader");
  say(at("who-role"), me.tenant ? `${me.role} · ${me.tenant}` : me.role);
  at("logout").hidden = me.open;
});
function showClockButtons() {
  at("advance").hidden = !(may("admin") && board.cluster?.clock === "virtual");
}
on("me", showClockButtons);
on("cluster", showClockButtons);

at("advance").addEventListener("click", async (event) => {
  const slots = Number(event.target.dataset.slots);
  if (!slots) return;
  event.target.disabled = true;
  await trying(() => api.advance(slots));
  event.target.disabled = false;
  refresh();
});

const tile = (term, value, ...more) => el("div", {}, el("dt", {}, term), el("dd", {}, value), ...more);

/** How many jobs are in a state; pressed, the table shows them. */
function stateTile(state, n) {
  const show = () => {
    choose(state);
    at("jobs-panel").scrollIntoView();
  };
  const button = el("button", { type: "button", title: `Show the ${state} jobs`, on: { click: show } }, count(n));
  return el("div", { class: `state ${state}` }, el("dt", {}, el("i", { "aria-hidden": "true" }), state), el("dd", {}, button));
}

function useTile(resource, share) {
  const bar = meter(share);
  bar.firstChild.style.background = resourceColour(resource);
  return tile(resource, percent(share), bar);
}

let told = "";
function showTiles() {
  const { status, cluster } = board;
  if (!status || !cluster) return;
  const up = cluster.machines.filter((m) => m.status === "up").length;
  const { theme } = document.documentElement.dataset;
  const now = JSON.stringify([status.jobs, status.utilisation, up, cluster.machines.length, theme]);
  if (now === told) return; // what did not change keeps its focus
  told = now;
  fill(at("tiles"),
    ["admitted", "lent", "pending", "refused", "finished"].map((state) => stateTile(state, status.jobs[state] ?? 0)),
    cluster.resources.map((r) => useTile(r, status.utilisation?.[r] ?? 0)),
    tile("machines up", `${count(up)} / ${count(cluster.machines.length)}`));
  say(at("about"), [
    `Equipoise ${status.version}`, status.store,
    `slots of ${duration(cluster.slot_seconds)}, ${count(cluster.horizon)} planned ahead`,
    `event ${count(status.seq)}`,
  ].join(" · "));
}
on("status", showTiles);
on("cluster", showTiles);
document.addEventListener("theme", showTiles);

at("theme").addEventListener("click", () => document.dispatchEvent(new Event("theme-toggle")));

at("who").addEventListener("click", () => {
  const { me } = board;
  if (!me) {
    at("login").showModal();
    return;
  }
  const name = me.open ? "no tokens yet: everyone on this machine is an administrator" : me.name;
  fill(at("account-facts"), [...facts([["name", name], ["role", me.role], ["tenant", me.tenant || "all"]]).children]);
  at("account").showModal();
});
at("logout").addEventListener("click", async () => {
  await trying(api.logout);
  location.reload();
});

whenLoginIsNeeded(() => {
  if (!at("login").open) at("login").showModal();
});
at("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = event.target.elements.token;
  try {
    await api.login(field.value.trim());
  } catch (error) {
    say(at("login-error"), error.message);
    field.select();
    return;
  }
  field.value = "";
  say(at("login-error"), "");
  at("login").close();
  if (board.me) location.reload(); // another reader may see other things
  else start();
});
