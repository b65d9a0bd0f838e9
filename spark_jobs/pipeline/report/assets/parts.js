// Pieces that several pages are made of.
"use strict";

onceover.parts = (() => {
  const { el, words, link, visible } = onceover;
  const PAGE = 25;

  const badge = (known, extra = "") => el("span", { class: `badge ${known.tone}`, title: known.meaning || null }, el("span", { "aria-hidden": "true" }, `${known.symbol} `), known.text + extra);
  const status = (run) => badge(words.statusOf(run));
  const verdict = (name) => badge(words.verdict(name));
  const outcome = (name) => badge(words.outcome(name));

  // A table with a caption; columns are {title, number, cell(row)}. Long ones grow by the page.
  function table(caption, columns, rows, { empty = "None.", unseen = false } = {}) {
    if (!rows.length) return el("p", { class: "soft" }, empty);
    const body = el("tbody");
    const more = el("button", { type: "button", class: "quiet" });
    let shown = 0;
    const grow = () => {
      body.append(...rows.slice(shown, shown + PAGE).map((row) => line(columns, row)));
      shown = Math.min(shown + PAGE, rows.length);
      more.textContent = `Show more (${words.number(rows.length - shown)} left)`;
      more.hidden = shown === rows.length;
    };
    more.addEventListener("click", grow);
    grow();
    const head = el("tr", {}, columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : null }, column.title)));
    const made = el("table", {}, el("caption", { class: unseen ? "unseen" : null }, caption), el("thead", {}, head), body);
    return el("div", {}, scroll(made, caption), more);
  }

  function line(columns, row) {
    return el("tr", {}, columns.map((column, i) => el(i ? "td" : "th", { scope: i ? null : "row", class: column.number ? "number" : column.wide ? "wide" : null }, column.cell(row))));
  }

  // What is wider than the screen scrolls by itself, also by keyboard; the page never does.
  const scroll = (inner, label) => el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, inner);

  function card(title, value, unit, detail, spark, href) {
    const name = href ? el("a", { href }, title) : title;
    return el("div", { class: "card" }, el("h3", {}, name), el("p", { class: "big" }, value, unit ? el("span", { class: "unit" }, ` ${unit}`) : null), detail ? el("p", { class: "soft" }, detail) : null, spark || null);
  }

  // "+12 against the run before", or nothing without one.
  function change(now, before) {
    if (now === null || now === undefined || before === null || before === undefined) return "";
    const difference = now - before;
    if (!difference) return "as the run before";
    return `${difference > 0 ? "▲ +" : "▼ −"}${words.number(Math.abs(difference))} against the run before`;
  }

  const at = (ms) => (Number.isFinite(ms) ? onceover.time(new Date(ms).toISOString()) : words.NONE);
  const age = (ms) => (ms > Date.now() ? "in the future" : `${words.seconds((Date.now() - ms) / 1000)} ago`);
  const atWithAge = (ms) => (Number.isFinite(ms) ? [at(ms), el("br"), el("span", { class: "soft" }, age(ms))] : words.NONE);

  // The newest record of a topic, its age now, and whether that is within the topic's objective.
  const isLate = (row) => row.objective !== null && Date.now() - row.newest > row.objective * 1000;
  function newest(row) {
    if (!row) return words.NONE;
    if (row.objective === null) return atWithAge(row.newest);
    const known = isLate(row) ? { symbol: "✕", tone: "bad", text: "older than " } : { symbol: "✓", tone: "good", text: "within " };
    return [...atWithAge(row.newest), el("br"), badge(known, words.seconds(row.objective))];
  }

  // What a run has read of its sources, and when that was copied; nothing for runs that did not record it.
  function sources(rows) {
    const copied = (row) => (row.copy_finished === null ? el("span", { class: "soft" }, "not recorded") : [at(row.copy_started), " to", el("br"), ...atWithAge(row.copy_finished)]);
    return table("Sources, and when they were copied", [
      { title: "Source", cell: (row) => [el("strong", {}, row.name), el("br"), el("span", { class: "soft tight" }, row.kind)] },
      { title: "Where", wide: true, cell: (row) => el("code", {}, visible(row.place)) },
      { title: "New objects", number: true, cell: (row) => [words.number(row.new), el("br"), el("span", { class: "soft" }, `of ${words.number(row.objects)}`)] },
      { title: "Size", number: true, cell: (row) => words.bytes(row.bytes) },
      { title: "Newest object", cell: (row) => atWithAge(row.newest || null) }, // 0 if no object has a time
      { title: "Copied", cell: copied },
    ], rows || [], { empty: "The run has not recorded its sources." });
  }

  // Chooses a run of all that the site has; the page's fragment names it, so that it can be linked.
  function runPicker(runs, chosen, page, rest = {}, { name = "run", id = "chosen-run", label = "Run " } = {}) {
    const options = [...runs].reverse().map((run) => el("option", { value: run.id, selected: run.id === chosen }, `${run.day} · ${words.statusOf(run).text} · ${run.id.slice(11)}`));
    const none = chosen ? null : el("option", { value: "" }, "choose a run");
    const select = el("select", { id, on: { change: () => location.assign(link(page, { ...rest, [name]: select.value })) } }, none, options);
    return el("p", { class: "picker" }, el("label", { for: id }, label), select);
  }

  // The run that the URL names, else the newest current run, else the newest of all.
  function chosenRun(runs) {
    const wanted = onceover.fragment().get("run");
    const newest = [...runs].reverse();
    return newest.find((run) => run.id === wanted) || newest.find((run) => run.status === "final") || newest[0];
  }

  // A page that is drawn again when its address changes.
  async function start(draw) {
    const page = document.getElementById("page") || document.getElementById("last");
    const index = await onceover.loadIndex();
    if (!index || !index.runs) {
      page.replaceChildren(el("p", { class: "notice" }, "This lake has no run yet. The page is filled by the first run."));
      return;
    }
    const again = async () => {
      const made = await draw(index);
      const focused = document.activeElement.id;
      if (made) page.replaceChildren(...made);
      if (focused && made) document.getElementById(focused)?.focus();
      document.body.dataset.ready = "true";
    };
    addEventListener("hashchange", again);
    await again();
  }

  return { badge, status, verdict, outcome, table, scroll, card, change, at, newest, isLate, sources, runPicker, chosenRun, start };
})();
