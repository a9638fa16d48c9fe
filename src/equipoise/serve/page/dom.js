/** Building the page. Text only ever goes in as text nodes: names of jobs come from strangers. */

/**
 * @param {string} tag
 * @param {Object<string, any>} [props] attributes; `class` and `on` ({event: handler}); false and null are left out
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "on") for (const [kind, handler] of Object.entries(value)) node.addEventListener(kind, handler);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false).map(asNode));
  return node;
}

const asNode = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

/** @param {string} id @returns {HTMLElement} */
export const at = (id) => document.getElementById(id);

/** A field to fill in, under its name. @param {string} word @param {Object<string, any>} props of the input */
export const field = (word, props) => el("label", { class: "field" }, word, " ", el("input", props));

/** Put these in place of what a node holds. @param {Element} node @param {...any} children */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false).map(asNode));
  return node;
}

/** Change text only where it differs, so that selections and readers are left in peace. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {string} state @param {string} [words] */
export const chip = (state, words = state) =>
  el("span", { class: `chip ${state}` }, el("i", { "aria-hidden": "true" }), words);

/** A thin bar filled to a share of 0 to 1; for eyes only, its number stands beside it. */
export function meter(share, kind = "") {
  const inner = el("i");
  inner.style.inlineSize = `${Math.round(1000 * Math.max(0, Math.min(1, share || 0))) / 10}%`;
  return el("span", { class: `meter ${kind}`, "aria-hidden": "true" }, inner);
}

/** Calls `work` at most every `wait` ms, and once more after the last call. */
export function atMostEvery(wait, work) {
  let timer = 0;
  let last = -Infinity;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      work();
    }, Math.max(0, last + wait - performance.now()));
  };
}

/** Calls `work` once per drawn frame, however often it is asked for. */
export function perFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
