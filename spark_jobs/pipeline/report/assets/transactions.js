// Undecided transactions, what they hold back, how far the copies reach and how to end them; and the longest ones.
"use strict";

(() => {
  const { el, words, parts, visible } = onceover;
  const ENOUGH = 400;
  const at = (ms) => (ms === null || ms < 0 ? words.NONE : onceover.time(new Date(ms).toISOString()));
  const span = (ms) => (ms === null ? words.NONE : words.seconds(ms / 1000));

  const owner = (row) => (row.transactional_id === null ? el("span", { class: "soft" }, "unknown") : el("span", { class: "name" }, visible(row.transactional_id)));
  const who = { title: "Transactional id, producer", cell: (row) => [owner(row), el("br"), el("span", { class: "soft tight" }, `${row.producer_id} epoch ${row.producer_epoch}`)] };
  const where = { title: "Partitions, from offset", wide: true, cell: (row) => row.partitions_found.slice(0, 12).map((name, i) => `${visible(name)} from ${words.number(row.first_offsets[i])}`).join(", ") + (row.partitions_found.length > 12 ? ` and ${row.partitions_found.length - 12} more` : "") };
  const size = { title: "Size", number: true, cell: (row) => [words.count(row.records, "record"), el("br"), words.count(row.batches, "batch", "batches")] };

  function why(row) {
    const advice = row.abort_commands.map((sentence) => el("p", { class: "notice", "aria-label": "How to check and end the transaction" }, visible(sentence)));
    return [visible(row.sentence), ...advice];
  }

  function copies(row) {
    const known = row.coordinator_time !== null && row.data_time !== null;
    const skew = known && row.coordinator_time < row.data_time ? [el("br"), el("strong", {}, `the coordinator's copy is ${span(row.data_time - row.coordinator_time)} older`)] : [];
    return ["coordinator ", at(row.coordinator_time), el("br"), "data ", at(row.data_time), ...skew];
  }

  function undecided(rows, outcome) {
    return parts.table(`${outcome} transactions`, [
      who,
      { title: "Age", number: true, cell: (row) => span(row.age_ms) },
      { title: "Holds back", number: true, cell: (row) => words.count(row.held_back, "offset") },
      where,
      { title: "Copies reach", wide: true, cell: copies },
      { title: "Why, and how to end it", wide: true, cell: why },
    ], rows);
  }

  function longest(rows) {
    return parts.table("Decided transactions by the time from begin to end", [
      who,
      { title: "Outcome", cell: (row) => parts.outcome(row.outcome) },
      { title: "Lasted", number: true, cell: (row) => span(row.end_timestamp - row.start_timestamp) },
      { title: "Timeout", number: true, cell: (row) => span(row.transaction_timeout_ms) },
      { title: "Began, ended", cell: (row) => [at(row.start_timestamp), el("br"), at(row.end_timestamp)] },
      size,
      where,
    ], rows, { empty: "No transaction with a known begin ended." });
  }

  function draw(data) {
    const sections = ["hanging", "conflict", "ongoing", "ambiguous"].map((name) => {
      const known = words.outcome(name);
      const rows = data.undecided.filter((row) => row.outcome === name);
      const title = { hanging: "Hanging", conflict: "Conflicting", ongoing: "Open", ambiguous: "Ambiguous" }[name];
      return el("section", { "aria-labelledby": name }, el("h2", { id: name }, `${known.symbol} ${title}: ${words.number(data.outcomes[name] || 0)}`), el("p", { class: "soft" }, known.meaning), rows.length ? undecided(rows, title) : null);
    });
    const ended = ["committed", "aborted"].map((name) => el("span", {}, parts.outcome(name), ` ${words.number(data.outcomes[name] || 0)} `));
    const aged = el("p", { class: "soft" }, "Age is counted from the start of the transaction to the newest time in the copies.");
    const bounded = data.undecided_count > data.undecided.length ? el("p", { class: "notice" }, `The ${words.number(data.undecided.length)} that hold back most, of ${words.number(data.undecided_count)} undecided ones; `, el("code", {}, "onceover transactions --json"), " lists all.") : null;
    return [el("p", {}, ended), aged, bounded, ...sections, el("section", { "aria-labelledby": "longest" }, el("h2", { id: "longest" }, "Longest"), longest(data.longest))];
  }

  parts.start(async (index) => {
    const runs = await onceover.loadRuns(index, ENOUGH);
    const run = parts.chosenRun(runs);
    const data = await onceover.load(`run/${run.id}/transactions`);
    document.title = `Transactions on ${run.day} · Onceover`;
    return [parts.runPicker(runs, run.id, "transactions"), el("h1", {}, `Transactions on ${run.day}`), ...draw(data)].filter(Boolean);
  });
})();
