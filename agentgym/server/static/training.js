// A training run's curves: one plot a figure, in the order of the page; drawn when near the screen, again while the run is live.
import { curves } from "./chart.js";

const place = document.getElementById("training");
const REFRESH = 15_000;
let charts = [];

function draw(figure) {
  const { x, x_label: xLabel, lines } = charts[Number(figure.dataset.chart)];
  curves(figure.querySelector(".plot"), { xLabel, x, lines, width: figure.clientWidth, height: 190 });
  figure.dataset.drawn = "yes";
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting && !target.dataset.drawn) draw(target);
}, { rootMargin: "400px" });

function redraw() {
  for (const figure of document.querySelectorAll("figure.chart")) { delete figure.dataset.drawn; near.unobserve(figure); near.observe(figure); }
}

async function load() {
  const answer = await fetch(place.dataset.url);
  if (!answer.ok) return;
  charts = (await answer.json()).questions.flatMap((question) => question.charts);
  const figures = [...document.querySelectorAll("figure.chart")];
  if (figures.length !== charts.length) { location.reload(); return; } // a live run began to measure something more
  figures.forEach((figure, i) => {
    figure.dataset.chart = i;
    figure.querySelector(".newest").textContent = charts[i].lines.map(({ name, y }) => `${name} ${y.at(-1) === null ? "—" : Number(y.at(-1).toPrecision(4))}`).join(", ");
  });
  redraw();
  place.dataset.ready = "yes";
}

await load();
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 200); });
document.getElementById("theme").addEventListener("click", redraw);
if (place.dataset.live === "yes") setInterval(load, REFRESH);
