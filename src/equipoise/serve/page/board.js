/** What the page knows of the server, and who wants to hear when it changes. */

/** @type {Object<string, any>} me, status, cluster, schedule, prices, certificate; null until first heard */
export const board = { me: null, status: null, cluster: null, schedule: null, prices: null, certificate: null };

const listeners = new Map();

/** @param {string} part @param {(value: any) => void} listener */
export function on(part, listener) {
  listeners.set(part, [...(listeners.get(part) ?? []), listener]);
}

/** @param {string} part @param {any} value */
export function put(part, value) {
  if (part in board) board[part] = value;
  for (const listener of listeners.get(part) ?? []) listener(value);
}

const RANK = { read: 0, submit: 1, admin: 2 };

/** Whether the reader may do what this role may. @param {"read"|"submit"|"admin"} role */
export const may = (role) => (RANK[board.me?.role] ?? -1) >= RANK[role];
