/** Place: where the gateway is. The page says in its base where the console is, and the gateway is just above. */

/** The address of the console, with a slash at its end. */
export const consoleUrl = document.baseURI;

/** The address of the gateway, without a slash at its end. */
export const gatewayUrl = new URL("..", consoleUrl).href.replace(/\/$/, "");
