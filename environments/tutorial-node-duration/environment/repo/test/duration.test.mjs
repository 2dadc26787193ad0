import assert from "node:assert/strict";
import { test } from "node:test";

import { parseDuration } from "../duration.mjs";

test("hours come first", () => {
  assert.equal(parseDuration("1h30m"), 5400);
  assert.equal(parseDuration("2h"), 7200);
  assert.equal(parseDuration("1h1m1s"), 3661);
});

test("other texts are refused", () => {
  for (const text of ["", "h", "1d", "1m1h", " 1h"]) {
    assert.throws(() => parseDuration(text), RangeError);
  }
});
