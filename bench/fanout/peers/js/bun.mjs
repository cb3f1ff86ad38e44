// uWebSockets, which Bun has within itself, with its publish and subscribe.
import { message, run } from "./harness.mjs";

const room = "room";
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request, server) => (server.upgrade(request) ? undefined : new Response(null, { status: 426 })),
  websocket: { open: (viewer) => viewer.subscribe(room), message() {} },
});
run(server.port, (i) => server.publish(room, message(i)));
