// How a number becomes a colour: per scale, the class of a sampled token, and the legend that says what each class means.
// h1…h5 grow in one hue; n1…n4 and g1…g4 grow away from nothing in two; v0…v5 only tell apart.

const digits = (value) => Number(value.toPrecision(2)).toString();

/** −log p in nats, or the value itself: one hue by thresholds. */
function ladder(edges, unit, of) {
  return {
    classOf: (at) => { const value = of(at); const step = edges.findIndex((edge) => value < edge); return `h${step < 0 ? edges.length : step}`; },
    legend: [["h0", `< ${edges[0]} ${unit}`], ...edges.slice(1).map((edge, i) => [`h${i + 1}`, `${edges[i]}–${edge}`]), [`h${edges.length}`, `≥ ${edges.at(-1)}`]],
  };
}

/** Two hues away from `middle`; four steps each way up to the 99th percentile of the distance. */
function diverging(column, middle, lower, upper) {
  const distances = column.filter((value) => value !== null).map((value) => Math.abs(value - middle)).sort((a, b) => a - b);
  const most = distances[Math.floor(0.99 * (distances.length - 1))] || 1e-9;
  const step = (value) => Math.min(4, Math.ceil(4 * Math.abs(value - middle) / most - 0.5));
  return {
    classOf: (at) => { const value = column[at]; const by = step(value); return by ? `${value < middle ? "n" : "g"}${by}` : ""; },
    legend: [["n4", `${lower} (≤ ${digits(middle - most)})`], ["n2", ""], ["", digits(middle)], ["g2", ""], ["g4", `${upper} (≥ ${digits(middle + most)})`]],
  };
}

function sequential(column) {
  const values = column.filter((value) => value !== null).sort((a, b) => a - b);
  const low = values[Math.floor(0.01 * (values.length - 1))] ?? 0, high = values[Math.floor(0.99 * (values.length - 1))] ?? 1;
  const step = (value) => Math.max(0, Math.min(5, Math.round(5 * (value - low) / (high - low || 1))));
  return {
    classOf: (at) => `h${step(column[at])}`,
    legend: [0, 1, 2, 3, 4, 5].map((by) => [`h${by}`, digits(low + by * (high - low) / 5)]),
  };
}

function apart(places, label) {
  return {
    classOf: (at) => `v${places(at) % 6}`,
    legend: label.slice(0, 12).map((text, place) => [`v${place % 6}`, text]),
  };
}

export const scales = {
  logprob: (data) => ladder([0.1, 0.5, 1, 2, 4], "nats below certain", (at) => -data.logprobs[at]),
  mask: (data) => ({
    classOf: (at) => (data.kept?.[at] === 0 ? "n3" : "g3"),
    legend: [["g3", "sampled: trained on"], ["n3", "sampled, masked by the objective"], ["", "not sampled: never trained on"]],
  }),
  version: (data) => {
    const versions = [...new Set(data.version)].filter((one) => one >= 0);
    return apart((at) => versions.indexOf(data.version[at]), versions.map((one) => `version ${one}`));
  },
  call: (data) => apart((at) => data.call[at], ["calls in turn"]),
  advantage: (data) => diverging(data.advantage, 0, "less of this", "more of this"),
  ratio: (data) => diverging(data.ratio, 1, "policy samples it less now", "more now"),
  value: (data) => sequential(data.value),
};
