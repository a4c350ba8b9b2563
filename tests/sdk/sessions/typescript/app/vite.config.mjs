export default { esbuild: { jsx: "automatic" }, logLevel: "warn", build: { target: "es2022", modulePreload: false } };
