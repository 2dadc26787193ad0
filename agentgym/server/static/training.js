// A training run's curves: one plot a figure, in the order of the page; drawn when near the screen, again while the run is live.
const place = document.getElementById("training");
const dashes = [[], [6, 4], [2, 3], [10, 3, 2, 3], [1, 5]];
const REFRESH = 15_000;
let charts = [];

function colours() {
  const style = getComputedStyle(document.documentElement);
  const dark = style.getPropertyValue("--paper").trim() !== "#fff";
  return { ink: style.getPropertyValue("--ink").trim(), lines: dark ? ["#79b8ff", "#ffab70", "#85e89d", "#f97583", "#b392f0"] : ["#0a53be", "#b35900", "#1a7f37", "#b3131d", "#6f42c1"] };
}

function draw(figure) {
  const { x, x_label: xLabel, lines } = charts[Number(figure.dataset.chart)];
  const { ink, lines: shades } = colours();
  const axis = { stroke: ink, grid: { stroke: "#8883" } };
  const plot = figure.querySelector(".plot");
  plot.replaceChildren();
  new uPlot({
    width: Math.max(240, figure.clientWidth), height: 190, scales: { x: { time: false } }, axes: [{ ...axis, label: xLabel }, { ...axis, size: 60 }],
    series: [{ label: xLabel }, ...lines.map(({ name }, i) => ({ label: name, stroke: shades[i % shades.length], dash: dashes[Math.floor(i / shades.length) % dashes.length], width: 2, spanGaps: true, points: { show: x.length < 30 } }))],
  }, [x, ...lines.map((line) => line.y)], plot);
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
