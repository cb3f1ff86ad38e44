// The replay: messages appear when the clock of the video has come to their time. Of what is
// to come a page is held, of what has been shown as much as in the room.
const path = `/api/streams/${encodeURIComponent(stream)}`;
const clock = $("clock").elements;
const labels = ["praise", "criticism", "laughter", "question", "advice"];
let now = 0, length = 0, playing = false, coming = [], place = null, ended = false, asking = 0;

const time = (ms) => {
  const s = Math.floor(ms / 1000), two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
};

// seek shows what is said from a time on. An answer that comes after another seek is left out.
async function seek(video) {
  const mine = ++asking;
  now = Math.max(0, Math.min(video, length));
  const page = await ask(`${path}/replay?video=${now}`);
  if (mine !== asking) return;
  take(page);
  $("messages").replaceChildren();
  show();
}

function take(page) {
  coming = page.messages;
  place = page;
  ended = !page.messages.length;
}

// more asks for the next page once the last one is shown.
async function more() {
  const mine = ++asking;
  const page = await ask(`${path}/replay?offset=${place.offset}&video=${place.video}`);
  if (mine !== asking) return;
  take(page);
  show();
}

function show() {
  while (coming.length && coming[0].video <= now) {
    const m = coming.shift();
    const item = message(m.name, m.text);
    item.dataset.video = m.video;
    item.prepend(element("time", time(m.video) + " "));
    add(item);
  }
  clock.video.value = now;
  $("time").textContent = `${time(now)} of ${time(length)}`;
  if (!coming.length && place && !ended) {
    ended = true; // until the answer says otherwise
    more().catch((err) => { ended = false; stop(); complain(err); });
  }
}

let before = 0;
function tick(at) {
  if (!playing) return;
  now = Math.min(length, now + (at - before) * Number(clock.speed.value));
  before = at;
  show();
  if (now >= length) return stop();
  requestAnimationFrame(tick);
}

function stop() {
  playing = false;
  $("play").textContent = "Play";
  $("play").setAttribute("aria-pressed", "false");
}

$("play").onclick = () => {
  if (playing) return stop();
  playing = true;
  $("play").textContent = "Pause";
  $("play").setAttribute("aria-pressed", "true");
  requestAnimationFrame((at) => { before = at; tick(at); });
};
clock.video.oninput = () => seek(Number(clock.video.value)).catch(complain);
$("clock").onsubmit = (event) => event.preventDefault();

// draw draws a bar for each span, by label from the bottom up.
function draw({ span, spans }) {
  const most = Math.max(1, ...spans.map((s) => s.counts.reduce((a, b) => a + b, 0)));
  for (const s of spans) {
    let y = 60;
    s.counts.forEach((count, label) => {
      if (!count) return;
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const height = 60 * count / most;
      y -= height;
      const width = 1000 * span / length;
      for (const [name, value] of Object.entries({ x: s.at * width, y, width: Math.max(1, width), height, class: labels[label] })) bar.setAttribute(name, value);
      $("line").append(bar);
    });
  }
}

$("line").onclick = (event) => {
  const box = $("line").getBoundingClientRect();
  seek(Math.floor(length * (event.clientX - box.left) / box.width)).catch(complain);
};

async function begin() {
  const show = await ask(path);
  document.title = show.title;
  document.querySelector("h1").textContent = show.title;
  const line = await ask(path + "/timeline");
  length = line.length;
  clock.video.max = length;
  draw(line);
  $("highlights").hidden = !line.highlights.length;
  for (const h of line.highlights.reverse()) {
    const button = element("button", `${time(h.video)} ${h.label}, ${h.count} messages`);
    button.onclick = () => seek(h.video).catch(complain);
    const item = document.createElement("li");
    item.append(button);
    $("highlights").querySelector("ul").append(item);
  }
  await seek(0);
}
begin().catch(complain);
