// Optional functions of the page: live updates, the theme, and clicks on a timeline. The page works without this script.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // The theme is that of the system until the user selects one. The server reads the cookie and renders the page in that theme.
  const theme = $("theme");
  const themes = ["", "light", "dark"];
  const showTheme = () => {
    const chosen = document.documentElement.dataset.theme || "";
    theme.innerHTML = `<span class="themed">Theme: </span>${chosen === "light" || chosen === "dark" ? chosen : "system"}`;
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    document.cookie = "gpuscaler-theme=" + next + "; path=/; samesite=strict; max-age=" + (next ? 31536000 : 0);
    showTheme();
  });
  showTheme();

  // A click on a timeline explains that time. The list and the form do the same with a keyboard.
  if ($("clickhint")) $("clickhint").hidden = false;
  document.addEventListener("click", (e) => {
    const chart = e.target.closest && e.target.closest("svg.chart");
    if (!chart || e.target.closest("a")) return;
    const box = chart.getBoundingClientRect();
    const { from, to } = chart.parentElement.dataset;
    const share = (e.clientX - box.left) / box.width;
    const at = new Date(Date.parse(from) + share * (Date.parse(to) - Date.parse(from)));
    const query = new URLSearchParams(location.search);
    query.set("at", at.toISOString().slice(0, 19) + "Z");
    location.search = query.toString();
  });

  // Live updates.
  const address = document.body.dataset.events;
  const live = $("live");
  if (!address || !window.EventSource) return;
  live.hidden = false;
  let source = null;
  let paused = false;
  const delayed = new Map(); // parts that are not replaced while the user selects text in them
  const show = (state, text, label) => {
    live.dataset.state = state;
    live.textContent = text;
    live.setAttribute("aria-label", label);
  };

  const selecting = (element) => {
    const s = getSelection();
    return s && !s.isCollapsed && element.contains(s.anchorNode);
  };

  const replace = (id, html) => {
    const old = $(id);
    if (!old) return;
    if (selecting(old)) {
      delayed.set(id, html);
      return;
    }
    delayed.delete(id);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const link = focused && focused.getAttribute("href");
    const region = focused && focused.getAttribute("aria-label");
    const scrolled = [...old.querySelectorAll(".wide")].map((e) => e.scrollLeft);
    const target = old.dataset.target;
    old.outerHTML = html;
    const now = $(id);
    if (!now) return;
    now.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
    if (target !== undefined && now.dataset.target !== target) now.classList.add("changed");
    const again = link ? now.querySelector(`[href="${CSS.escape(link)}"]`) : region && now.querySelector(`[aria-label="${CSS.escape(region)}"]`);
    if (again) again.focus({ preventScroll: true });
  };

  let announced = 0;
  const say = (text) => {
    if (Date.now() - announced < 5000) return; // at most one announcement in five seconds
    announced = Date.now();
    $("say").textContent = text;
  };

  const stop = () => {
    if (source) source.close();
    source = null;
  };
  const start = () => {
    if (source || paused || document.hidden) return;
    source = new EventSource(address);
    source.onopen = () => show("on", "Live", "Live updates are on: pause");
    source.onerror = () => {
      const gone = source && source.readyState === EventSource.CLOSED;
      show("lost", gone ? "Not live" : "Reconnecting", gone ? "Live updates are off: reconnect" : "Live updates are interrupted: pause");
      if (gone) stop();
    };
    source.addEventListener("part", (e) => {
      const { id, html } = JSON.parse(e.data);
      replace(id, html);
    });
    source.addEventListener("time", (e) => {
      $("time").textContent = JSON.parse(e.data);
      for (const [id, html] of [...delayed]) replace(id, html);
    });
    source.addEventListener("say", (e) => say(JSON.parse(e.data)));
  };
  live.addEventListener("click", () => {
    paused = source !== null;
    if (paused) {
      stop();
      show("off", "Paused", "Live updates are paused: resume");
    } else {
      start();
    }
  });
  // A hidden page closes its connection: browsers allow six connections to a server.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  show("off", "Live", "Live updates");
  start();
})();
