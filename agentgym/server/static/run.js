// One run: its curves, and its numbers while it is at work.
import { curves } from "./chart.js";

const place = document.getElementById("run");
const charts = document.getElementById("charts");
const number = (value) => value.toLocaleString("en");

function show(run) {
  const values = { status: run.status, episodes: number(run.episodes), failures: number(run.episodes - run.graded), tasks: number(run.tasks), tokens: number(run.tokens) };
  if (run.success !== null) values.success = `${Math.round(100 * run.success)}% (${Math.round(100 * run.success_low)}%–${Math.round(100 * run.success_high)}%, n = ${run.graded})`;
  for (const [name, value] of Object.entries(values)) {
    const cell = place.querySelector(`[data-show="${name}"]`);
    if (cell && value !== null) cell.textContent = value;
  }
}

async function draw() {
  const answer = await fetch(`/v1/runs/${place.dataset.run}/series`);
  if (!answer.ok) return;
  const found = (await answer.json()).curves.filter((one) => one.x_label === "episodes"); // the rest is the training page's
  const boxes = found.map(() => Object.assign(document.createElement("div"), { className: "chart" }));
  charts.replaceChildren(...boxes);
  found.forEach(({ name, x_label: xLabel, x, y }, i) => curves(boxes[i], { title: name, xLabel, x, lines: [{ name, y }], width: boxes[i].clientWidth, height: 200 }));
  if (!found.length) charts.textContent = "No curve yet.";
}

await draw();
charts.dataset.ready = "yes";
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 200); });
document.getElementById("theme").addEventListener("click", draw);
if (place.dataset.live === "yes") {
  const stream = new EventSource(`/v1/runs/${place.dataset.run}/events`);
  let drawn = 0;
  stream.addEventListener("progress", (event) => {
    const run = JSON.parse(event.data);
    show(run);
    if (run.episodes !== drawn) { drawn = run.episodes; draw(); }
  });
  stream.addEventListener("end", (event) => { show(JSON.parse(event.data)); stream.close(); });
}
