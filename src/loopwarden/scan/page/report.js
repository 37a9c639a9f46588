"use strict";
(() => {
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  const runs = [...document.querySelectorAll("details.run")];
  const rows = [...document.querySelectorAll("tr.run")];

  // Theme: what the system says until the person chooses.
  const dark = () => root.dataset.theme === "dark" ||
    (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  try { const kept = localStorage.getItem("loopwarden-theme"); if (kept) root.dataset.theme = kept; } catch { /* none */ }
  const turn = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("loopwarden-theme", root.dataset.theme); } catch { /* not kept then */ }
  };
  const theme = find("theme");
  theme.hidden = false;
  theme.addEventListener("click", turn);

  // Filters and order.
  const tools = find("tools");
  const search = find("search"), level = find("level"), detector = find("detector"), order = find("order");
  const shown = find("shown");
  const home = find("runs");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const run of runs) {
      const text = run.dataset.text ??= run.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) &&
        (!level.value || run.dataset.level === level.value) &&
        (!detector.value || run.dataset.detectors.split(" ").includes(detector.value));
      run.hidden = !fits;
      count += fits;
    }
    for (const row of rows) {
      const text = row.dataset.text ??= row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    shown.textContent = `${count} of ${runs.length} runs with loops or repetitions`;
  };
  const sort = () => {
    const name = order.value;
    const value = (run) => Number(run.dataset[name]);
    const sorted = name === "rank" ? runs.toSorted((a, b) => value(a) - value(b)) : runs.toSorted((a, b) => value(b) - value(a));
    home.append(...sorted);
  };
  if (tools && runs.length) {
    tools.hidden = false;
    let wait;
    search.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(filter, 80); });
    level.addEventListener("change", filter);
    detector.addEventListener("change", filter);
    order.addEventListener("change", sort);
    find("open").addEventListener("click", () => {
      const visible = runs.filter((run) => !run.hidden);
      const open = visible.some((run) => !run.open);
      for (const run of visible) run.open = open;
    });
    filter();
  }

  // A link to a run opens it.
  const follow = () => {
    const target = /^#run-\d+$/.test(location.hash) && find(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();

  // Keys.
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing) return;
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
    if (event.key === "t") turn();
    if (event.key === "j" || event.key === "k") {
      const visible = [...home.children].filter((run) => !run.hidden);
      const now = visible.findIndex((run) => run.contains(document.activeElement));
      const next = visible[Math.min(Math.max(now + (event.key === "j" ? 1 : -1), 0), visible.length - 1)];
      next?.firstElementChild.focus();
      next?.scrollIntoView({ block: "nearest" });
    }
  });

  // What a place of a timeline is.
  const bubble = document.createElement("div");
  bubble.className = "bubble";
  bubble.hidden = true;
  document.body.append(bubble);
  const said = ["", "the guard would have warned", "the guard would have refused it", "the guard would have ended the run"];
  const cache = new Map();
  const read = (svg) => {
    if (!cache.has(svg)) {
      const holder = svg.closest("[data-calls]");
      const data = holder && holder.querySelector("script[type='application/json']");
      cache.set(svg, data ? JSON.parse(data.textContent) : null);
    }
    return cache.get(svg);
  };
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest && event.target.closest("svg.time");
    const data = svg && read(svg);
    bubble.hidden = !data;
    if (!data) return;
    const box = svg.getBoundingClientRect();
    const call = Math.min(Math.max(Math.floor((event.clientX - box.left) / box.width * data.calls), 0), data.calls - 1);
    let place = call, piece = 0;
    while (place >= data.pieces[piece][1]) { place -= data.pieces[piece][1]; piece += 1; }
    const [kind, , weight] = data.pieces[piece];
    const more = data.step > 1 ? ` (and the ${data.step - 1} after it)` : "";
    const verdict = weight ? `: ${said[weight]}` : "";
    bubble.textContent = `call ${call * data.step + 1}${more}: ${data.names[kind]}${verdict}`;
    const left = Math.min(event.pageX + 12, scrollX + root.clientWidth - bubble.offsetWidth - 8);
    bubble.style.left = `${Math.max(left, 4)}px`;
    bubble.style.top = `${event.pageY + 14}px`;
  });
})();
