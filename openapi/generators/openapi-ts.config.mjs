// As compiled modules are found by Node: with their extension.
export default {
  output: { path: "client", module: { extension: ".js" } },
};
