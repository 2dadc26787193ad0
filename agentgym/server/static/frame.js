// What every page has: light or dark, the list of keys, moving through rows or steps, copying.
const root = document.documentElement;
const kept = localStorage.getItem("theme");
if (kept) root.dataset.theme = kept;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

const handlers = new Map();
/** Call `action` on a key, wherever the reader is not typing. */
export function onKey(key, action) { handlers.set(key, action); }

let pending = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const key = pending + event.key;
  pending = event.key === "g" ? "g" : "";
  const action = handlers.get(key) ?? handlers.get(event.key);
  if (action) { event.preventDefault(); action(event); }
});

/** j and k move through `elements()`; the current one has the class and is in view. */
export function moveThrough(elements, chosen = () => {}) {
  const step = (by) => {
    const all = elements();
    if (!all.length) return;
    const now = all.findIndex((one) => one.classList.contains("current"));
    const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
    select(next);
  };
  const select = (next) => {
    document.querySelectorAll(".current").forEach((one) => one.classList.remove("current"));
    next.classList.add("current");
    next.scrollIntoView({ block: "nearest" });
    chosen(next);
  };
  onKey("j", () => step(1));
  onKey("k", () => step(-1));
  return select;
}

export async function copy(text) {
  await navigator.clipboard.writeText(text);
  const said = document.getElementById("copied");
  if (said) said.textContent = "copied";
}

onKey("?", () => document.getElementById("help").showModal());
onKey("/", () => document.querySelector("input[type=search], form[role=search] input")?.focus());
onKey("gr", () => location.assign("/"));
onKey("gt", () => location.assign("/trajectories"));
const rows = document.querySelector("#rows");
if (rows) moveThrough(() => [...rows.tBodies[0].rows], (row) => row.querySelector("a").focus());
