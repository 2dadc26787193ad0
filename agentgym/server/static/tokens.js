// The token heat map: columns from the API, drawn a block at a time as the reader comes near it.
import { onKey } from "./frame.js";

const BLOCK = 400;
const heat = document.getElementById("heat");
const panel = document.getElementById("token");
const colour = document.getElementById("colour");
const show = document.getElementById("show");
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => escapes[sign]);

let data = null;
let versions = [];
let current = -1;

// −log p in nats: below 0.1 is nearly certain, above 4 is a surprise.
const heatClass = (logprob) => { const loss = -logprob; return loss < 0.1 ? 0 : loss < 0.5 ? 1 : loss < 1 ? 2 : loss < 2 ? 3 : loss < 4 ? 4 : 5; };

function classOf(at) {
  if (!data.sampled[at]) return "";
  if (colour.value === "logprob") return ` h${heatClass(data.logprobs[at])}`;
  const place = colour.value === "version" ? versions.indexOf(data.version[at]) : data.call[at];
  return ` v${place % 6}`;
}

function draw(block) {
  const first = Number(block.dataset.first), last = Math.min(first + BLOCK, data.ids.length);
  const asText = show.value === "text" && data.pieces;
  const parts = [];
  for (let at = first; at < last; at += 1) {
    if (data.sampled[at] && (at === 0 || !data.sampled[at - 1] || data.call[at] !== data.call[at - 1])) {
      parts.push(`<span class="mark" id="call-${data.call[at]}">call ${data.call[at]}, version ${data.version[at]}</span>`);
    }
    const text = asText ? escaped(data.pieces[data.ids[at]]).replaceAll("\n", "⏎\n") : `${data.ids[at]} `;
    parts.push(`<i data-at="${at}" class="${data.sampled[at] ? "s" : "p"}${classOf(at)}">${text}</i>`);
  }
  block.innerHTML = parts.join("");
  block.dataset.drawn = "yes";
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
}, { rootMargin: "1500px" });

function redraw() {
  for (const block of heat.children) delete block.dataset.drawn;
  for (const block of heat.children) { near.unobserve(block); near.observe(block); }
}

function blockOf(at) {
  const block = heat.children[Math.floor(at / BLOCK)];
  if (!block.dataset.drawn) draw(block);
  return block;
}

function point(at, scroll) {
  if (at < 0 || at >= data.ids.length) return;
  current = at;
  heat.querySelector(".at")?.classList.remove("at");
  const token = blockOf(at).querySelector(`[data-at="${at}"]`);
  token.classList.add("at");
  if (scroll) token.scrollIntoView({ block: "center" });
  const facts = [`position ${at}`, `id ${data.ids[at]}`];
  if (data.pieces) facts.push(JSON.stringify(data.pieces[data.ids[at]]));
  if (data.sampled[at]) {
    facts.push(`logprob ${data.logprobs[at]} nats (p = ${Math.exp(data.logprobs[at]).toPrecision(3)})`, `version ${data.version[at]}`);
  } else facts.push("not sampled: masked");
  facts.push(`call ${data.call[at]}`);
  panel.textContent = facts.join(" · ");
}

function toCall(by) {
  const from = current < 0 ? 0 : current;
  const call = data.call[from] + by;
  const at = data.call.findIndex((one, place) => one === call && data.sampled[place]);
  if (at >= 0) point(at, true);
}

const answer = await fetch(heat.dataset.url);
data = await answer.json();
if (!answer.ok) panel.textContent = data.detail;
else {
  versions = [...new Set(data.version)].filter((one) => one >= 0);
  heat.replaceChildren();
  for (let first = 0; first < data.ids.length; first += BLOCK) {
    const block = document.createElement("div");
    block.className = "block";
    block.dataset.first = first;
    heat.append(block);
    near.observe(block);
  }
  if (!data.pieces) panel.textContent = "This machine does not have the model's tokenizer: ids are shown.";
  heat.dataset.ready = "yes";
  const wanted = /^#call-(\d+)$/.exec(location.hash);
  if (wanted) { const at = data.call.findIndex((one, place) => one === Number(wanted[1]) && data.sampled[place]); if (at >= 0) point(at, true); }
}
heat.addEventListener("mouseover", (event) => { const at = event.target.dataset?.at; if (at) point(Number(at), false); });
colour.addEventListener("change", redraw);
show.addEventListener("change", redraw);
onKey("ArrowRight", () => point(current + 1, true));
onKey("ArrowLeft", () => point(current - 1, true));
onKey("j", () => toCall(1));
onKey("k", () => toCall(-1));
