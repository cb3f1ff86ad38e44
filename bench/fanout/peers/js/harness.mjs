// What the servers on node and on Bun have in common. Each is started by main.go:
//
//	node ws.mjs VIEWERS MESSAGES RATE
//
// prints its port, waits for a line, publishes RATE messages a second, waits for another line, and prints the
// CPU seconds that this took, of all of its threads, and the number of messages to one viewer each.
const [viewers, messages, rate] = process.argv.slice(2, 5).map(Number);

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export const message = (offset) =>
  `{"offset":${offset},"at":1800000000000,"sender":"guest-ABCDEFGHIJKLMNOPQRSTUVWXYZ","name":"Noor","id":"c-1","text":"${"hello ".repeat(10)}"}`;

export async function run(port, publish) {
  process.stdin.once("end", () => process.exit());
  process.stdout.write(`${port}\n`);
  const line = () => new Promise((said) => process.stdin.once("data", said));
  await line();
  const arrived = line(); // it may come before the last pause is over
  const before = process.cpuUsage();
  const began = performance.now();
  for (let i = 0; i < messages; i++) {
    publish(i);
    await sleep(Math.max(0, began + ((i + 1) * 1000) / rate - performance.now()));
  }
  await arrived;
  const used = process.cpuUsage(before);
  process.stdout.write(`${JSON.stringify({ cpu_seconds: (used.user + used.system) / 1e6, deliveries: viewers * messages })}\n`);
}
