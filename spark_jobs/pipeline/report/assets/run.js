// One run: its steps, inputs, verdicts by partition, what was expected of it, and what is new in it.
"use strict";

(() => {
  const { el, words, parts, time, link, runLink, topicLink, visible, hasNews } = onceover;
  const ENOUGH = 400;
  const STEP_STATUS = {
    done: { symbol: "✓", tone: "good", text: "done" },
    failed: { symbol: "✕", tone: "bad", text: "failed" },
    running: { symbol: "…", tone: "calm", text: "running" },
    interrupted: { symbol: "‖", tone: "warn", text: "interrupted" },
    "not reached": { symbol: "·", tone: "none", text: "not reached" },
  };
  const section = (id, title, ...children) => el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...children);
  const isRefusedOrHeld = (name) => words.isRefused(name) || words.verdict(name).group === "held";

  function head(run, runs) {
    const failure = run.message ? el("pre", { class: "message", tabindex: "0", "aria-label": "What failed" }, onceover.visibleLines(run.message)) : null;
    const facts = el(
      "dl",
      { class: "facts" },
      fact("Status", parts.status(run), run.status === "failed" ? ` in ${run.step}` : null),
      run.reason ? fact("Why again", visible(run.reason)) : null,
      fact("Started", time(run.started)),
      fact("Ended", run.finished ? time(run.finished) : words.NONE),
      fact("Worked", words.seconds(run.seconds), run.attempts > 1 ? ` in ${run.attempts} attempts` : null),
      fact("Records published", run.published ? words.count(run.records, "record") : "nothing is published"),
      fact("Details", el("a", { href: link("batches", { run: run.id }) }, "batches"), ", ", el("a", { href: link("producers", { run: run.id }) }, "producers"), ", ", el("a", { href: link("transactions", { run: run.id }) }, "transactions")),
    );
    return [parts.runPicker(runs, run.id, "run"), el("h1", {}, `Run of ${run.day}`), el("p", { class: "soft code" }, run.id), facts, failure];
  }

  const fact = (name, ...values) => [el("dt", {}, name), el("dd", {}, ...values)];

  function steps(data) {
    const longest = Math.max(...data.steps.map((step) => step.seconds || 0), 0.001);
    const bar = (step) => (step.seconds === null ? words.NONE : [words.seconds(step.seconds), el("meter", { class: "bar", min: 0, max: longest, value: step.seconds, "aria-hidden": "true" })]);
    const counted = (step) => [Object.entries(step.counts).filter(([, n]) => n).map(([name, n]) => `${words.number(n)} ${words.counted(step.step, name)}`).join(", "), step.messages.length ? el("ul", { class: "remarks" }, step.messages.map((text) => el("li", {}, visible(text)))) : null];
    const columns = [
      { title: "Step", cell: (step) => el("strong", {}, step.step) },
      { title: "Status", cell: (step) => parts.badge(STEP_STATUS[step.status]) },
      { title: "Duration", number: true, cell: bar },
      { title: "Counted", wide: true, cell: counted },
    ];
    return section("steps", "Steps", parts.table("Steps of the run", columns, data.steps, { unseen: true }));
  }

  function inputs(data, copies) {
    const { inputs: given, origins } = data;
    const sources = parts.table("Staged objects by source and role", [
      { title: "Source", cell: (row) => row[0] },
      { title: "Role", cell: (row) => row[1].replaceAll("_", " ") },
      { title: "Objects", number: true, cell: (row) => words.number(row[2]) },
      { title: "Size", number: true, cell: (row) => words.bytes(row[3]) },
      { title: "Newest, by the store's clock", cell: (row) => (row[4] ? time(new Date(row[4]).toISOString()) : words.NONE) },
    ], given.sources, { empty: "Nothing was staged." });
    const aside = given.set_aside_count ? parts.table(`Set aside, which means not taken by this run: ${words.count(given.set_aside_count, "object")}`, [{ title: "Object", cell: (row) => visible(row[0]) }, { title: "Why", cell: (row) => visible(row[1]) }], given.set_aside) : null;
    const digests = el("dl", { class: "facts" }, ["manifest", "config", "state_in"].flatMap((name) => fact(name.replace("_", "-"), el("code", {}, given[name]))));
    return section("inputs", "Inputs", parts.sources(copies), el("p", { class: "soft" }, "A run is a pure function of these three digests; the same inputs give the same tables."), digests, sources, aside, provenance(origins));
  }

  function provenance(origins) {
    const counts = Object.entries(origins.counts).map(([origin, n]) => `${words.number(n)} from ${({ chain: "the run before", snapshot: "a broker's snapshot", seed: "a seed", empty: "nothing: no state was known" })[origin]}`);
    const from = (row) => (row.run_id ? runLink(row.run_id, row.run_id.slice(0, 10)) : row.snapshot ? visible(row.snapshot) : words.NONE);
    const table = parts.table(origins.rows.length < origins.count ? `The first ${origins.rows.length} of ${words.number(origins.count)} partitions` : "Where each partition's state came from", [
      { title: "Partition", cell: (row) => visible(`${row.topic}-${row.partition}`) },
      { title: "Origin", cell: (row) => row.origin },
      { title: "From", cell: from },
      { title: "Producers", number: true, cell: (row) => words.number(row.producers) },
      { title: "Expired", number: true, cell: (row) => words.number(row.expired) },
      { title: "Remark", wide: true, cell: (row) => visible([row.message, ...row.skipped].filter(Boolean).join("; ")) },
    ], origins.rows, { empty: "The run did not get to rebuild." });
    return el("details", {}, el("summary", {}, `State at the start: ${counts.join(", ") || "unknown"}`), table);
  }

  // Rows are partitions, columns verdicts; each cell has its number, and a shade by its share of the row.
  function heat(data, run) {
    if (!data || !data.rows.length) return section("heat", "Verdicts by partition", el("p", { class: "soft" }, "The run did not get to admit."));
    const names = words.VERDICTS.filter((name) => data.rows.some((row) => row[2][name]));
    const all = (row) => Object.values(row[2]).reduce((sum, n) => sum + n, 0);
    const unpublished = (row) => Object.entries(row[2]).reduce((sum, [name, n]) => sum + (isRefusedOrHeld(name) ? n : 0), 0);
    const rows = [...data.rows].sort((a, b) => unpublished(b) - unpublished(a) || all(b) - all(a));
    const columns = [
      { title: "Partition", cell: (row) => topicLink(data.topics[row[0]].code, `${data.topics[row[0]].name}-${row[1]}`) },
      ...names.map((name) => ({ title: `${words.verdict(name).symbol} ${words.verdict(name).text}`, number: true, cell: (row) => shade(row[2][name] || 0, all(row), name, data.topics[row[0]].name, row[1], run) })),
      { title: "Records", number: true, cell: (row) => words.number(row[3]) },
      { title: "LSO lag", number: true, cell: (row) => (row[7] ? words.number(row[7]) : words.NONE) },
    ];
    return section("heat", "Verdicts by partition", el("p", { class: "soft" }, "Batches of the run; the darker a cell, the larger its share of the partition. Partitions with the most refused or held batches come first."), el("div", { class: "heat" }, parts.table("Batches by partition and verdict", columns, rows)));
  }

  function shade(n, all, name, topic, partition, run) {
    if (!n) return el("span", { class: "zero" }, "0");
    const level = Math.min(5, Math.max(1, Math.ceil(5 * Math.sqrt(n / all))));
    const title = `${words.percent(n, all)} of ${words.count(all, "batch", "batches")}`;
    return el("a", { class: `cell ${words.verdict(name).tone} level-${level}`, title, href: link("batches", { run: run.id, topic, partition, verdict: name }) }, words.number(n));
  }

  // Missing offsets, those first that hold a partition.
  function gaps(found) {
    if (!found || !found.count) return null;
    const held = found.rows.filter((gap) => gap.status === "open").length;
    const status = (gap) => parts.badge(gap.status === "open" ? { symbol: "⧗", tone: "bad", text: "open" } : { symbol: "·", tone: "calm", text: gap.status.replaceAll("_", " ") });
    const columns = [
      { title: "Partition", cell: (gap) => el("span", { class: "name" }, visible(`${gap.topic}-${gap.partition}`)) },
      { title: "Status", cell: status },
      { title: "Missing offsets", number: true, cell: (gap) => `${words.number(gap.first_offset)} – ${words.number(gap.last_offset)}` },
      { title: "Count", number: true, cell: (gap) => words.number(gap.last_offset - gap.first_offset + 1) },
      { title: "Found on", cell: (gap) => el("span", { class: "tight" }, gap.found_on) },
      { title: "Held batches", number: true, cell: (gap) => words.number(gap.held_batches) },
      { title: "Between", wide: true, cell: (gap) => visible(`${gap.before || "the log's start"} and ${gap.after || "the log's end"}`) },
    ];
    const why = held ? "A partition is published up to its first open gap. Batches behind it are held until a copy has the missing offsets." : "No partition is held behind missing offsets.";
    return section("gaps", "Gaps", el("p", { class: "soft" }, why), parts.table(`Offsets that were in no copy: ${words.count(found.count, "range")}`, columns, found.rows));
  }

  function expectations(data, before, dayBefore) {
    const was = new Map(((before && before.expectations) || []).map((each) => [`${each.suite}/${each.expectation}`, each.success]));
    const judged = (each) => (each.success === null ? { symbol: "○", tone: "calm", text: "off" } : each.success ? { symbol: "✓", tone: "good", text: "met" } : each.severity === "critical" ? { symbol: "✕", tone: "bad", text: "failed, critical" } : { symbol: "!", tone: "warn", text: "failed, warning" });
    const news = (each) => (each.success !== null && typeof was.get(`${each.suite}/${each.expectation}`) === "boolean" && was.get(`${each.suite}/${each.expectation}`) !== each.success ? el("span", { class: "soft" }, each.success ? ` failed on ${dayBefore}` : ` was met on ${dayBefore}`) : null);
    const examples = (each) => [el("code", {}, visible(each.observed)), each.examples.length ? el("ul", { class: "remarks" }, each.examples.map((text) => el("li", {}, visible(text)))) : null];
    const docs = data.docs ? el("p", {}, el("a", { href: `docs/${data.id}/index.html` }, "Data Docs of this audit")) : null;
    const columns = [
      { title: "Result", cell: (each) => [parts.badge(judged(each)), news(each)] },
      { title: "About", cell: (each) => each.suite },
      { title: "Expectation", wide: true, cell: (each) => [visible(each.sentence), el("br"), el("code", { class: "soft" }, visible(each.expected))] },
      { title: "Found", wide: true, cell: examples },
    ];
    const [failed, met, off] = [false, true, null].map((success) => data.expectations.filter((each) => each.success === success));
    if (!data.expectations.length) return section("expectations", "Expectations", el("p", { class: "soft" }, "The run did not get to audit."));
    const failures = failed.length ? parts.table(`${words.count(failed.length, "expectation")} failed`, columns, failed) : el("p", {}, parts.badge({ symbol: "✓", tone: "good", text: `all ${met.length} met` }));
    const rest = met.length ? el("details", {}, el("summary", {}, `${words.count(met.length, "expectation")} met`), parts.table("What was expected and found", columns, met)) : null;
    const unasked = off.length ? el("details", {}, el("summary", {}, `${words.count(off.length, "expectation")} off`), parts.table("Not evaluated, because their severity is off", columns, off)) : null;
    return section("expectations", "Expectations", failures, rest, unasked, docs);
  }

  const KINDS = {
    repeated: "same or unknown producer, within 60 seconds: the application sends twice",
    resent: "same or unknown producer, later but within a day: a job was run again",
    failover: "another producer, within a day: a failover without transactions",
    replayed: "after more than a day: an old input was processed again",
  };

  function duplicates(found) {
    if (!found) return null;
    const topics = parts.table("Business ids by topic", [
      { title: "Topic", cell: (row) => visible(row[0]) },
      ...["Records", "Duplicates", "Without an id", "Unusable id"].map((title, i) => ({ title, number: true, cell: (row) => words.number(row[i + 1]) })),
    ], found.topics);
    const shown = found.producers.length < found.count ? `The first ${found.producers.length} of ${words.number(found.count)} producers with duplicates` : "Duplicates by producer and kind";
    const producers = parts.table(shown, [
      { title: "Topic", cell: (row) => visible(row.topic) },
      { title: "Producer", cell: (row) => visible(row.transactional_id || (row.producer_id < 0 ? "without an id" : `producer ${row.producer_id}`)) },
      { title: "Kind", wide: true, cell: (row) => [el("strong", {}, row.kind), ` ${KINDS[row.kind]}`] },
      { title: "Duplicates", number: true, cell: (row) => words.number(row.duplicates) },
    ], found.producers, { empty: "No record repeats the id of an earlier one." });
    return section("duplicates", "Duplicates by business id", el("p", { class: "soft" }, "Records that are not published, because an earlier one has the same id. The table ", el("code", {}, "duplicates"), " has each of them with the address of the first."), topics, producers);
  }

  function changes(run, before, topics, topicsBefore, runs) {
    const others = runs.filter((each) => each.id !== run.id);
    if (!others.length) return section("changes", "What changed", el("p", { class: "soft" }, "There is no other run to compare with."));
    const picker = parts.runPicker(others, before && before.id, "run", { run: run.id }, { name: "with", id: "compared-run", label: "Compare with " });
    if (!before) return section("changes", "What changed", picker, el("p", { class: "soft" }, "There is no run of an earlier date."));
    const pick = [["Records published", (each) => each.records], ["Bytes staged", (each) => each.bytes, words.bytes], ["Batches", (each) => each.batches], ...words.VERDICTS.map((name) => [`Batches ${words.verdict(name).text}`, (each) => each.verdicts[name] || 0]), ...words.OUTCOMES.map((name) => [`Transactions ${name}`, (each) => each.outcomes[name] || 0]), ["LSO lag", (each) => each.lag], ["Time worked", (each) => each.seconds, words.seconds]];
    const nameOf = (each) => (run.day === before.day ? each.id : each.day);
    const rows = pick.map(([name, of, format = words.number]) => ({ name, format, now: of(run), before: of(before) })).filter((row) => (row.now || row.before) && row.now !== row.before);
    const shift = (row) => (row.before ? `${row.now >= row.before ? "▲ +" : "▼ −"}${Math.abs((100 * ((row.now || 0) - row.before)) / row.before).toLocaleString("en", { maximumFractionDigits: 1 })} %` : "▲ new");
    const table = parts.table(`Against the run of ${before.day}`, [
      { title: "Number", cell: (row) => row.name },
      { title: nameOf(before), number: true, cell: (row) => row.format(row.before) },
      { title: nameOf(run), number: true, cell: (row) => row.format(row.now) },
      { title: "Change", number: true, cell: shift },
    ], rows, { empty: "All numbers are the same." });
    return section("changes", "What changed", picker, el("p", {}, "Compared with ", runLink(before.id, `the run of ${before.day}`), "."), topicChanges(topics || [], topicsBefore || []), table);
  }

  function topicChanges(now, before) {
    const [fresh, earlier] = [new Set(now.filter(hasNews).map((each) => each.code)), new Set(before.map((each) => each.code))];
    const list = (text, found) => (found.length ? el("p", {}, `${text}: `, found.slice(0, 20).flatMap((each, i) => [i ? ", " : "", topicLink(each.code, each.name)]), found.length > 20 ? ` and ${found.length - 20} more` : "") : null);
    return el("div", {}, list("New topics", now.filter((each) => !earlier.has(each.code))), list("Topics without new batches, which had some", before.filter((each) => hasNews(each) && !fresh.has(each.code))));
  }

  function quarantine(run) {
    const kinds = Object.entries(run.quarantine);
    return kinds.length ? el("p", {}, "Quarantine: ", kinds.map(([kind, n]) => `${words.number(n)} ${kind}`).join(", "), ". The table ", el("code", {}, "quarantine"), " has the bytes and the reason of each.") : null;
  }

  parts.start(async (index) => {
    const runs = await onceover.loadRuns(index, ENOUGH);
    const run = parts.chosenRun(runs);
    document.title = `Run of ${run.day} · Onceover`;
    const newestFirst = [...runs].reverse();
    const chosen = newestFirst.find((each) => each.id === onceover.fragment().get("with") && each.id !== run.id);
    const before = chosen || newestFirst.find((each) => each.status === "final" && each.day < run.day);
    const of = (each, name) => (each ? onceover.load(`run/${each.id}/${name}`) : null);
    const [data, partitions, topics, copies, dataBefore, topicsBefore] = await Promise.all([of(run, "run"), of(run, "partitions"), of(run, "topics"), of(run, "sources"), of(before, "run"), of(before, "topics")]);
    return [...head(run, runs), steps(data), expectations(data, dataBefore, before && before.day), gaps(data.gaps), heat(partitions, run), duplicates(data.duplicates), quarantine(run), changes(run, before, topics, topicsBefore, runs), inputs(data, copies)].filter(Boolean);
  });
})();
