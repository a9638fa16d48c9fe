// Runs before the first paint (a plain script, not a module) so that a dark page never flashes white.
(() => {
  const KEY = "equipoise-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try { return localStorage.getItem(KEY); } catch { return null; } // storage may be forbidden
  };
  const show = () => {
    document.documentElement.dataset.theme = chosen() ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new Event("theme"));
  };
  dark.addEventListener("change", show);
  document.addEventListener("theme-toggle", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem(KEY, next); } catch { /* then it lasts as long as the page */ }
    document.documentElement.dataset.theme = next;
    document.dispatchEvent(new Event("theme"));
  });
  show();
})();
