// socket.io, over WebSocket alone.
import { createServer } from "node:http";
import { Server } from "socket.io";
import { message, run } from "./harness.mjs";

const http = createServer();
const io = new Server(http, { transports: ["websocket"], serveClient: false });
http.listen(0, "127.0.0.1", () => run(http.address().port, (i) => io.emit("message", message(i))));
