// Plain Node: what is installed can be imported as it is.
import * as client from "@headgate/client";
import * as react from "@headgate/react";

console.log(JSON.stringify([Object.keys(client).sort(), Object.keys(react).sort()]));
