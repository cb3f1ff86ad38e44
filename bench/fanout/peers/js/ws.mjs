// ws, as its documentation broadcasts.
import { WebSocketServer } from "ws";
import { message, run } from "./harness.mjs";

const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false }, () =>
  run(server.address().port, (i) => {
    const data = message(i);
    for (const client of server.clients) client.send(data);
  }),
);
