// Lets the suite start with Node 20, whose `fs` has no `globSync`: only its `tier-check` calls that.
import { register } from "node:module";

const fs = 'data:text/javascript,export * from "node:fs"; export const globSync = undefined;';
const hooks = `export const resolve = (name, context, next) => {
  const isSuite = context.parentURL?.includes("/@modelcontextprotocol/conformance/");
  return next(name === "fs" && isSuite ? ${JSON.stringify(fs)} : name, context);
};`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
