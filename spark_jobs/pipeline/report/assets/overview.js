// The overview: the status of the last run, and the trend over the last 28 runs.
"use strict";

(() => {
  const { el, words, charts, parts, time, link, runLink, topicLink } = onceover;
  const TREND = 28;
  const DAYS = 92;
  const GONE = ["replaced", "rolled back"];
  const sum = (counts, names = Object.keys(counts)) => names.reduce((all, name) => all + (counts[name] || 0), 0);
  const refused = (run) => sum(run.verdicts, Object.keys(run.verdicts).filter(words.isRefused));
  const open = (run) => sum(run.outcomes) - sum(run.outcomes, ["committed", "aborted"]);
  const fill = (id, ...children) => document.getElementById(id).replaceChildren(...children);

  function sentences(run) {
    const said = [];
    if (run.published) said.push(`${words.count(run.records, "record")} published.`);
    if (run.expectations) {
      const failed = (run.critical || 0) + (run.warnings || 0);
      said.push(failed ? `${failed} of ${run.expectations} expectations failed.` : `All ${run.expectations} expectations met.`);
    }
    if (run.gaps) said.push(`${words.count(run.gaps.partitions, "partition")} held behind ${words.count(run.gaps.offsets, "missing offset")}: ${run.gaps.where}.`);
    if (refused(run)) said.push(`${words.count(refused(run), "batch", "batches")} refused.`);
    if (open(run)) said.push(`${words.count(open(run), "transaction")} undecided, readers lag ${words.count(run.lag, "offset")} behind.`);
    return said.join(" ");
  }

  // Topics whose newest record is older than their objective.
  function late(freshness) {
    const found = Object.entries(freshness).filter(([, row]) => parts.isLate(row)).sort((a, b) => a[1].newest - b[1].newest);
    if (!found.length) return null;
    const names = found.slice(0, 5).flatMap(([code, row], i) => [i ? ", " : "", topicLink(code, row.name)]);
    return el("p", { id: "late" }, parts.badge({ symbol: "✕", tone: "bad", text: `${words.count(found.length, "topic")} without new records for too long` }), " ", names, found.length > 5 ? ` and ${found.length - 5} more` : "");
  }

  function last(run, freshness) {
    const status = words.statusOf(run);
    const failed = run.message ? el("pre", { class: "message", tabindex: "0" }, onceover.visibleLines(run.message)) : null;
    return el(
      "div",
      { class: `hero ${status.tone}` },
      el("p", { class: "hero-symbol", "aria-hidden": "true" }, status.symbol),
      el("div", {}, el("p", { class: "soft" }, "Last run, ", el("time", { datetime: run.day }, run.day)), el("p", { class: "hero-title" }, runLink(run.id, `${status.text[0].toUpperCase()}${status.text.slice(1)}${run.status === "failed" ? ` in ${run.step}` : ""}`)), el("p", {}, sentences(run)), late(freshness), failed, el("p", { class: "soft" }, run.finished ? ["ended ", time(run.finished)] : ["started ", time(run.started)], `, worked ${words.seconds(run.seconds)}`)),
    );
  }

  // One cell per day up to the newest; the current run of the day, else the last attempt.
  function strip(runs, newest) {
    const byDay = new Map();
    for (const run of runs) {
      const before = byDay.get(run.day);
      if (!before || before.status !== "final") byDay.set(run.day, run);
    }
    const days = [];
    for (let day = new Date(`${newest}T00:00:00Z`); days.length < DAYS; day.setUTCDate(day.getUTCDate() - 1)) {
      const name = day.toISOString().slice(0, 10);
      if (name < runs[0].day) break;
      days.unshift(name);
    }
    return [el("ol", { class: "strip" }, days.map((day) => cell(day, byDay.get(day)))), legend(days.map((day) => byDay.get(day)))];
  }

  function cell(day, run) {
    const status = words.statusOf(run);
    const text = `${day}: ${status.text}`;
    const inner = [el("span", { "aria-hidden": "true" }, status.symbol, el("small", {}, day.slice(8))), el("span", { class: "unseen" }, text)];
    const shown = run ? el("a", { href: link("run", { run: run.id }), class: `day ${status.tone}`, title: text }, inner) : el("span", { class: "day none", title: text }, inner);
    return el("li", {}, shown);
  }

  function legend(runs) {
    const seen = new Map(runs.map((run) => words.statusOf(run)).map((status) => [status.text, status]));
    return el("p", { class: "legend" }, [...seen.values()].map((status) => parts.badge(status)));
  }

  function numbers(runs) {
    const [before, run] = [runs.at(-2), runs.at(-1)];
    const card = (title, of, unit, detail, tone, href) => {
      const values = runs.map((each) => of(each) ?? null);
      const text = `${title} over the last ${runs.length} runs`;
      return parts.card(title, words.compact(of(run)), unit, [el("span", {}, parts.change(of(run), before && of(before))), detail ? el("span", {}, detail) : null].flatMap((each) => [each, el("br")]), charts.sparkline(values, text, tone), href);
    };
    const at = { run: run.id };
    const quarantine = (each) => (each.batches === undefined ? undefined : sum(each.quarantine));
    const kinds = Object.entries(run.quarantine).map(([kind, n]) => `${words.number(n)} ${kind}`).join(", ");
    const fresh = (each) => (each.batches === undefined || each.batches === null ? undefined : each.batches - (each.verdicts.overlap || 0));
    const retries = (each) => each.verdicts && (each.verdicts.duplicate || 0) + (each.verdicts.stale_duplicate || 0);
    return [
      card("Records published", (each) => (each.published ? each.records : undefined), "records", `from ${words.bytes(run.bytes)} staged`, "accent", link("run", at)),
      card("New batches", fresh, "batches", [`${words.percent(run.verdicts.accepted || 0, fresh(run))} accepted`, run.verdicts.overlap ? `, and ${words.number(run.verdicts.overlap)} known from an earlier run or another copy` : ""].join(""), "accent", link("batches", at)),
      card("Duplicates caught", retries, "retries", "batches that a producer sent again", "calm", link("producers", at)),
      card("Batches refused", refused, "batches", breakdown(run), "warn", link("batches", at)),
      card("Transactions ended", (each) => sum(each.outcomes, ["committed", "aborted"]), "transactions", `${words.number(run.outcomes.committed || 0)} committed, ${words.number(run.outcomes.aborted || 0)} aborted`, "good", link("transactions", at)),
      card("Open and hanging", open, "transactions", `${words.number(run.outcomes.hanging || 0)} hanging, ${words.number(run.outcomes.conflict || 0)} in conflict`, "warn", link("transactions", at)),
      card("LSO lag", (each) => each.lag, "offsets", `on ${words.count(run.lagging || 0, "partition")}`, "warn", link("transactions", at)),
      card("Quarantine", quarantine, "rows", kinds, "bad", link("run", at)),
    ];
  }

  function breakdown(run) {
    const found = Object.entries(run.verdicts).filter(([name]) => words.isRefused(name));
    return found.map(([name, n]) => `${words.number(n)} ${words.verdict(name).text}`).join(", ");
  }

  function trends(runs) {
    const days = runs.map((run) => run.day);
    const of = (name, pick, tone) => ({ name, values: runs.map((run) => pick(run) ?? null), tone });
    const seen = (field, names) => names.filter((name) => runs.some((run) => run[field][name]));
    const tones = ["warn", "bad", "accent", "calm", "good", "soft"];
    const notPlain = seen("verdicts", words.VERDICTS).filter((name) => !words.isPlain(name));
    return [
      charts.chart({ title: "Records published", what: "records per run", days, kind: "bars", series: [of("records", (run) => (run.published ? run.records : null), "accent")] }),
      charts.chart({ title: "Batches by verdict", what: "batches per run, without accepted and overlap", days, series: notPlain.map((name, i) => of(words.verdict(name).text, (run) => run.verdicts[name] || 0, tones[i % tones.length])) }),
      charts.chart({ title: "Batches accepted", what: "batches per run", days, kind: "bars", series: [of("accepted", (run) => run.verdicts.accepted, "good")] }),
      charts.chart({ title: "Transactions by outcome", what: "transactions per run", days, series: seen("outcomes", words.OUTCOMES).map((name, i) => of(words.outcome(name).text, (run) => run.outcomes[name] || 0, ["good", "calm", "warn", "bad", "accent", "soft"][i])) }),
      charts.chart({ title: "LSO lag", what: "offsets that readers cannot reach yet, all partitions", days, kind: "bars", series: [of("lag", (run) => run.lag, "warn")] }),
      charts.chart({ title: "Quarantine", what: "rows per run", days, kind: "bars", series: [of("rows", (run) => sum(run.quarantine), "bad")] }),
      charts.chart({ title: "Time worked", what: "seconds, all steps", days, kind: "bars", format: words.seconds, series: [of("seconds", (run) => run.seconds, "calm")] }),
    ];
  }

  function topics(recent, freshness) {
    if (!recent || !recent.topics.length) return [el("p", { class: "soft" }, "No topic has been audited yet.")];
    const holder = el("div");
    const show = (wanted) => {
      const found = recent.topics.filter((topic) => topic.name.toLowerCase().includes(wanted.toLowerCase()));
      holder.replaceChildren(parts.table(`Topics with their last ${recent.days.length} runs`, topicColumns(recent, freshness), found, { empty: "No topic has this in its name." }));
    };
    const search = el("input", { type: "search", id: "find-topic", on: { input: () => show(search.value) } });
    show("");
    return [el("p", { class: "picker" }, el("label", { for: "find-topic" }, "Find a topic "), search), holder];
  }

  function topicColumns(recent, freshness) {
    const spark = (field, unit, tone) => (topic) => {
      const values = topic[field];
      return el("div", { class: "spark-cell" }, charts.sparkline(values, `${unit} of ${onceover.visible(topic.name)}, last ${recent.days.length} runs`, tone), el("span", {}, words.compact(values.at(-1))));
    };
    return [
      { title: "Topic", cell: (topic) => topicLink(topic.code, topic.name) },
      { title: "Newest record", cell: (topic) => parts.newest(freshness[topic.code]) },
      { title: "Records", number: true, cell: spark("records", "records", "accent") },
      { title: "Duplicates", number: true, cell: spark("duplicate", "duplicate batches", "calm") },
      { title: "Out of order", number: true, cell: spark("out_of_order", "out-of-order batches", "warn") },
      { title: "Corrupt", number: true, cell: spark("corrupt", "corrupt stretches", "bad") },
    ];
  }

  parts.start(async (index) => {
    const runs = await onceover.loadRuns(index, DAYS);
    const finalRuns = runs.filter((run) => run.status === "final").slice(-TREND);
    const newest = runs.findLast((run) => !GONE.includes(run.status)) || runs.at(-1);
    const freshness = (await onceover.load("freshness")) || {};
    fill("strip", ...strip(runs, newest.day));
    fill("last", last(newest, freshness));
    fill("sources", parts.sources(await onceover.load(`run/${newest.id}/sources`)));
    if (finalRuns.length) {
      fill("numbers", ...numbers(finalRuns));
      fill("trends", ...trends(finalRuns));
      fill("topics", ...topics(await onceover.load("recent"), freshness));
    }
    return null;
  });
})();
