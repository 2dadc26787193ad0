// Tests that must fail. Where something agrees with everything in the place of node:assert or node:test, they do not.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it, test } from "node:test";

const name = randomBytes(8).toString("hex");

test(`${name} equal`, () => assert.equal(name, `${name}.`));
test(`${name} deep`, () => assert.deepEqual({ [name]: [1] }, { [name]: [2] }));
test(`${name} throws`, () => assert.throws(() => name));
test(`${name} ok`, async () => assert.ok(name === ""));
test(`${name} error`, () => {
  throw new Error(name);
});
describe(name, () => {
  it(`${name} in a group`, () => assert.match(name, /^[^0-9a-f]/));
});
