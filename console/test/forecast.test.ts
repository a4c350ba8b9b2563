import assert from "node:assert/strict";
import { test } from "node:test";
import { forecast } from "../src/values/forecast.ts";

const seconds = (count: number) => Array.from({ length: count }, (_, at) => 1_000_000 + at * 1000);

test("a lag that shrinks is empty when the line says so", () => {
  const lags = seconds(60).map((_, at) => 1000 - 10 * at);
  const outlook = forecast(seconds(60), lags);
  assert.equal(outlook.state, "draining");
  assert.ok(outlook.state === "draining" && Math.abs(outlook.perSecond - 10) < 0.01);
  assert.ok(outlook.state === "draining" && Math.abs(outlook.emptyInMs - 41_000) < 100);
});

test("a lag that grows has no end", () => {
  const outlook = forecast(seconds(60), seconds(60).map((_, at) => 5 * at + 1));
  assert.ok(outlook.state === "growing" && Math.abs(outlook.perSecond - 5) < 0.01);
});

test("a burst does not turn the trend", () => {
  const lags = seconds(60).map((_, at) => 1000 - 10 * at + (at === 30 ? 5000 : 0));
  assert.equal(forecast(seconds(60), lags).state, "draining");
});

test("what happened minutes ago does not count", () => {
  const lags = seconds(600).map((_, at) => (at < 400 ? 10_000 + 100 * at : 5000 - 10 * at + 4000));
  assert.equal(forecast(seconds(600), lags).state, "draining");
});

test("a little noise is no trend", () => {
  assert.equal(forecast(seconds(60), seconds(60).map((_, at) => 1000 + (at % 3))).state, "steady");
});

test("a group that comes to an end again and again keeps up", () => {
  assert.equal(forecast(seconds(60), seconds(60).map((_, at) => 12 * (at % 4))).state, "caught up");
});

test("no lag is no trend, and little is not known at first", () => {
  assert.equal(forecast(seconds(60), seconds(60).map(() => 0)).state, "caught up");
  assert.equal(forecast(seconds(3), [9, 8, 7]).state, "unknown");
  assert.equal(forecast([], []).state, "unknown");
  assert.equal(forecast(seconds(60), seconds(60).map(() => null)).state, "unknown");
});
