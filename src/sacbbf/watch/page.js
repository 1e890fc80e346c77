"use strict";
const EVERY = 3000;
const $ = (id) => document.getElementById(id);
let chosen = new URLSearchParams(location.hash.slice(1)).get("run");
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

function showRuns(runs) {
  $("none").hidden = runs.length > 0;
  const order = [...runs].sort((one, other) => (other.state === "running") - (one.state === "running"));
  $("runs").replaceChildren(...order.map((run) => {
    const open = element("button", {type: "button", text: run.path});
    open.addEventListener("click", () => choose(run.path));
    const row = element("tr", {"aria-selected": String(run.path === chosen)}, element("td", {}, open));
    if (run.why) {
      row.append(element("td", {class: "unreadable", colspan: 7, text: run.why}));
      return row;
    }
    const score = run.score === null ? "-" : number(run.score, 2) + (run.interval ? ` (${number(run.interval[0], 2)} to ${number(run.interval[1], 2)})` : "");
    row.append(element("td", {text: run.env}), element("td", {text: `${run.agent}, ${run.size}`}),
      element("td", {class: run.state, text: run.state}), element("td", {class: "n", text: `${number(run.step)}/${number(run.steps)}`}),
      element("td", {class: "n", text: number(run.steps_per_second, 1)}), element("td", {class: "n", text: number(run.last_score, 1)}),
      element("td", {class: "n", text: score}));
    return row;
  }));
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
    showRuns(found.runs);
    showSweeps(found.sweeps);
    if (!chosen && found.runs.length) chosen = (found.runs.find((run) => run.state === "running") || found.runs[0]).path;
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
