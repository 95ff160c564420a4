// Selects the light or dark theme: the one that the reader chose last, otherwise that of the system, and always light
// for printing. Scripts that draw in colours of the theme must listen to the event "themechange".
(() => {
  "use strict";
  const root = document.documentElement;

  function preferredTheme() {
    try {
      const savedTheme = localStorage.getItem("nearfield-theme");
      if (savedTheme) return savedTheme;
    } catch { /* a page opened from a file may have no storage */ }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function setTheme(theme) {
    root.dataset.theme = theme;
    document.dispatchEvent(new Event("themechange"));
  }

  function toggleTheme() {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("nearfield-theme", theme); } catch { /* as above */ }
    setTheme(theme);
  }

  setTheme(preferredTheme());
  document.getElementById("theme").addEventListener("click", toggleTheme);
  let screenTheme;
  addEventListener("beforeprint", () => { screenTheme = root.dataset.theme; setTheme("light"); });
  addEventListener("afterprint", () => setTheme(screenTheme));
})();
