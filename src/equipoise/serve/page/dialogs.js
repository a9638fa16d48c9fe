/** Drawers, boxes and small notes. Escape closes them, and the focus goes back to where it was. */

import { at, el, say } from "./dom.js";

const NARROW = "(max-width: 800px)";
let opener = null;

/** A drawer stands beside the page on a wide screen and in front of it on a narrow one. @param {HTMLDialogElement} dialog */
export function openDrawer(dialog) {
  if (dialog.open) return;
  opener = document.activeElement;
  for (const other of document.querySelectorAll("dialog.drawer[open]")) other.close();
  if (matchMedia(NARROW).matches) dialog.showModal();
  else dialog.show();
}

for (const dialog of document.querySelectorAll("dialog.drawer")) {
  dialog.addEventListener("close", () => {
    const focused = document.activeElement;
    if (opener?.isConnected && (dialog.contains(focused) || focused === document.body)) opener.focus();
  });
}
document.addEventListener("click", (event) => event.target.closest?.("dialog .close")?.closest("dialog").close());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog:modal")) return;
  document.querySelector("dialog.drawer[open]")?.close();
});

/** @param {string} title @param {string} text @param {string} yes on the button that does it @returns {Promise<boolean>} */
export function confirmed(title, text, yes) {
  const dialog = at("confirm");
  say(at("confirm-title"), title);
  say(at("confirm-text"), text);
  say(at("confirm-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((tell) => dialog.addEventListener("close", () => tell(dialog.returnValue === "yes"), { once: true }));
}

const LASTS = 6000; // ms
const MOST = 4; // notes at once

/** @param {string} text @param {"" | "bad"} [kind] */
export function note(text, kind = "") {
  const toasts = at("toasts");
  const toast = el("p", { class: `toast ${kind}` }, text);
  toasts.append(toast);
  while (toasts.children.length > MOST) toasts.firstChild.remove();
  setTimeout(() => toast.remove(), LASTS);
}

/** Does something that may be refused, and says so. @param {() => Promise<any>} work */
export async function trying(work) {
  try {
    return await work();
  } catch (error) {
    note(error.message, "bad");
    return null;
  }
}

/** @param {[string, any][]} pairs those without a value are left out */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => ![null, undefined, "", "–"].includes(value));
  return el("dl", { class: "facts" }, known.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}
