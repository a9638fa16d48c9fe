/** The machines: how full they are, and for administrators what can be done with them. */

import { api } from "./api.js";
import { board, may, on } from "./board.js";
import { confirmed, note, trying } from "./dialogs.js";
import { at, chip, el, fill, meter, say } from "./dom.js";
import { amount, many, percent } from "./format.js";
import { refresh } from "./live.js";
import { virtualRows } from "./rows.js";
import { resourceColour } from "./usage.js";

const ROW = 44; // px, as in the style sheet
const ACTS = { up: ["drain", "down"], draining: ["up", "down"], down: ["up"] };
const WARNINGS = {
  down: "What runs on it stops now and is planned anew elsewhere; what finds no room may lose its promise.",
  drain: "What is promised on it runs to its end; nothing new is placed there.",
};

let found = [];
let wanted = "";

function make() {
  return el("div", { class: "row", role: "row" }, ["name", "state", "use", "acts"].map((c) => el("span", { class: `cell ${c}`, role: "gridcell" })));
}

function show(row, index) {
  const machine = found[index];
  const told = JSON.stringify([machine, may("admin"), document.documentElement.dataset.theme]);
  if (row.told === told) return;
  row.told = told;
  const [name, state, use, acts] = row.children;
  say(name, machine.name);
  name.title = machine.name;
  fill(state, chip(machine.status));
  fill(use, Object.entries(machine.capacity).map(([resource, all]) => usage(resource, machine.used?.[resource] ?? 0, all)));
  fill(acts, may("admin") && (ACTS[machine.status] ?? []).map((what) => el("button", {
    type: "button", class: what === "down" ? "small danger" : "small", "data-what": what, "data-machine": machine.name,
    "aria-label": `${what} ${machine.name}`, on: { click: () => act(machine.name, what) },
  }, what)));
}

function usage(resource, used, all) {
  const bar = meter(all > 0 ? used / all : 0);
  bar.firstChild.style.background = resourceColour(resource);
  return el("span", { class: "part", title: `${resource}: ${amount(used)} of ${amount(all)} in use` },
    el("small", {}, resource, el("b", {}, all > 0 ? percent(used / all) : "none")), bar);
}

async function act(name, what) {
  if (WARNINGS[what] && !(await confirmed(`${what === "down" ? "Take down" : "Drain"} ${name}?`, WARNINGS[what], what === "down" ? "Take down" : "Drain"))) return;
  const answer = await trying(() => api.machine(name, what));
  if (!answer) return;
  const moved = answer.replanned?.length ?? 0;
  const lost = answer.displaced?.length ?? 0;
  note(`${name} is ${answer.machine.status}: ${many(moved, "job")} planned anew, ${lost ? `${many(lost, "job")} displaced` : "none displaced"}.`, lost ? "bad" : "");
  refresh();
}

const rows = virtualRows(at("machines"), { height: ROW, make, show });

function draw() {
  const all = board.cluster?.machines ?? [];
  found = wanted ? all.filter((m) => m.name.toLowerCase().includes(wanted) || m.status === wanted) : all;
  const by = (status) => all.filter((m) => m.status === status).length;
  const parts = [`${many(by("up"), "machine")} up`, by("draining") && `${by("draining")} draining`, by("down") && `${by("down")} down`];
  say(at("machines-count"), parts.filter(Boolean).join(", "));
  rows.size(found.length);
}

at("machine-search").addEventListener("input", (event) => {
  wanted = event.target.value.trim().toLowerCase();
  draw();
});

at("add-machine-button").addEventListener("click", () => {
  fill(at("capacity-fields"), (board.cluster?.resources ?? []).map((r) => el("label", { class: "field" }, r, " ", el("input", { name: `has ${r}` }))));
  say(at("machine-error"), "");
  at("add-machine").showModal();
});
at("machine-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(event.target);
  const capacity = Object.fromEntries((board.cluster?.resources ?? []).map((r) => [r, String(given.get(`has ${r}`)).trim()]).filter(([, v]) => v));
  try {
    const { machines } = await api.addMachines({ name: String(given.get("name")).trim(), capacity, count: Number(given.get("count")) || 1 });
    at("add-machine").close();
    note(`${many(machines.length, "machine")} added.`);
    refresh();
  } catch (error) {
    say(at("machine-error"), error.message);
  }
});

on("cluster", draw);
on("me", () => {
  at("add-machine-button").hidden = !may("admin");
  draw();
});
document.addEventListener("theme", draw);
