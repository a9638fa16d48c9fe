/** The certificate: a badge in the header and the table of its checks. */

import { on } from "./board.js";
import { at, el, fill, say } from "./dom.js";
import { count, many, short } from "./format.js";

const OUTCOMES = { true: ["passed", "passed"], false: ["failed", "failed"], null: ["unmade", "not made"] };
const outcome = (check) => OUTCOMES[String(check.passed ?? null)];

function row(check) {
  const [kind, word] = outcome(check);
  const number = (name, value) => el("td", { class: "number", "data-word": name }, short(value));
  return el("tr", { class: kind },
    el("th", { scope: "row" }, check.name, el("span", { class: "meaning" }, check.meaning)),
    number("value", check.value), number("limit", check.limit), el("td", { class: "mark" }, word));
}

function verdict({ passed, checks }) {
  const failed = checks.filter((c) => c.passed === false).length;
  const unmade = checks.filter((c) => c.passed === null || c.passed === undefined).length;
  if (failed) return ["failed", `${many(failed, "check")} failed`];
  if (unmade) return ["unmade", `${many(unmade, "check")} not made`];
  return passed ? ["passed", "certified"] : ["unmade", "not certified yet"];
}

on("certificate", (certificate) => {
  const order = { failed: 0, unmade: 1, passed: 2 };
  const checks = certificate.checks.toSorted((a, b) => order[outcome(a)[0]] - order[outcome(b)[0]]);
  fill(at("checks"), checks.map(row));
  const [kind, words] = verdict(certificate);
  for (const id of ["certificate-badge", "certificate-word"]) at(id).classList.remove("passed", "failed", "unmade");
  at("certificate-badge").classList.add(kind);
  at("certificate-word").classList.add(kind);
  say(at("certificate-badge").lastChild, words);
  say(at("certificate-word"), words);
  say(at("certificate-said"), `Recomputed from the log of events alone, up to event ${count(certificate.seq)}.`);
});
