// Charts by uPlot. Each chart has its data as a table, for accessibility and copying.
"use strict";

onceover.charts = (() => {
  const { el, words } = onceover;
  const HEIGHT = 170;
  const MOST_POINTS = 60; // with more, dots hide the dashes that distinguish lines
  const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3], [1, 4], [12, 4]];
  const drawn = new Set();

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Draw now, and again whenever the colours or the width change.
  function keep(holder, draw) {
    let plot = null;
    let width = 0;
    const again = () => {
      if (plot) plot.destroy();
      plot = width ? draw(width) : null;
    };
    new ResizeObserver(([entry]) => {
      const now = Math.floor(entry.contentRect.width);
      if (now !== width) {
        width = now;
        again();
      }
    }).observe(holder);
    drawn.add(again);
    return holder;
  }

  document.addEventListener("theme", () => drawn.forEach((again) => again()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((again) => again()));

  const axis = (more) => ({
    stroke: color("soft"),
    grid: { stroke: color("line"), width: 1 },
    ticks: { stroke: color("line"), width: 1, size: 4 },
    font: "12px system-ui, sans-serif",
    ...more,
  });

  function series(spec, each, place) {
    const { kind } = spec;
    const stroke = color(each.tone);
    return {
      label: each.name,
      stroke,
      width: kind === "bars" ? 0 : 2,
      dash: kind === "bars" ? [] : DASHES[place % DASHES.length],
      fill: kind === "bars" ? stroke : undefined,
      paths: kind === "bars" ? uPlot.paths.bars({ size: [0.7, 40] }) : undefined,
      points: { show: kind !== "bars" && spec.days.length <= MOST_POINTS, size: 5, fill: stroke },
      value: (_, value) => format(spec, value),
    };
  }

  function options(spec, width) {
    const ticks = (_, splits) => splits.map((i) => (Number.isInteger(i) && spec.days[i] ? spec.days[i].slice(5) : ""));
    const values = (_, splits) => splits.map((value) => (spec.format || words.compact)(value));
    return {
      width,
      height: HEIGHT,
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, range: () => [-0.6, spec.days.length - 0.4] },
        y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] },
      },
      axes: [axis({ values: ticks, incrs: [1, 2, 4, 7, 14, 28, 56, 112], space: 46, size: 30 }), axis({ values, size: 58 })],
      series: [{ label: "Run date", value: (_, i) => (i === null || i === undefined ? words.NONE : spec.days[i]) }, ...spec.series.map((each, i) => series(spec, each, i))],
    };
  }

  // spec: title, what (the unit), days, series of {name, values, tone}, kind "bars" or "lines", format.
  function chart(spec) {
    const holder = el("div", { class: "plot", role: "img", "aria-label": `${spec.title}, ${spec.what}: ${summary(spec)}` });
    keep(holder, (width) => showLast(new uPlot(options(spec, width), [spec.days.map((_, i) => i), ...spec.series.map((each) => each.values)], holder)));
    const caption = el("figcaption", {}, el("strong", {}, spec.title), " ", el("span", { class: "soft" }, spec.what));
    return el("figure", { class: "chart" }, caption, holder, asTable(spec));
  }

  // Without a pointer, the legend shows the last run.
  function showLast(plot) {
    const last = plot.data[0].length - 1;
    const show = () => last >= 0 && plot.setLegend({ idx: last });
    plot.over.addEventListener("mouseleave", () => setTimeout(show));
    setTimeout(show);
    return plot;
  }

  function summary(spec) {
    const last = spec.days.length - 1;
    if (last < 0) return "nothing yet";
    const now = spec.series.map((each) => `${each.name} ${format(spec, each.values[last])}`).join(", ");
    return `${spec.days.length} runs, on ${spec.days[last]} ${now}`;
  }

  const format = (spec, value) => (value === null || value === undefined ? words.NONE : (spec.format || words.number)(value));

  // The rows are created when it is opened.
  function asTable(spec) {
    const details = el("details", {}, el("summary", {}, "As a table"));
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const head = el("tr", {}, ["Run date", ...spec.series.map((each) => each.name)].map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name)));
      const rows = spec.days.map((day, i) => el("tr", {}, el("th", { scope: "row" }, day), spec.series.map((each) => el("td", { class: "number" }, format(spec, each.values[i])))));
      const table = el("table", {}, el("caption", {}, `${spec.title}, ${spec.what}`), el("thead", {}, head), el("tbody", {}, rows.reverse()));
      details.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${spec.title} as a table` }, table));
    });
    return details;
  }

  // A line of a few pixels; `text` says what it shows.
  function sparkline(values, text, tone = "accent") {
    const holder = el("div", { class: "spark", role: "img", "aria-label": text });
    return keep(holder, (width) => {
      const line = { stroke: color(tone), width: 1.5, fill: `${color(tone)}22`, points: { show: values.length < 2, size: 4 } };
      const flat = { show: false };
      const plain = { width, height: 28, cursor: flat, legend: flat, axes: [flat, flat], padding: [3, 2, 2, 2], series: [{}, line] };
      plain.scales = { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] } };
      return new uPlot(plain, [values.map((_, i) => i), values], holder);
    });
  }

  return { chart, sparkline };
})();
