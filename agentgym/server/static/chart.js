// Curves, drawn one way wherever they stand: in the page's colours, and on a scale that says something of values that are all equal.
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [1, 5]];

function colours() {
  const style = getComputedStyle(document.documentElement);
  const dark = style.getPropertyValue("--paper").trim() !== "#fff";
  return { ink: style.getPropertyValue("--ink").trim(), lines: dark ? ["#79b8ff", "#ffab70", "#85e89d", "#f97583", "#b392f0"] : ["#0a53be", "#b35900", "#1a7f37", "#b3131d", "#6f42c1"] };
}

/** Around one value: from or to zero where it is none, and up to one where it is zero. */
function range(plot, low, high) {
  if (low === null) return [0, 1];
  if (low !== high) return uPlot.rangeNum(low, high, 0.1, true);
  return low === 0 ? [0, 1] : [Math.min(0, 1.2 * low), Math.max(0, 1.2 * low)];
}

/** place: emptied and filled. lines: [{name, y}], each y as long as x. */
export function curves(place, { title, xLabel, x, lines, width, height }) {
  const { ink, lines: shades } = colours();
  const axis = { stroke: ink, grid: { stroke: "#8883" } };
  place.replaceChildren();
  return new uPlot({
    title, width: Math.max(240, width), height, scales: { x: { time: false }, y: { range } }, axes: [{ ...axis, label: xLabel }, { ...axis, size: 60 }],
    series: [{ label: xLabel }, ...lines.map(({ name }, i) => ({ label: name, stroke: shades[i % shades.length], dash: DASHES[Math.floor(i / shades.length) % DASHES.length], width: 2, spanGaps: true, points: { show: x.length < 30 } }))],
  }, [x, ...lines.map((line) => line.y)], place);
}
