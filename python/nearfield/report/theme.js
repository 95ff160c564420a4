// Light or dark: as the reader last chose, else as the system is set; light on paper. Whoever draws in colours listens
// to "themechange".
(() => {
  "use strict";
  const root = document.documentElement;

  function preferred() {
    try {
      const kept = localStorage.getItem("nearfield-theme");
      if (kept) return kept;
    } catch { /* a page opened from a file may have no storage */ }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function set(theme) {
    root.dataset.theme = theme;
    document.dispatchEvent(new Event("themechange"));
  }

  function toggle() {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("nearfield-theme", theme); } catch { /* as above */ }
    set(theme);
  }

  set(preferred());
  document.getElementById("theme").addEventListener("click", toggle);
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; set("light"); });
  addEventListener("afterprint", () => set(before));
})();
