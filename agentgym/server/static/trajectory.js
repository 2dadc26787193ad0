// One trajectory: move by step, search inside, copy links and commands.
import { copy, moveThrough, onKey } from "./frame.js";

const steps = [...document.querySelectorAll(".step")];
const turns = [...document.querySelectorAll(".turn")];
const shown = () => steps.filter((one) => !one.closest(".turn").hidden);
const select = moveThrough(shown, (step) => {
  history.replaceState(null, "", `#${step.id}`);
  step.focus({ preventScroll: true });
});

onKey("x", () => {
  const all = shown();
  const now = all.findIndex((one) => one.classList.contains("current"));
  const next = all.slice(now + 1).find((one) => one.matches(".invalid, .failing, .flagged"));
  if (next) select(next);
});
onKey("t", () => document.getElementById("tokens-link").click());
onKey("c", () => copy(location.href));
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button.dataset.copy));
for (const button of document.querySelectorAll("[data-copy-link]")) {
  button.addEventListener("click", () => copy(`curl -s ${location.origin}${button.dataset.copyLink}`));
}

const find = document.getElementById("find");
find?.addEventListener("input", () => {
  const sought = find.value.toLowerCase();
  let count = 0;
  for (const turn of turns) {
    turn.hidden = Boolean(sought) && !turn.textContent.toLowerCase().includes(sought);
    if (!turn.hidden) count += 1;
  }
  document.getElementById("found").textContent = sought ? `${count} of ${turns.length} calls` : "";
});

// A link to a step lands on it although the steps above have not been laid out yet.
const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
if (target) requestAnimationFrame(() => target.matches(".step") ? select(target) : target.scrollIntoView());
