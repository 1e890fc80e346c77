"use strict";
const EVERY = 3000;
const $ = (id) => document.getElementById(id);
let chosen = new URLSearchParams(location.hash.slice(1)).get("run");
let picked = chosen !== null;  // by a click, now or before
let media = "";
let timer, looking = false, again = false;

// Text only ever goes in as text: names come from files.
function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) key === "text" ? (made.textContent = value) : made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const number = (value, digits = 0) => value === null || value === undefined ? "-" : value.toLocaleString("en", {maximumFractionDigits: digits, minimumFractionDigits: digits});

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// Heading, what it sorts by, whether its numbers stand right, whether a narrow page has room for it.
const COLUMNS = [
  ["Run", (run) => run.path, false, true], ["Environment", (run) => run.env, false, false],
  ["Agent", (run) => `${run.agent}, ${run.size}`, false, false], ["Progress", (run) => share(run), false, true],
  ["Steps/s", (run) => run.steps_per_second, true, false], ["Last episode", (run) => run.last_score, true, false],
  ["Score", (run) => run.score, true, true]];
const share = (run) => run.state === "finished" ? 1 : run.steps ? run.step / run.steps : 0;
let sorted = null, rising = true;

function showColumns(runs) {
  $("columns").replaceChildren(...COLUMNS.map(([name, , right, always], place) => {
    const button = element("button", {type: "button", text: name});
    button.addEventListener("click", () => {
      rising = sorted === place ? !rising : !right;  // numbers begin with the largest
      sorted = place;
      showColumns(runs);
      showRuns(runs);
      $("columns").children[place].firstChild.focus();
    });
    const order = sorted === place ? (rising ? "ascending" : "descending") : "none";
    return element("th", {class: classes(right, always), scope: "col", "aria-sort": order}, button);
  }));
}
const classes = (right, always) => `${right ? "n" : ""}${always ? "" : " wide"}`.trim();

// As clicked, what has no value at the end; else what is running first, then what was written last.
function inOrder(runs) {
  if (sorted === null) return [...runs].sort((one, other) => (other.state === "running") - (one.state === "running") || other.at - one.at);
  const value = COLUMNS[sorted][1], empty = (found) => found === null || found === undefined;
  return [...runs].sort((one, other) => {
    const [first, second] = [value(one), value(other)];
    if (empty(first) || empty(second)) return empty(first) - empty(second);
    const order = typeof first === "string" ? first.localeCompare(second, "en", {numeric: true}) : first - second;
    return rising ? order : -order;
  });
}

function progressCell(run) {
  const filled = element("i");
  filled.style.width = `${100 * share(run)}%`;
  const words = run.state === "finished" ? "finished" : `${run.state}, ${number(run.step)} of ${number(run.steps)}`;
  return element("td", {}, element("span", {class: run.state, text: words}), element("div", {class: "bar", "aria-hidden": "true"}, filled));
}

function scoreCell(run) {
  if (run.score === null) return element("td", {class: "n soft", text: run.last_score === null ? "-" : `last ${number(run.last_score, 1)}`});
  const interval = run.interval ? [element("small", {text: `${number(run.interval[0], 2)} to ${number(run.interval[1], 2)}`})] : [];
  return element("td", {class: "n"}, `${number(run.score, 2)} `, ...interval);
}

function showRuns(runs) {
  $("none").hidden = runs.length > 0;
  $("runs").replaceChildren(...inOrder(runs).map((run) => {
    const open = element("button", {type: "button", text: run.path});
    open.addEventListener("click", () => choose(run.path));
    const row = element("tr", {"aria-selected": String(run.path === chosen)}, element("td", {}, open));
    if (run.why) {
      row.append(element("td", {class: "unreadable", colspan: COLUMNS.length - 1, text: run.why}));
      return row;
    }
    row.append(element("td", {class: "wide", text: run.env}), element("td", {class: "wide", text: `${run.agent}, ${run.size}`}),
      progressCell(run), element("td", {class: "n wide", text: number(run.steps_per_second, 1)}),
      element("td", {class: "n wide", text: number(run.last_score, 1)}), scoreCell(run));
    return row;
  }));
}

// Unless one was clicked, the run that is running; the one shown stays as long as it runs.
function followed(runs) {
  const running = runs.filter((run) => run.state === "running");
  const there = runs.find((run) => run.path === chosen);
  if (there && (picked || there.state === "running" || !running.length)) return chosen;
  const next = running[0] || inOrder(runs.filter((run) => !run.why))[0];
  return next ? next.path : chosen;
}

function showSweeps(sweeps) {
  $("sweeps").hidden = sweeps.length === 0;
  $("sweep-list").replaceChildren(...sweeps.map((sweep) => {
    if (sweep.why) return element("p", {class: "failed", text: sweep.why});
    const share = sweep.steps ? Math.round(100 * sweep.step / sweep.steps) : 0;
    const counts = Object.entries(sweep.counts).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`).join(", ");
    const filled = element("i");
    filled.style.width = `${share}%`;
    const bar = element("div", {class: "bar", role: "progressbar", "aria-valuenow": share, "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": sweep.path}, filled);
    return element("div", {}, element("p", {text: `${sweep.path}: ${counts}; ${share}% of the steps`}), bar, element("p", {class: "soft", text: sweep.note || ""}));
  }));
}

function chart(title, points) {
  const [width, height, left, bottom] = [360, 190, 46, 24];
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const put = (name, attributes, text) => {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  const last = points[points.length - 1];
  svg.setAttribute("aria-label", `${title}: ${number(last[1], 2)} at step ${number(last[0])}`);
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const high = Math.max(...ys), low = Math.min(...ys, high > 0 ? 0 : high), far = Math.max(...xs, 1);
  const x = (value) => left + value / far * (width - left - 10);
  const y = (value) => height - bottom - (value - low) / (high - low || 1) * (height - bottom - 12);
  for (const tick of [low, (low + high) / 2, high]) {
    put("line", {class: "grid", x1: left, x2: width - 10, y1: y(tick), y2: y(tick)});
    put("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, number(tick, Math.abs(high - low) < 10 ? 1 : 0));
  }
  put("text", {x: width - 10, y: height - 6, "text-anchor": "end"}, `${number(far)} steps`);
  put("path", {class: "line", d: "M" + points.map((p) => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("L")});
  put("circle", {class: "end", cx: x(last[0]), cy: y(last[1]), r: 3});
  return element("figure", {}, element("figcaption", {text: `${title}: ${number(last[1], 2)}`}), svg);
}

function showDetail(run) {
  $("detail").hidden = false;
  $("detail-title").textContent = run.path;
  $("facts").textContent = `${run.env}, ${run.agent}, ${run.size}, seed ${run.seed}: ${run.state}, ${number(run.step)} of ${number(run.steps)} steps`;
  $("charts").replaceChildren(...Object.entries(run.curves).filter(([, points]) => points.length).map(([title, points]) => chart(title, points)));
  $("latest").replaceChildren(...run.latest.map(([step, score]) => element("tr", {}, element("td", {class: "n", text: number(step)}), element("td", {class: "n", text: number(score, 1)}))));
  const wanted = run.path + run.files.join();
  if (wanted === media) return;  // a video goes on playing
  media = wanted;
  $("media").replaceChildren(...run.files.map((name) => {
    const source = `/file?${new URLSearchParams({path: run.path, name})}`;
    return name.endsWith(".mp4") ? element("video", {src: source, controls: "", loop: "", muted: ""}) : element("img", {src: source, alt: `learning curve of ${run.path}`});
  }));
}

function choose(path) {
  chosen = path;
  picked = true;
  location.hash = new URLSearchParams({run: path});
  look();
}

// One question at a time, however slow the answers: the next follows the last, and a click while one is open waits for it.
async function look() {
  again = true;
  if (looking) return;
  looking = true;
  clearTimeout(timer);
  while (again) {
    again = false;
    await show();
  }
  looking = false;
  timer = setTimeout(look, EVERY);
}

async function show() {
  try {
    const found = await ask("/api/overview");
    $("where").textContent = found.directory;
    chosen = followed(found.runs);
    if (!document.activeElement.closest("#columns")) showColumns(found.runs);
    showRuns(found.runs);
    showSweeps(found.sweeps);
    const wanted = chosen;
    if (found.runs.some((run) => run.path === wanted && !run.why)) {
      const run = await ask(`/api/run?${new URLSearchParams({path: wanted})}`);
      if (wanted === chosen) showDetail(run);  // else another was chosen meanwhile
    }
    $("when").textContent = "";
  } catch (error) {
    $("when").textContent = `(not reached: ${error.message})`;
  }
}
look();
