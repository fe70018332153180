// Keeps a page as it is now, lets its charts be zoomed, and listens to a few keys. Every page works without it.
"use strict";
(() => {
  const root = document.documentElement;
  const live = document.getElementById("live");

  // Light or dark: what the system says, unless somebody chose.
  const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const turn = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it lasts for this page */ }
    draw();
  };
  const theme = document.getElementById("theme");
  if (theme) { theme.hidden = false; theme.addEventListener("click", turn); }

  const pages = [...document.querySelectorAll("header nav a")];
  addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isTyping) return event.target.blur();
    if (isTyping) return;
    const page = pages[Number(event.key) - 1];
    if (page) return page.click();
    if (event.key === "t") return turn();
    const search = document.querySelector("[data-search]");
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
  });

  // What the server made anew takes the place of what was there, unless somebody is busy with it.
  const isBusy = (part) => part.contains(document.activeElement)
    || (getSelection().type === "Range" && part.contains(getSelection().anchorNode));
  const take = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of fresh.querySelectorAll("[data-live][id]")) {
      const old = document.getElementById(part.id);
      if (old && !isBusy(old)) {
        const left = old.querySelector(".wide")?.scrollLeft;
        old.replaceWith(document.adoptNode(part));
        const wide = part.querySelector(".wide");
        if (wide && left) wide.scrollLeft = left;
      }
    }
    const legends = fresh.querySelectorAll(".chart .legend");
    document.querySelectorAll(".chart .legend").forEach((old, place) => {
      const part = legends[place];
      if (part) old.replaceWith(document.adoptNode(part));
    });
  };

  // Charts.
  const charts = document.getElementById("charts");
  let plots = [];
  let zoom = null;
  let data = null;
  // A canvas knows no variables: whoever has the colour is asked how it came out.
  const probe = document.createElement("span");
  probe.className = "skip";
  document.body.append(probe);
  const color = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const clock = (at) => new Date(at * 1000).toISOString().slice(11, 16);
  const UNITS = {
    "per-second": (value) => short(value),
    count: (value) => short(value),
    ms: (value) => value >= 1000 ? `${short(value / 1000)} s` : value < 1 && value > 0 ? `${short(value * 1000)} µs` : `${short(value)} ms`,
    bytes: (value) => {
      const names = ["B", "KiB", "MiB", "GiB", "TiB"];
      let place = 0;
      while (value >= 1024 && place < names.length - 1) { value /= 1024; place += 1; }
      return `${short(value)} ${names[place]}`;
    },
  };
  // Marks of bytes are round in the units that they are written in.
  const STEPS = { bytes: Array.from({ length: 50 }, (_, power) => 2 ** power) };
  const short = (value) => {
    const letters = ["", "k", "M", "G", "T"];
    let place = 0;
    while (Math.abs(value) >= 1000 && place < letters.length - 1) { value /= 1000; place += 1; }
    return `${+value.toPrecision(3)}${letters[place]}`;
  };
  // A line needs two samples: one between gaps would not be seen.
  const alone = (values) => values.flatMap((value, at) =>
    value != null && values[at - 1] == null && values[at + 1] == null ? [at] : []);
  const range = () => {
    if (zoom) return zoom;
    const span = Number(charts.dataset.to) - Number(charts.dataset.from);
    const now = Math.floor(Date.now() / 1000);
    return [now - span, now];
  };
  const load = async () => {
    const [from, to] = range().map(Math.floor);
    const answer = await fetch(`/series.json?from=${from}&to=${to}`, { credentials: "same-origin" });
    if (answer.ok) { data = await answer.json(); data.range = [from, to]; draw(); }
  };
  const option = (figure, names) => {
    const format = UNITS[figure.dataset.unit] || short;
    const labels = figure.dataset.labels.split(",");
    const ink = color("dim");
    const grid = { stroke: color("line"), width: 1 };
    return {
      width: figure.clientWidth - 26,
      height: 150,
      legend: { show: false },
      cursor: { sync: { key: "all" }, drag: { x: true, y: false } },
      scales: {
        x: { time: true, range: () => data.range },
        y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] },
      },
      axes: [
        { stroke: ink, grid, ticks: grid, font: "11px system-ui", size: 26, values: (_plot, marks) => marks.map(clock) },
        { stroke: ink, grid, ticks: grid, font: "11px system-ui", size: 62, incrs: STEPS[figure.dataset.unit], values: (_plot, marks) => marks.map(format) },
      ],
      series: [{}, ...names.map((_name, place) => ({
        label: labels[place], stroke: color(`l${place}`), width: 1.6, spanGaps: false,
        points: { show: false, size: 4, fill: color(`l${place}`), filter: (plot, of) => alone(plot.data[of]) },
      }))],
      hooks: {
        setSelect: [(plot) => {
          if (plot.select.width < 4) return;
          zoom = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
          if (zoom[1] - zoom[0] < 20) zoom[1] = zoom[0] + 20;
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          load();
        }],
      },
    };
  };
  const draw = () => {
    if (!charts || !data || typeof uPlot !== "function") return;
    plots.forEach((plot) => plot.destroy());
    plots = [...charts.querySelectorAll(".chart")].map((figure) => {
      const names = figure.dataset.series.split(",");
      const plot = new uPlot(option(figure, names), [data.t, ...names.map((name) => data[name] || [])], figure);
      plot.over.addEventListener("dblclick", () => { zoom = null; load(); });
      plot.over.title = "Drag to zoom, double-click to go back";
      figure.classList.add("zooms");
      return plot;
    });
  };
  if (charts) {
    load();
    let resizing = 0;
    addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
  }

  // News.
  if (document.querySelector("[data-live]") && typeof EventSource === "function") {
    const source = new EventSource(`/live?of=${encodeURIComponent(location.pathname + location.search)}`);
    const state = (text) => { if (live) live.textContent = text; };
    source.addEventListener("page", (event) => {
      take(event.data);
      if (charts && !zoom) load();
      state(`live, last news ${new Date().toISOString().slice(11, 19)} UTC`);
    });
    source.onopen = () => state("live");
    source.onerror = () => state(source.readyState === EventSource.CLOSED ? "not live: reload the page" : "not live: the node does not answer");
    addEventListener("pagehide", () => source.close());
  }
})();
