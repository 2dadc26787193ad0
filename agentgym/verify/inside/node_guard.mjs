// Loaded into Node before any file of the workspace: the reporter that signs, and what keeps tested code away from it.
//
// The tests run in this very process (--test-isolation=none), so there is no channel between processes that tested code could
// write to. The key comes on stdin and lives in one closure, which JavaScript cannot reach from outside; what could (the
// inspector, heap snapshots, loader hooks, bindings) is taken away here, or refused by Node's own --permission. What the tests
// decide with (node:assert, node:test) is frozen. Each line of the report carries a MAC over its number and text.
import { createHmac } from "node:crypto";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const key = readFileSync(0);
const sign = (text) => createHmac("sha256", key).update(text).digest("hex");
const { stringify } = JSON;
const canaryFile = fileURLToPath(new URL("./canaries.mjs", import.meta.url));

function freeze(value, depth = 3) {
  if (value === null || !["object", "function"].includes(typeof value) || depth === 0 || Object.isFrozen(value)) return;
  try {
    Object.freeze(value);
  } catch {
    return; // a typed array, or an exotic object of Node's own
  }
  for (const name of Reflect.ownKeys(value)) {
    const property = Reflect.getOwnPropertyDescriptor(value, name);
    if (property && "value" in property) freeze(property.value, depth - 1);
  }
}

function refuse(module, names) {
  const exported = require(module);
  for (const name of names) {
    if (name in exported) {
      const refused = () => { throw new Error(`${module}.${name} is not available to tests`); };
      Object.defineProperty(exported, name, { value: refused, writable: false, configurable: false });
    }
  }
}

require("node:inspector/promises"); // it extends what is refused next
refuse("node:module", ["register", "registerHooks"]);
refuse("node:inspector", ["Session", "open"]);
refuse("node:inspector/promises", ["Session", "open"]);
refuse("node:v8", ["writeHeapSnapshot", "getHeapSnapshot", "setHeapSnapshotNearHeapLimit", "setFlagsFromString", "queryObjects"]);
for (const name of ["binding", "_linkedBinding", "dlopen", "_debugProcess"]) {
  Object.defineProperty(process, name, { value: undefined, writable: false, configurable: false });
}
const Module = require("node:module");
for (const name of ["assert", "assert/strict", "node:assert", "node:assert/strict", "node:test", "crypto", "node:crypto"]) {
  const exports = require(name);
  freeze(exports);
  // An entry of the module cache would be found before the built-in of that name.
  Object.defineProperty(Module._cache, name, {
    value: Object.freeze({ id: name, exports, loaded: true, children: [], paths: [] }), writable: false, configurable: false,
  });
}
for (const value of [Module._extensions, Module.prototype]) freeze(value, 1);
freeze(EventTarget.prototype, 1);
syncBuiltinESMExports();

let taken = false;

/** Node's reporter interface; works once: for Node itself, which calls it before it loads a file of the tests. */
export default (source) => {
  if (taken) throw new Error("the report has been taken"); // here, not in the generator: that would begin with its first line
  taken = true;
  return report(source);
};

async function* report(source) {
  let number = 0;
  let failing = 0; // tests that must fail, and do
  const above = [];
  const line = (fields) => {
    const text = stringify(fields);
    return `\n${sign(`${number++} ${text}`)} ${text}\n`; // whatever tested code has left on this line
  };
  for await (const { type, data } of source) {
    if (type === "test:start") {
      above.length = data.nesting;
      above.push(data.name);
    }
    if (type !== "test:pass" && type !== "test:fail") continue;
    if (data.file === canaryFile) {
      failing += type === "test:fail" ? 1 : 1000;
      continue;
    }
    const id = [...above.slice(0, data.nesting), data.name].join(" > ");
    const skipped = data.skip !== undefined || data.todo !== undefined;
    yield line({ id, verdict: skipped ? "skipped" : type === "test:pass" ? "passed" : "failed" });
  }
  yield line({ finish: failing });
}
