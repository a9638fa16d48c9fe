/** The small card beside the pointer. */

import { at, el, fill } from "./dom.js";

/**
 * @param {number} x px from the left of the window
 * @param {number} y px from its top
 * @param {string} title
 * @param {string[]} lines
 */
export function showTip(x, y, title, lines) {
  const tip = at("tip");
  fill(tip, el("b", {}, title), lines.map((line) => el("span", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 16 + width < innerWidth ? x + 16 : Math.max(8, x - 16 - width);
  const top = Math.max(8, Math.min(innerHeight - height - 8, y + 14));
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

export function hideTip() {
  at("tip").hidden = true;
}
