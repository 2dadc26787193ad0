// The token heat map: columns from the API, drawn a block at a time as the reader comes near it.
import { onKey } from "./frame.js";
import { scales } from "./scales.js";

const BLOCK = 400;
const heat = document.getElementById("heat");
const panel = document.getElementById("token");
const colour = document.getElementById("colour");
const update = document.getElementById("update");
const show = document.getElementById("show");
const legend = document.getElementById("legend");
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => escapes[sign]);

let data = null;
let scale = null;
let current = -1;

function draw(block) {
  const first = Number(block.dataset.first), last = Math.min(first + BLOCK, data.ids.length);
  const asText = show.value === "text" && data.pieces;
  const parts = [];
  for (let at = first; at < last; at += 1) {
    if (begins(at)) {
      parts.push(`<span class="mark" id="call-${data.call[at]}">call ${data.call[at]}, version ${data.version[at]}${event(data.call[at])}</span>`);
    }
    const text = asText ? escaped(data.pieces[data.ids[at]]).replaceAll("\n", "⏎\n") : `${data.ids[at]} `;
    const shade = data.sampled[at] ? scale.classOf(at) : "";
    parts.push(`<i data-at="${at}" class="${data.sampled[at] ? "s" : "p"}${data.kept?.[at] === 0 ? " cut" : ""}${shade ? ` ${shade}` : ""}">${text}</i>`);
  }
  block.innerHTML = parts.join("");
  block.dataset.drawn = "yes";
}

function event(call) {
  const found = data.context_events.find((one) => one.call === call);
  return found ? `, context ${found.event}` : "";
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
}, { rootMargin: "1500px" });

function redraw() {
  scale = scales[colour.value](data);
  legend.replaceChildren(...scale.legend.map(([name, label]) => {
    const key = document.createElement("li");
    const patch = document.createElement("i");
    patch.className = name;
    patch.textContent = "  ";
    key.append(patch, ` ${label}`);
    return key;
  }));
  for (const block of heat.children) delete block.dataset.drawn;
  for (const block of heat.children) { near.unobserve(block); near.observe(block); }
}

function blockOf(at) {
  const block = heat.children[Math.floor(at / BLOCK)];
  if (!block.dataset.drawn) draw(block);
  return block;
}

/** Into view, and it stays there while the blocks around it are drawn and take their places. */
function bring(token, frames = 40) {
  const { top, bottom } = token.getBoundingClientRect();
  if (top < panel.parentElement.getBoundingClientRect().bottom || bottom > innerHeight) token.scrollIntoView({ block: "center" });
  if (frames && token.matches(".at")) requestAnimationFrame(() => bring(token, frames - 1));
}

function point(at, scroll) {
  if (at < 0 || at >= data.ids.length) return;
  current = at;
  heat.querySelector(".at")?.classList.remove("at");
  const token = blockOf(at).querySelector(`[data-at="${at}"]`);
  token.classList.add("at");
  if (scroll) bring(token);
  const facts = [`position ${at}`, `id ${data.ids[at]}`];
  if (data.pieces) facts.push(JSON.stringify(data.pieces[data.ids[at]]));
  if (data.sampled[at]) {
    facts.push(`logprob ${data.logprobs[at]} nats (p = ${Math.exp(data.logprobs[at]).toPrecision(3)})`, `version ${data.version[at]}`);
    for (const name of ["advantage", "ratio", "value"]) if (data[name]) facts.push(`${name} ${data[name][at]}`);
    if (data.kept?.[at] === 0) facts.push("masked by the objective");
  } else facts.push("not sampled: masked");
  facts.push(`call ${data.call[at]}`);
  panel.textContent = facts.join(" · ");
}

const begins = (at) => data.sampled[at] && (at === 0 || !data.sampled[at - 1] || data.call[at] !== data.call[at - 1]);

/** To where the next, or the previous, call began to sample. */
function toCall(by) {
  let at = current < 0 && by < 0 ? data.ids.length : current;
  do at += by; while (at >= 0 && at < data.ids.length && !begins(at));
  point(at, true);
}

function land() {
  const wanted = /^#call-(\d+)$/.exec(location.hash);
  if (wanted) point(data.call.findIndex((one, place) => one === Number(wanted[1]) && data.sampled[place]), true);
}

/** Advantage, ratio, value and mask of one update, beside the tokens; the choice of updates where there are several. */
async function credit(query) {
  const answer = await fetch(heat.dataset.credit + query);
  if (!answer.ok) { panel.textContent = (await answer.json()).detail; return; }
  const { updates, advantage, ratio, value, kept } = await answer.json();
  Object.assign(data, { advantage, ratio, value, kept });
  for (const choice of colour.options) if (choice.dataset.needs) choice.disabled = !data[choice.dataset.needs];
  if (colour.selectedOptions[0].disabled) colour.value = "logprob";
  if (!update.options.length) {
    for (const one of updates) {
      const query = new URLSearchParams({ run_id: one.run_id, step: one.step });
      update.add(new Option(`${one.run_id}, update ${one.step} (version ${one.version})`, `&${query}`));
    }
    update.closest("label").hidden = !updates.length;
    document.getElementById("unlearned").hidden = Boolean(updates.length);
  }
}

const answer = await fetch(heat.dataset.url);
data = await answer.json();
if (!answer.ok) panel.textContent = data.detail;
else {
  await credit("");
  heat.replaceChildren();
  for (let first = 0; first < data.ids.length; first += BLOCK) {
    const block = document.createElement("div");
    block.className = "block";
    block.dataset.first = first;
    heat.append(block);
  }
  redraw();
  if (!data.pieces) panel.textContent = "This machine does not have the model's tokenizer: ids are shown.";
  heat.dataset.ready = "yes";
  land();
}
addEventListener("hashchange", land);
/** A pointer that rests while the page scrolls under it points at nothing. */
const pointed = (event) => { const at = event.target.dataset?.at; if (at && (event.type === "click" || event.movementX || event.movementY)) point(Number(at), false); };
for (const kind of ["mousemove", "click"]) heat.addEventListener(kind, pointed);
document.getElementById("next").addEventListener("click", () => toCall(1));
document.getElementById("previous").addEventListener("click", () => toCall(-1));
colour.addEventListener("change", redraw);
show.addEventListener("change", redraw);
update.addEventListener("change", async () => { await credit(update.value); redraw(); if (current >= 0) point(current, false); });
onKey("ArrowRight", () => point(current + 1, true));
onKey("ArrowLeft", () => point(current - 1, true));
onKey("j", () => toCall(1));
onKey("k", () => toCall(-1));
onKey("h", () => colour.focus());
