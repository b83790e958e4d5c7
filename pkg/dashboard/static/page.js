// What the page does beyond plain HTML: live pieces, the theme, and the timeline that leads to any moment. It works without.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // Theme: the system's, until a person chooses. The server reads the cookie, so that no page flashes.
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

  // A click on a timeline explains that moment; keyboards have the list and the form.
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

  // Live pieces.
  const address = document.body.dataset.events;
  const live = $("live");
  if (!address || !window.EventSource) return;
  live.hidden = false;
  let source = null;
  let paused = false;
  const held = new Map(); // pieces that wait while somebody selects text in them
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
      held.set(id, html);
      return;
    }
    held.delete(id);
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

  let said = 0;
  const say = (text) => {
    if (Date.now() - said < 5000) return; // a lively page must not talk all the time
    said = Date.now();
    $("say").textContent = text;
  };

  const stop = () => {
    if (source) source.close();
    source = null;
  };
  const start = () => {
    if (source || paused || document.hidden) return;
    source = new EventSource(address);
    source.onopen = () => show("on", "Live", "Live updates are on: pause them");
    source.onerror = () => {
      const gone = source && source.readyState === EventSource.CLOSED;
      show("lost", gone ? "Not live" : "Reconnecting", gone ? "Live updates are off: try again" : "Live updates are interrupted: pause them");
      if (gone) stop();
    };
    source.addEventListener("part", (e) => {
      const { id, html } = JSON.parse(e.data);
      replace(id, html);
    });
    source.addEventListener("time", (e) => {
      $("time").textContent = JSON.parse(e.data);
      for (const [id, html] of [...held]) replace(id, html);
    });
    source.addEventListener("say", (e) => say(JSON.parse(e.data)));
  };
  live.addEventListener("click", () => {
    paused = source !== null;
    if (paused) {
      stop();
      show("off", "Paused", "Live updates are paused: go on");
    } else {
      start();
    }
  });
  // A hidden page gives its connection back: browsers allow six to a server.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  show("off", "Live", "Live updates");
  start();
})();
