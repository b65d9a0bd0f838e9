// One topic over time: volume, refused batches, partitions and key skew. Without a topic: all of them.
"use strict";

(() => {
  const { el, words, charts, parts, link, topicLink, visible, visibleLines, hasNews } = onceover;
  const MONTHS = 12;
  const section = (id, title, ...children) => el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...children);

  async function list() {
    const recent = await onceover.load("recent");
    const topics = recent ? recent.topics : [];
    const freshness = (await onceover.load("freshness")) || {};
    const holder = el("div");
    const columns = [
      { title: "Topic", cell: (topic) => topicLink(topic.code, topic.name) },
      { title: "Newest record", cell: (topic) => parts.newest(freshness[topic.code]) },
      { title: "Records, last run", number: true, cell: (topic) => words.number(topic.records.at(-1)) },
      { title: "New batches", number: true, cell: (topic) => words.number(topic.batches.at(-1) - topic.overlap.at(-1)) },
      { title: "Duplicates", number: true, cell: (topic) => words.number(topic.duplicate.at(-1)) },
      { title: "Out of order", number: true, cell: (topic) => words.number(topic.out_of_order.at(-1)) },
      { title: "Corrupt", number: true, cell: (topic) => words.number(topic.corrupt.at(-1)) },
    ];
    const show = (wanted) => holder.replaceChildren(parts.table("Topics of the last 28 runs", columns, topics.filter((topic) => topic.name.toLowerCase().includes(wanted.toLowerCase())), { empty: "No such topic." }));
    const search = el("input", { type: "search", id: "find-topic", on: { input: () => show(search.value) } });
    show("");
    document.title = "Topics · Onceover";
    return [el("h1", {}, "Topics"), el("p", { class: "picker" }, el("label", { for: "find-topic" }, "Find a topic "), search), holder];
  }

  async function one(index, code) {
    const months = Object.keys(index.months).slice(-MONTHS).filter((month) => index.months[month].includes(code[0]));
    const found = (await Promise.all(months.map((month) => onceover.load(`topics/${code[0]}/${month}`)))).map((shard) => shard && shard[code]).filter(Boolean);
    if (!found.length) return [el("h1", {}, "Topic"), el("p", { class: "notice" }, "No run of the last twelve months knows this topic. ", el("a", { href: "topic.html" }, "All topics"))];
    const rows = found.flatMap((part) => part.rows.map(([day, run, records, batches, verdicts, lag]) => ({ day, run, records, batches, verdicts, lag })));
    const last = rows.at(-1);
    const news = rows.filter(hasNews);
    const shard = await onceover.load(`run/${last.run}/topic/${code[0]}`);
    const detail = shard[code];
    const freshness = (await onceover.load("freshness"))?.[code];
    const published = (await onceover.load("tables"))?.[code];
    const name = visible(detail.name);
    document.title = `${name} · Onceover`;
    return [el("p", {}, el("a", { href: "topic.html" }, "All topics")), el("h1", { class: "name" }, name), el("p", { class: "soft" }, `Seen in ${words.count(rows.length, "run")}; `, news.length ? [`new batches or records in ${words.number(news.length)}, the last on `, onceover.runLink(news.at(-1).run, news.at(-1).day), "."] : "no new batches or records."), el("dl", { class: "facts" }, el("dt", {}, "Newest record"), el("dd", { id: "newest" }, parts.newest(freshness))), volumes(rows), partitions(detail, last), keys(detail.keys), table(published), findKey(published, detail.name)].filter(Boolean);
  }

  function volumes(rows) {
    const days = rows.map((row) => row.day);
    const of = (name, pick, tone) => ({ name, values: rows.map(pick), tone });
    const verdict = (name) => (row) => row.verdicts[name] || 0;
    return section(
      "volume",
      "Over time",
      el(
        "div",
        { class: "charts" },
        charts.chart({ title: "Volume", what: "records published per run", days, kind: "bars", series: [of("records", (row) => row.records, "accent")] }),
        charts.chart({ title: "Batches", what: "batches accepted per run", days, kind: "bars", series: [of("accepted", verdict("accepted"), "good")] }),
        charts.chart({ title: "Duplicates", what: "batches that a producer sent again, per run", days, series: [of("duplicate", verdict("duplicate"), "calm"), of("stale duplicate", verdict("stale_duplicate"), "warn")] }),
        charts.chart({ title: "Out of order and corrupt", what: "batches and stretches of bytes per run", days, series: [of("out of order", verdict("out_of_order"), "warn"), of("corrupt", verdict("corrupt"), "bad")] }),
        charts.chart({ title: "LSO lag", what: "offsets that readers cannot reach yet", days, kind: "bars", series: [of("lag", (row) => row.lag, "warn")] }),
      ),
    );
  }

  function partitions(detail, last) {
    const rows = detail.partitions.map(([partition, verdicts, records, start, end, producers, lag, undecided, held]) => ({ partition, verdicts, records, start, end, producers, lag, undecided, held }));
    const most = Math.max(...rows.map((row) => row.records), 1);
    const all = rows.reduce((sum, row) => sum + row.records, 0);
    const even = all / rows.length || 1;
    const others = (row) => Object.entries(row.verdicts).filter(([name]) => name !== "accepted").map(([name, n]) => el("a", { href: link("batches", { run: last.run, topic: detail.name, partition: row.partition, verdict: name }) }, `${words.number(n)} ${words.verdict(name).text}`)).flatMap((each, i) => (i ? [", ", each] : [each]));
    const skew = all ? `The largest partition has ${(most / even).toFixed(2)} times its even share of ${words.count(Math.round(even), "record")}.` : "";
    return section("partitions", "Partitions", el("p", {}, skew), parts.table(`Partitions on ${last.day}`, [
      { title: "Partition", cell: (row) => String(row.partition) },
      { title: "Records", number: true, cell: (row) => [words.number(row.records), el("meter", { class: "bar", min: 0, max: most, value: row.records, "aria-hidden": "true" })] },
      { title: "Offsets", number: true, cell: (row) => `${words.number(row.start)} – ${words.number(row.end)}` },
      { title: "Accepted", number: true, cell: (row) => words.number(row.verdicts.accepted || 0) },
      { title: "Not accepted", wide: true, cell: (row) => (others(row).length ? others(row) : words.NONE) },
      { title: "Producers", number: true, cell: (row) => words.number(row.producers) },
      { title: "LSO lag", number: true, cell: (row) => words.number(row.lag) },
      { title: "Held batches", number: true, cell: (row) => words.number(row.held) },
    ], rows));
  }

  const query = (engine, text) => [el("h3", {}, engine), el("pre", { tabindex: "0", role: "region", "aria-label": `Query for ${engine}` }, visibleLines(text))];

  function table(found) {
    if (!found) return section("table", "Table", el("p", { class: "soft" }, "No run has published this topic yet."));
    const facts = [["Name", found.name], ["Location", found.location]].map(([title, text]) => [el("dt", {}, title), el("dd", {}, el("code", { class: "name" }, visible(text)))]);
    return section("table", "Table", el("dl", { class: "facts" }, facts.flat()), query("Python with DuckDB", found.python), query("Spark SQL", found.spark));
  }

  // A key as hexadecimal digits: text as UTF-8, or bytes as 0x and digits.
  const hex = (key) => (/^0x([0-9a-f]{2})*$/i.test(key) ? key.slice(2) : [...new TextEncoder().encode(key)].map((byte) => byte.toString(16).padStart(2, "0")).join(""));

  // Pages hold no records: they give the query that finds those of a key.
  function findKey(found, topic) {
    if (!found || !found.find_in_python) return null;
    const holder = el("div", { id: "key-queries" });
    const show = (key) => holder.replaceChildren(...(key ? [...query("Python: records of the key", found.find_in_python.join(hex(key))), ...query("Spark SQL: records of the key", found.find_in_spark.join(hex(key)))] : []));
    const input = el("input", { type: "search", id: "find-key", autocomplete: "off", on: { input: () => show(input.value) } });
    const explorer = el("a", { href: link("batches", { topic }) }, "batch explorer");
    return section("find", "Find a key", el("p", { class: "soft" }, "Type a key as text, or as 0x and hexadecimal digits, to get a query for its records. The ", explorer, " shows the batch of an offset that the query returns."), el("p", { class: "picker" }, el("label", { for: "find-key" }, "Key "), input), holder);
  }

  function keys(skew) {
    if (!skew) return section("keys", "Keys", el("p", { class: "soft" }, "The last run published no record of this topic."));
    const sampled = `${words.count(skew.sampled, "record")} sampled, ${words.number(skew.without)} without a key, ${words.count(skew.distinct, "different key")}.`;
    return section("keys", "Key skew", el("p", {}, sampled), parts.table("The most frequent keys of the sample", [
      { title: "Key", cell: (row) => el("code", { class: "name" }, visible(row[0])) },
      { title: "Records", number: true, cell: (row) => words.number(row[1]) },
      { title: "Share", number: true, cell: (row) => words.percent(row[1], skew.sampled) },
    ], skew.top, { empty: "No record has a key." }));
  }

  parts.start((index) => {
    const code = onceover.fragment().get("topic");
    return code && /^[0-9a-f]{16}$/.test(code) ? one(index, code) : list();
  });
})();
