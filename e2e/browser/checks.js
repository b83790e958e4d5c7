// The checks that run in a page of the browser. Each function returns a list of problems as text.
"use strict";
globalThis.gpuscalerChecks = (() => {
  // describe returns a short text that identifies an element in a message.
  const describe = (e) => {
    const id = e.id ? "#" + e.id : "";
    const kind = typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\s+/g, ".") : "";
    const text = (e.getAttribute("aria-label") || e.textContent || e.value || "").trim().replace(/\s+/g, " ").slice(0, 60);
    return `<${e.tagName.toLowerCase()}${id}${kind}> ${JSON.stringify(text)}`;
  };

  // hiddenFromSight reports whether an element is rendered only for screen readers.
  const hiddenFromSight = (e) => {
    for (; e && e.nodeType === Node.ELEMENT_NODE; e = e.parentElement) {
      const s = getComputedStyle(e);
      if (s.display === "none" || s.visibility !== "visible" || s.clipPath === "inset(50%)") return true;
    }
    return false;
  };

  // texts returns each visible, not empty text node with its element and its rectangles.
  const texts = () => {
    const out = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      if (!node.textContent.trim() || ["SCRIPT", "STYLE", "TITLE", "DESC", "OPTION"].includes(element.tagName.toUpperCase())) continue;
      if (!element.checkVisibility() || hiddenFromSight(element)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()].filter((r) => r.width > 0 && r.height > 0);
      if (boxes.length) out.push({ node, element, boxes });
    }
    return out;
  };

  // scrolls reports whether an element lets the user scroll to content that exceeds its width.
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth;

  const overflow = () => {
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) {
      found.push(`the page is ${document.documentElement.scrollWidth} pixels wide on a screen of ${width}`);
    }
    for (const t of texts()) {
      let inner = false;
      for (let e = t.element; e; e = e.parentElement) inner ||= scrolls(e);
      if (inner || getComputedStyle(t.element).position === "absolute") continue; // the link that skips to the content waits above the page
      for (const b of t.boxes) {
        if (b.left >= -0.5 && b.right <= width + 0.5) continue;
        found.push(`text outside the screen (${Math.round(b.left)} to ${Math.round(b.right)} of ${width}): ${describe(t.element)}`);
      }
      for (let e = t.element; e && e !== document.body; e = e.parentElement) {
        const s = getComputedStyle(e);
        if (s.overflowX === "hidden" && e.scrollWidth > e.clientWidth + 1) found.push(`cut off text: ${describe(t.element)}`);
      }
    }
    return found;
  };

  const overlaps = () => {
    const found = [];
    const boxes = texts().flatMap((t) => t.boxes.map((box) => ({ box, t })));
    boxes.sort((a, b) => a.box.top - b.box.top);
    for (let i = 0; i < boxes.length; i++) {
      const a = boxes[i];
      for (let j = i + 1; j < boxes.length && boxes[j].box.top < a.box.bottom; j++) {
        const b = boxes[j];
        if (a.t === b.t) continue;
        const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const y = Math.min(a.box.bottom, b.box.bottom) - b.box.top;
        // the boxes of two lines overlap by the leading of the font
        if (x <= 2 || y <= 0.4 * Math.min(a.box.height, b.box.height)) continue;
        found.push(`overlapping texts: ${describe(a.t.element)} and ${describe(b.t.element)}`);
      }
    }
    return found;
  };

  // parse returns the color of a computed style as red, green, blue and alpha, each 0..1. Chromium computes a color-mix to color(srgb ...).
  const parse = (text) => {
    const n = (text.match(/-?[\d.]+(e-?\d+)?/g) || []).map(Number);
    const alpha = (i) => (n.length > i ? n[i] : 1);
    if (text.startsWith("rgb")) return { c: n.slice(0, 3).map((v) => v / 255), a: alpha(3) };
    if (text.startsWith("color(srgb")) return { c: n.slice(0, 3), a: alpha(3) };
    return null;
  };
  const over = (top, bottom) => top.c.map((v, i) => v * top.a + bottom[i] * (1 - top.a));
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };

  // The contrast of WCAG 2.2, AA: 4.5:1 for text, 3:1 for large text. Shapes of an SVG behind a text are not considered.
  const contrast = () => {
    const found = [];
    for (const { element } of texts()) {
      const style = getComputedStyle(element);
      const svg = element.namespaceURI.endsWith("/svg");
      const layers = [];
      let opacity = 1;
      for (let e = element; e; e = e.parentElement) {
        const s = getComputedStyle(e);
        opacity *= Number(s.opacity);
        const layer = parse(s.backgroundColor);
        if (layer && layer.a > 0) layers.push(layer);
      }
      let background = matchMedia("(prefers-color-scheme: dark)").matches ? [0.07, 0.07, 0.07] : [1, 1, 1];
      for (const layer of layers.reverse()) background = over(layer, background);
      const ink = parse(svg ? style.fill : style.color);
      if (!ink) {
        found.push(`unknown color ${svg ? style.fill : style.color}: ${describe(element)}`);
        continue;
      }
      const color = over({ c: ink.c, a: ink.a * opacity }, background);
      const [light, dark] = [luminance(color), luminance(background)].sort((a, b) => b - a);
      const ratio = (light + 0.05) / (dark + 0.05);
      const size = parseFloat(style.fontSize);
      const need = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      if (ratio < need) found.push(`contrast ${ratio.toFixed(2)}:1, want ${need}:1: ${describe(element)}`);
    }
    return found;
  };

  const structure = () => {
    const found = [];
    let last = 0;
    let first = 0;
    for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
      if (!h.checkVisibility()) continue;
      const level = Number(h.tagName[1]);
      if (level === 1) first++;
      if (level > last + 1) found.push(`a heading of level ${level} after one of level ${last}: ${describe(h)}`);
      if (!h.textContent.trim()) found.push(`an empty heading of level ${level}`);
      last = level;
    }
    if (first !== 1) found.push(`${first} headings of level 1, want one`);
    if (!document.documentElement.lang) found.push("the document has no language");
    if (!document.title) found.push("the document has no title");
    const main = document.querySelectorAll("main");
    if (main.length !== 1) found.push(`${main.length} elements <main>, want one`);
    const ids = new Set();
    for (const e of document.querySelectorAll("[id]")) {
      if (ids.has(e.id)) found.push(`two elements have the id ${e.id}`);
      ids.add(e.id);
    }
    for (const e of document.querySelectorAll("body *")) {
      if (!scrolls(e) || !e.checkVisibility()) continue;
      if (e.tabIndex !== 0 || e.getAttribute("role") !== "region" || !e.getAttribute("aria-label")) {
        found.push(`a scrollable area without tabindex, role and name: ${describe(e)}`);
      }
    }
    for (const t of document.querySelectorAll("table")) {
      if (!t.checkVisibility()) continue;
      for (const th of t.querySelectorAll("th")) if (!th.scope) found.push(`a table header without scope: ${describe(th)}`);
      if (!t.querySelector("th")) found.push(`a table without headers: ${describe(t)}`);
    }
    return found;
  };

  // The keyboard walk. number marks every element that a user must reach with Tab and returns how many there are.
  let expected = [];
  const selector = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  const number = () => {
    document.activeElement.blur();
    getSelection().removeAllRanges();
    scrollTo(0, 0);
    expected = [...document.querySelectorAll(selector)].filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility());
    return expected.length;
  };

  // focused describes the element that has the focus: its index (-1: none, the walk left the page) and what a user cannot see of it.
  const focused = () => {
    const e = document.activeElement;
    if (!e || e === document.body || e === document.documentElement) return { index: -1, problems: [] };
    const problems = [];
    const s = getComputedStyle(e);
    const outlined = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1.5;
    if (!outlined) problems.push(`no visible focus (outline ${s.outlineStyle} ${s.outlineWidth}): ${describe(e)}`);
    const b = e.getBoundingClientRect();
    const visible = b.width > 0 && b.height > 0 && b.bottom > 0 && b.top < innerHeight && b.right > 0 && b.left < innerWidth;
    if (!visible) problems.push(`the focus is outside the screen (${Math.round(b.left)}, ${Math.round(b.top)}): ${describe(e)}`);
    if (hiddenFromSight(e)) problems.push(`the focus is on an element that is hidden: ${describe(e)}`);
    return { index: expected.indexOf(e), name: describe(e), problems };
  };
  const names = (indexes) => indexes.map((i) => describe(expected[i]));

  return { overflow, overlaps, contrast, structure, number, focused, names };
})();
