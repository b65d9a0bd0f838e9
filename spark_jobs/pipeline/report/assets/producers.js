// Producers with duplicates and gaps, fenced producers, and those with too many requests in flight.
"use strict";

(() => {
  const { el, words, parts, link, visible } = onceover;
  const ENOUGH = 400;
  const section = (id, title, why, ...children) => el("section", { "aria-labelledby": id }, el("h2", { id }, title), el("p", { class: "soft" }, why), ...children);

  const who = (run) => (row) => {
    const name = row.id < 0 ? "without producer id" : String(row.id);
    return [el("a", { href: link("batches", { run: run.id, producer: row.id }) }, name), row.transactional_id === null ? null : [el("br"), el("span", { class: "soft name" }, visible(row.transactional_id))]].flat();
  };
  const where = (row) => {
    const shown = row.partitions.map(([name, n]) => `${visible(name)} (${words.number(n)})`).join(", ");
    return row.partition_count > row.partitions.length ? `${shown} and ${row.partition_count - row.partitions.length} more` : shown;
  };
  const epochs = (row) => row.epochs.map(([epoch, n]) => `${epoch} (${words.number(n)})`).slice(0, 8).join(", ");
  const count = (name) => ({ title: words.verdict(name).text, number: true, cell: (row) => (row.verdicts[name] ? words.number(row.verdicts[name]) : "0") });
  const having = (rows, ...names) => rows.filter((row) => names.some((name) => row.verdicts[name])).sort((a, b) => names.reduce((sum, name) => sum + (b.verdicts[name] || 0) - (a.verdicts[name] || 0), 0));

  function draw(data, run) {
    const rows = data.producers;
    const first = { title: "Producer", cell: who(run) };
    const accepted = { title: "Accepted", number: true, cell: (row) => words.number(row.accepted) };
    const place = { title: "Where", wide: true, cell: where };
    const epoch = { title: "Epochs (batches)", cell: epochs };
    const bounded = data.count > rows.length ? el("p", { class: "notice" }, `The worst ${words.number(rows.length)} of ${words.number(data.count)} producers with problems.`) : null;
    return [
      bounded,
      section("duplicates", "Duplicates", "Retries of batches that had arrived, because the answer was lost. They change no table, but cost traffic.", parts.table("Producers by duplicates", [first, count("duplicate"), accepted, epoch, place], having(rows, "duplicate"), { empty: "No producer sent a duplicate." })),
      section("in-flight", "More than five in flight", "Retries that came after five newer batches of the same producer. A broker keeps five, so it answers OUT_OF_ORDER_SEQUENCE_NUMBER: check max.in.flight.requests.per.connection.", parts.table("Producers by late retries", [first, count("stale_duplicate"), accepted, place], having(rows, "stale_duplicate"), { empty: "No retry came that late." })),
      section("gaps", "Gaps in sequences", "Batches whose sequence does not follow the producer's last one: earlier batches are missing.", parts.table("Producers by gaps", [first, count("out_of_order"), count("parked"), { title: "Widest, sequences", number: true, cell: (row) => words.number(row.farthest) }, epoch, place], having(rows, "out_of_order", "parked"), { empty: "No producer left a gap." })),
      section("fencing", "Epochs and fencing", "Batches of an epoch that a newer one has ended: zombies, or two instances under one transactional id.", parts.table("Fenced producers", [first, count("fenced"), count("coordinator_fenced"), { title: "Sent with epochs", cell: epochs }, { title: "Fenced by epochs", cell: (row) => row.fenced_by.join(", ") || words.NONE }, place], having(rows, "fenced", "coordinator_fenced"), { empty: "No producer was fenced." })),
      section("others", "Other refusals", "What else was wrong, by producer.", parts.table("Producers by other refusals", [first, count("invalid_transaction_state"), count("invalid_record"), count("corrupt"), count("divergent"), place], having(rows, "invalid_transaction_state", "invalid_record", "corrupt", "divergent"), { empty: "Nothing else was refused." })),
    ];
  }

  parts.start(async (index) => {
    const runs = await onceover.loadRuns(index, ENOUGH);
    const run = parts.chosenRun(runs);
    const data = await onceover.load(`run/${run.id}/producers`);
    document.title = `Producers on ${run.day} · Onceover`;
    return [parts.runPicker(runs, run.id, "producers"), el("h1", {}, `Producers on ${run.day}`), ...draw(data, run)].filter(Boolean);
  });
})();
