/** Main: the page begins here. */
import { render } from "preact";
import { App } from "./app.js";
import { followLinks } from "./route.js";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";

followLinks();
render(<App />, document.body);
