/** A long list of which only the rows in sight exist in the page. */

import { perFrame } from "./dom.js";

const SPARE = 8; // rows kept ready above and below

/**
 * @param {HTMLElement} scroller what scrolls
 * @param {{height: number, make: () => HTMLElement, show: (node: HTMLElement, index: number) => void,
 *   seen?: (first: number, last: number) => void}} rows px of a row; how a row is built, and filled for an index
 */
export function virtualRows(scroller, { height, make, show, seen = () => {} }) {
  const space = scroller.querySelector(".space");
  /** @type {Map<number, HTMLElement>} */
  const shown = new Map();
  const spare = [];
  let count = 0;

  const now = () => {
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - SPARE);
    const last = Math.min(count, Math.ceil((scroller.scrollTop + scroller.clientHeight) / height) + SPARE);
    for (const [index, node] of shown) {
      if (index >= first && index < last) continue;
      shown.delete(index);
      if (node.contains(document.activeElement)) scroller.focus({ preventScroll: true });
      node.hidden = true;
      spare.push(node);
    }
    for (let index = first; index < last; index++) {
      let node = shown.get(index);
      if (!node) {
        node = spare.pop() ?? space.appendChild(make());
        node.hidden = false;
        node.style.transform = `translateY(${index * height}px)`;
        shown.set(index, node);
      }
      node.setAttribute("aria-rowindex", String(index + 2)); // the first is the heading
      node.dataset.index = String(index);
      show(node, index);
    }
    seen(first, last);
  };
  const draw = perFrame(now);
  scroller.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(scroller);

  return {
    draw,
    now,
    /** @param {number} amount of rows there are */
    size(amount) {
      count = amount;
      space.style.blockSize = `${amount * height}px`;
      draw();
    },
  };
}
