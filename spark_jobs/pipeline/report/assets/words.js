// Numbers with their units; statuses, verdicts and outcomes with a symbol, so that colour is never the only sign.
"use strict";

onceover.words = (() => {
  const whole = new Intl.NumberFormat("en");
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const NONE = "–";

  const count = (n, unit, units = `${unit}s`) => (n === null || n === undefined ? NONE : `${whole.format(n)} ${n === 1 ? unit : units}`);
  const number = (n) => (n === null || n === undefined ? NONE : whole.format(n));
  const compact = (n) => (n === null || n === undefined ? NONE : Math.abs(n) < 100000 ? whole.format(n) : short.format(n));

  function bytes(n) {
    if (n === null || n === undefined) return NONE;
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (n >= 1024 && unit < units.length - 1) {
      n /= 1024;
      unit += 1;
    }
    return `${n.toLocaleString("en", { maximumFractionDigits: n < 10 && unit ? 1 : 0 })} ${units[unit]}`;
  }

  function seconds(n) {
    if (n === null || n === undefined) return NONE;
    if (n < 100) return `${n.toFixed(1)} s`;
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = parts.findIndex(([size]) => n >= size);
    const [big, small] = [parts[first], parts[first + 1]];
    const rest = small ? Math.floor((n % big[0]) / small[0]) : 0;
    return `${Math.floor(n / big[0])} ${big[1]}${rest ? ` ${rest} ${small[1]}` : ""}`;
  }

  const percent = (part, all) => (all ? `${((100 * part) / all).toLocaleString("en", { maximumFractionDigits: 2 })} %` : NONE);

  const STATUS = {
    final: { symbol: "✓", tone: "good", text: "published" },
    done: { symbol: "○", tone: "calm", text: "done, not final" },
    running: { symbol: "…", tone: "calm", text: "running" },
    failed: { symbol: "✕", tone: "bad", text: "failed" },
    interrupted: { symbol: "‖", tone: "warn", text: "interrupted" },
    replaced: { symbol: "↺", tone: "calm", text: "replaced by a later run" },
    "rolled back": { symbol: "↶", tone: "warn", text: "rolled back" },
    warned: { symbol: "!", tone: "warn", text: "published, with warnings" },
    held: { symbol: "⧗", tone: "bad", text: "published, but partitions are held" },
    none: { symbol: "·", tone: "none", text: "no run" },
  };

  // A final run with failed expectations, or one that ended before publish, has a status of its own.
  function statusOf(run) {
    if (!run) return STATUS.none;
    if (run.status === "final" && run.critical) return STATUS.held;
    if (run.status === "final" && run.warnings) return STATUS.warned;
    if (run.status === "final" && !run.published) return { ...STATUS.final, text: `final after ${run.step}` };
    return STATUS[run.status];
  }

  const { verdicts, outcomes, refused, plain, counts } = onceover.labels; // assets/labels.js, written from their definitions in Python
  const known = (table) => (name) => {
    const [symbol, tone, meaning, group] = table[name] || ["?", "calm", "", ""];
    return { symbol, tone, meaning, group, text: name.replaceAll("_", " ") };
  };

  const counted = (step, name) => counts[`${step}.${name}`] || name.replaceAll("_", " ");

  return {
    count, counted, number, compact, bytes, seconds, percent, statusOf, STATUS, NONE,
    verdict: known(verdicts), outcome: known(outcomes), VERDICTS: Object.keys(verdicts), OUTCOMES: Object.keys(outcomes),
    isRefused: (name) => refused.includes(name), isPlain: (name) => plain.includes(name),
  };
})();
