// Light, dark, or what the system says; set before the page is drawn, so that it does not flash.
(() => {
  "use strict";
  const THEMES = ["system", "light", "dark"];
  const remembered = () => {
    try {
      return localStorage.getItem("onceover-theme") || "system";
    } catch {
      return "system"; // a browser may refuse storage to files
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("onceover-theme", theme);
    } catch {
      // then it lasts as long as the page
    }
  };
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = { system: "◐ System", light: "☀ Light", dark: "☾ Dark" }[theme];
      button.setAttribute("aria-label", `Colours: ${theme}. Change`);
    }
    document.dispatchEvent(new Event("theme"));
  };
  apply(remembered());
  document.addEventListener("DOMContentLoaded", () => {
    apply(remembered());
    document.getElementById("theme").addEventListener("click", () => {
      const now = document.documentElement.dataset.theme;
      const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
      remember(next);
      apply(next);
    });
  });
})();
