// Find a batch by partition, offset, producer or verdict, and why it was accepted or refused.
"use strict";

(() => {
  const { el, words, parts, link, visible } = onceover;
  const ENOUGH = 400;
  const MOST = 200;

  const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const given = (value) => value !== null && value !== "";

  function readQuery() {
    const found = onceover.fragment();
    const number = (name) => (given(found.get(name)) && /^-?\d+$/.test(found.get(name)) ? Number(found.get(name)) : null);
    return { topic: found.get("topic") || "", partition: number("partition"), offset: number("offset"), producer: number("producer"), verdict: found.get("verdict") || "" };
  }

  // Whether a chunk can have a match; most are excluded without loading them.
  function mayHold(entry, query) {
    if (query.verdict && !entry.verdicts.includes(query.verdict)) return false;
    if (query.producer !== null) {
      const [first, last] = entry.producer_range;
      if (entry.producers ? !entry.producers.includes(query.producer) : query.producer < first || query.producer > last) return false;
    }
    return entry.parts.some(([topic, partition, first, last]) => (!query.topic || topic === query.topic) && (query.partition === null || partition === query.partition) && (query.offset === null || (first >= 0 && first <= query.offset && query.offset <= last)));
  }

  const fits = (batch, query) =>
    (!query.topic || batch.topic === query.topic) &&
    (query.partition === null || batch.partition === query.partition) &&
    (query.producer === null || batch.producer === query.producer) &&
    (!query.verdict || batch.verdict === query.verdict) &&
    (query.offset === null || (batch.offset !== null && batch.offset <= query.offset && query.offset <= batch.last));

  async function find(run, index, query) {
    const chunks = index.chunks.map((entry, i) => [entry, i]).filter(([entry]) => mayHold(entry, query));
    const found = [];
    let loaded = 0;
    for (const [, i] of chunks) {
      if (found.length >= MOST) break;
      const chunk = await onceover.load(`run/${run.id}/batches/${i}`);
      found.push(...chunk.filter((batch) => fits(batch, query)));
      loaded += 1;
    }
    return { found: found.slice(0, MOST), more: found.length > MOST || loaded < chunks.length };
  }

  function form(run, runs, index, query) {
    const field = (name, label, control) => el("p", {}, el("label", { for: name }, label), control);
    const number = (name) => el("input", { id: name, name, inputmode: "numeric", pattern: "-?[0-9]+", value: query[name] ?? "", autocomplete: "off" });
    const choice = (name, options) => el("select", { id: name, name }, el("option", { value: "" }, "any"), options.map(([value, text]) => el("option", { value, selected: value === query[name] }, text)));
    const submit = (event) => {
      event.preventDefault();
      const values = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value !== ""));
      location.assign(link("batches", { ...values, run: run.id }));
    };
    return el(
      "form",
      { class: "search", role: "search", "aria-label": "Find batches", on: { submit } },
      field("topic", "Topic", choice("topic", index.topics.map((topic) => [topic, visible(topic)]))),
      field("partition", "Partition", number("partition")),
      field("offset", "Offset", number("offset")),
      field("producer", "Producer id", number("producer")),
      field("verdict", "Verdict", choice("verdict", words.VERDICTS.map((name) => [name, words.verdict(name).text]))),
      el("p", {}, el("button", { type: "submit", id: "find" }, "Find")),
    );
  }

  function holds(index) {
    if (index.shown === index.batches) return el("p", { class: "soft" }, `All ${words.count(index.batches, "batch", "batches")} of the run are here.`);
    const troubled = index.shown_troubled === index.troubled ? `all ${words.number(index.troubled)}` : `${words.number(index.shown_troubled)} of ${words.number(index.troubled)}`;
    return el("p", { class: "notice" }, `The run has ${words.count(index.batches, "batch", "batches")}. This page holds ${troubled} that were not simply accepted, and the newest ${words.number(index.shown - index.shown_troubled)} of the others, shared out evenly over the partitions. For any other batch: `, el("code", {}, "onceover explain"), ".");
  }

  function results({ found, more }, run, query) {
    if (!found.length) {
      const command = query.topic ? `onceover explain ${quoted(query.topic)} ${query.partition ?? 0} --run ${run.id}${query.offset === null ? "" : ` --offset ${query.offset}`} --config onceover.yaml` : null;
      return [el("p", { class: "notice", id: "results" }, "No batch on this page matches.", command ? [" To search the whole run: ", el("code", {}, visible(command))] : null)];
    }
    const offsets = (batch) => (batch.offset === null ? words.NONE : batch.offset === batch.last ? words.number(batch.offset) : `${words.number(batch.offset)} – ${words.number(batch.last)}`);
    const columns = [
      { title: "Partition", cell: (batch) => el("span", { class: "name" }, visible(`${batch.topic}-${batch.partition}`)) },
      { title: "Verdict", cell: (batch) => parts.verdict(batch.verdict) },
      { title: "Offsets", number: true, cell: offsets },
      { title: "Explanation", wide: true, cell: (batch) => [visible(batch.sentence), el("br"), el("span", { class: "soft" }, visible(batch.place))] },
      { title: "Producer", number: true, cell: (batch) => (batch.producer < 0 ? words.NONE : `${batch.producer} epoch ${batch.epoch}`) },
      { title: "Size", number: true, cell: (batch) => [batch.records > 0 ? words.count(batch.records, "record") : words.NONE, el("br"), words.bytes(batch.bytes)] },
      { title: "Newest record", cell: (batch) => (batch.time > 0 ? onceover.time(new Date(batch.time).toISOString()) : words.NONE) },
    ];
    return [parts.table(more ? `The first ${found.length} matching batches` : `${words.count(found.length, "batch", "batches")} found`, columns, found)];
  }

  parts.start(async (site) => {
    const runs = await onceover.loadRuns(site, ENOUGH);
    const run = parts.chosenRun(runs);
    const index = await onceover.load(`run/${run.id}/batches`);
    const query = readQuery();
    document.title = `Batches on ${run.day} · Onceover`;
    const rest = Object.fromEntries([...onceover.fragment()].filter(([name]) => name !== "run"));
    return [parts.runPicker(runs, run.id, "batches", rest), el("h1", {}, `Batches on ${run.day}`), holds(index), form(run, runs, index, query), ...results(await find(run, index, query), run, query)];
  });
})();
