/** The machines: how full they are, and for administrators what can be done with them. */

import { api } from "./api.js";
import { board, may, on } from "./board.js";
import { confirmed, note, trying } from "./dialogs.js";
import { at, chip, el, field, fill, meter, say } from "./dom.js";
import { amount, count, many, percent } from "./format.js";
import { refresh } from "./live.js";
import { virtualRows } from "./rows.js";
import { resourceColour } from "./usage.js";

const ROW = 44; // px, as in the style sheet
const ACTS = { up: ["drain", "down"], draining: ["up", "down"], down: ["up"] };
/** What is asked before: the words of the button, and what it means. */
const QUESTIONS = {
  down: ["Take down", "What runs on it stops now and is planned anew elsewhere; what finds no room may lose its promise."],
  drain: ["Drain", "What is promised on it runs to its end; nothing new is placed there."],
};

let found = [];
let wanted = "";

function make() {
  const cells = ["name", "state", "use", "acts"].map((name) => el("span", { class: `cell ${name}`, role: "gridcell" }));
  return el("div", { class: "row", role: "row" }, cells);
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
  const [yes, meaning] = QUESTIONS[what] ?? [];
  if (yes && !(await confirmed(`${yes} ${name}?`, meaning, yes))) return;
  const answer = await trying(() => api.machine(name, what));
  if (!answer) return;
  const moved = answer.replanned?.length ?? 0;
  const lost = answer.displaced?.length ?? 0;
  const without = lost ? `${many(lost, "job")} displaced` : "none displaced";
  note(`${name} is ${answer.machine.status}: ${many(moved, "job")} planned anew, ${without}.`, lost ? "bad" : "");
  refresh();
}

const rows = virtualRows(at("machines"), { height: ROW, make, show });

function draw() {
  const all = board.cluster?.machines ?? [];
  found = wanted ? all.filter((m) => m.name.toLowerCase().includes(wanted) || m.status === wanted) : all;
  const by = (status) => all.filter((m) => m.status === status).length;
  const others = ["draining", "down"].filter(by).map((status) => `, ${count(by(status))} ${status}`);
  say(at("machines-count"), `${many(by("up"), "machine")} up${others.join("")}`);
  rows.size(found.length);
}

at("machine-search").addEventListener("input", (event) => {
  wanted = event.target.value.trim().toLowerCase();
  draw();
});

at("add-machine-button").addEventListener("click", () => {
  fill(at("capacity-fields"), (board.cluster?.resources ?? []).map((r) => field(r, { name: `has ${r}` })));
  say(at("machine-error"), "");
  at("add-machine").showModal();
});
at("machine-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(event.target);
  const text = (name) => String(given.get(name)).trim();
  const amounts = (board.cluster?.resources ?? []).map((r) => [r, text(`has ${r}`)]).filter(([, value]) => value);
  const machine = { name: text("name"), capacity: Object.fromEntries(amounts), count: Number(text("count")) };
  try {
    const { machines } = await api.addMachines(machine);
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
