// One trajectory: move by step, search inside, copy links and commands. Turns that are far away are fetched when they come near.
import { copy, moveThrough, onKey } from "./frame.js";

const AT_ONCE = 20, MOST = 1000;
const place = document.getElementById("turns");
const turns = () => [...document.querySelectorAll(".turn")];
const shown = () => [...document.querySelectorAll(".turn:not([hidden]) .step")];
const asked = new Map();

/** The turns of the block around `index`, in full. */
function fetchAround(index) {
  const first = Math.floor(index / AT_ONCE) * AT_ONCE;
  if (!asked.has(first)) asked.set(first, load(first, AT_ONCE));
  return asked.get(first);
}

async function load(first, count) {
  const answer = await fetch(`${place.dataset.url}?first=${first}&count=${count}`);
  if (!answer.ok) { asked.delete(first); return; }
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const whole of parsed.querySelectorAll(".turn")) {
    const shell = document.getElementById(whole.id);
    if (!shell?.matches(".shell")) continue;
    const current = shell.querySelector(".current")?.id;
    const focused = shell.contains(document.activeElement) ? document.activeElement.id : "";
    whole.hidden = shell.hidden;
    shell.replaceWith(whole);
    if (current) document.getElementById(current).classList.add("current");
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) { near.unobserve(target); fetchAround(Number(target.dataset.turn)); }
}, { rootMargin: "2000px" });
for (const shell of document.querySelectorAll(".turn.shell")) near.observe(shell);

const select = moveThrough(shown, (step) => {
  history.replaceState(null, "", `#${step.id}`);
  step.focus({ preventScroll: true });
});

onKey("x", () => {
  const all = shown();
  const now = all.findIndex((one) => one.classList.contains("current"));
  const next = all.slice(now + 1).find((one) => one.matches(".invalid, .failing, .flagged, .broke"));
  if (next) select(next);
});
onKey("t", () => document.getElementById("tokens-link").click());
onKey("c", () => copy(location.href));
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button.dataset.copy));
for (const button of document.querySelectorAll("[data-copy-link]")) {
  button.addEventListener("click", () => copy(`curl -s ${location.origin}${button.dataset.copyLink}`));
}

/** A replay on the server; its run is the next page. */
async function replay(options) {
  const config = { trajectory: decodeURIComponent(form.dataset.trajectory), ...options };
  const answer = await fetch("/v1/runs", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ kind: "replay", config }) });
  const said = await answer.json();
  if (answer.ok) location.assign(`/runs/${encodeURIComponent(said.id)}`);
  else document.getElementById("replayed").textContent = said.detail;
}

const form = document.getElementById("replay");
for (const button of form.querySelectorAll("[data-replay]")) button.addEventListener("click", () => replay(JSON.parse(button.dataset.replay)));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  replay({ from_step: form.elements.from_step.valueAsNumber, policy: form.elements.policy.value, rollouts: form.elements.rollouts.valueAsNumber });
});

const find = document.getElementById("find");
const found = document.getElementById("found");
let everything = null;
/** A search is over all of the trajectory: what was left out comes first. */
function all() {
  const first = Number(document.querySelector(".turn.shell")?.dataset.turn ?? Infinity);
  const blocks = [];
  for (let at = first; at < turns().length; at += MOST) blocks.push(load(at, MOST));
  return Promise.all(blocks);
}

find?.addEventListener("focus", () => { everything ??= all(); });
find?.addEventListener("input", async () => {
  const sought = find.value.toLowerCase();
  if (sought && document.querySelector(".turn.shell")) { found.textContent = "reading…"; everything ??= all(); await everything; if (sought !== find.value.toLowerCase()) return; }
  let count = 0;
  for (const turn of turns()) {
    turn.hidden = Boolean(sought) && !turn.textContent.toLowerCase().includes(sought);
    if (!turn.hidden) count += 1;
  }
  found.textContent = sought ? `${count} of ${turns().length} calls` : "";
});

// A link to a step lands on it although the steps above have not been laid out yet; its text is there before it is shown.
async function land() {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id && document.getElementById(id);
  const shell = target && target.closest(".turn.shell");
  if (shell) await fetchAround(Number(shell.dataset.turn));
  const now = id && document.getElementById(id);
  if (now) requestAnimationFrame(() => now.matches(".step") ? select(now) : now.scrollIntoView());
}
addEventListener("hashchange", land);
await land();
place.dataset.ready = "yes";
