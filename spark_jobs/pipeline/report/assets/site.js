// What all pages share: loading data files on demand, building elements from text, and links.
"use strict";

const onceover = (() => {
  const pending = new Map();
  let version = String(Date.now());

  // Data files call this. A page opened as a file may load scripts, but not fetch.
  function take([name, value]) {
    pending.get(name).resolve(value);
  }

  // The value of a data file; null if the site has no such file.
  function load(name) {
    if (!pending.has(name)) {
      const entry = {};
      entry.promise = new Promise((resolve) => {
        entry.resolve = resolve;
      });
      pending.set(name, entry);
      const script = document.createElement("script");
      script.src = `data/${name}.js?${version}`;
      script.addEventListener("error", () => entry.resolve(null));
      document.head.append(script);
    }
    return pending.get(name).promise;
  }

  async function loadIndex() {
    const index = await load("index");
    if (index) {
      version = encodeURIComponent(index.built);
      const built = document.getElementById("built");
      built.replaceChildren(" · as of ", time(index.built));
    }
    return index;
  }

  // Runs of the newest years, newest last, until there are enough of them.
  async function loadRuns(index, enough) {
    let runs = [];
    for (const year of [...index.years].reverse()) {
      if (runs.length >= enough) break;
      runs = [...((await load(`runs/${year}`)) || []), ...runs];
    }
    return runs;
  }

  // An element; children are elements or text, and text stays text whatever it holds.
  function el(tag, attributes = {}, ...children) {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "on") {
        for (const [event, handler] of Object.entries(value)) found.addEventListener(event, handler);
      } else if (value === true) found.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) found.setAttribute(name, value);
    }
    found.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return found;
  }

  const time = (iso) => {
    const shown = `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
    return el("time", { datetime: iso }, shown);
  };

  const fragment = () => new URLSearchParams(location.hash.slice(1));
  const link = (page, parameters) => `${page}.html#${new URLSearchParams(parameters)}`;
  const runLink = (id, text = id) => el("a", { href: link("run", { run: id }) }, text);
  const topicLink = (code, name) => el("a", { class: "name", href: link("topic", { topic: code }) }, visible(name));

  // Names may hold characters that cannot be seen, or that turn the line around.
  function visible(text) {
    return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
  }

  const visibleLines = (text) => text.split("\n").map(visible).join("\n");

  // Whether a run brought something new of a topic; a copy of a log brings what is known again.
  const hasNews = (row) => row.records > 0 || row.batches > (row.verdicts.overlap || 0);

  return { take, load, loadIndex, loadRuns, el, time, fragment, link, runLink, topicLink, visible, visibleLines, hasNews };
})();
