async function list(page) {
  const { streams, pages } = await ask("/api/streams?page=" + page);
  for (const s of streams) {
    const item = document.createElement("li");
    const link = element("a", s.title);
    link.href = (s.ended ? "/app/replay?stream=" : "/app?stream=") + s.id;
    const watching = element("span", watched(s));
    watching.dataset.stream = s.id;
    item.append(link, element("span", ` ${s.host}, `), watching);
    $("streams").querySelector("ul").append(item);
  }
  countList();
  $("more").hidden = page >= pages;
  $("more").onclick = () => list(page + 1).catch(complain);
}

let name = "", token = "", user = "", epoch = "", next = 0, socket = null, tries = 0;
const waiting = new Map(); // what has no answer yet, by id: sent again after a lost connection

// shownAs is the item of a message, which is marked if it mentions who looks at it.
function shownAs(said) {
  const item = message(said.name, said.text, (said.mentions || []).includes(user) ? "mentioned" : "");
  item.dataset.offset = said.offset;
  item.dataset.sender = said.sender;
  markHost(item);
  return item;
}

// Anybody may be called what the host is: the host's messages have a mark that no name can have.
let hostID = "";
const markHost = (item) => item.classList.toggle("host", Boolean(hostID) && item.dataset.sender === hostID);

const hear = {
  joined(m) {
    if (!m.recovered) {
      if (epoch) $("messages").replaceChildren(element("li", "the connection was lost for long", "notice"));
      for (const w of waiting.values()) add(w.item);
    }
    ({ epoch, next, user } = m);
    tries = 0;
    say("live");
    due.clear();
    for (const [id, own] of waiting) if (!own.acked) due.add(id);
    resend();
  },
  messages(m) {
    for (const said of m.messages) {
      next = said.offset + 1;
      if (said.sender === user) answered(said.id);
      const item = shownAs(said);
      if (said.deleted) erase(item);
      add(item);
    }
  },
  skipped(m) {
    next += m.count;
    add(element("li", `+${m.count} messages`, "notice"));
  },
  ack(m) {
    const own = waiting.get(m.id);
    if (own && settings.delay) own.acked = true; // it waits to be shown
    else answered(m.id);
  },
  error(m) {
    if (["overloaded", "unavailable", "too_many"].includes(m.code)) {
      due.add(m.id);
      return;
    }
    answered(m.id);
    say(m.seconds ? `${m.message} (${m.seconds} s)` : m.message);
  },
};

function answered(id) {
  const own = waiting.get(id);
  if (own) own.item.remove();
  waiting.delete(id);
}

function tell(what) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(what));
}

function send(id) {
  const own = waiting.get(id);
  if (own) tell({ type: "send", id, text: own.text });
}

// due are the ids that are to be sent again, the oldest first, 16 each second: as many may be under way,
// and who sends more than 50 is sent away, and would come back with as many.
const due = new Set();
function resend() {
  for (const id of [...waiting.keys()].filter((id) => due.has(id)).slice(0, 16)) {
    due.delete(id);
    send(id);
  }
}
setInterval(resend, 1000 + 200 * Math.random());

const unique = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

// later comes back, later each time, and not with all others at once.
const later = (then) => setTimeout(then, Math.min(30, 0.5 * 2 ** tries++) * (0.5 + Math.random()) * 1000);

// connect joins, and comes back when the connection ends. The token of who has signed in may not
// stand in an address: an entry does.
function connect() {
  const entry = me ? asked(`/api/streams/${encodeURIComponent(stream)}/enter`, "POST") : Promise.resolve({ token });
  entry.then((form) => join(form.token), (err) => { complain(err); later(connect); });
}

function join(entry) {
  const query = new URLSearchParams({ stream, token: entry });
  if (epoch) { query.set("epoch", epoch); query.set("offset", next); }
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?${query}`);
  let opened = false;
  socket.onopen = () => { opened = true; };
  socket.onmessage = (event) => {
    const m = JSON.parse(event.data);
    if (Object.hasOwn(hear, m.type)) hear[m.type](m);
  };
  socket.onclose = (event) => {
    say(event.reason || "the connection was lost; coming back");
    if (event.code === 3003) return; // one may not be here
    // A refused handshake has no reason in a browser; it may be the token.
    later(() => (opened && event.code !== 3000 ? Promise.resolve() : renew()).then(connect, (err) => { complain(err); connect(); }));
  };
}

async function guest(options) {
  ({ token, user } = await ask("/api/guest", { method: "POST", ...options }));
}

// renew asks for another token for the same user. A guest who comes too late for that is a new one.
async function renew() {
  if (me) return again();
  try {
    await guest({ headers: { Authorization: "Bearer " + token } });
  } catch (err) {
    if (err.status !== 401) throw err;
    await guest({ body: JSON.stringify({ name }) });
  }
}

// begin joins with the token that there is.
function begin() {
  $("enter").hidden = true;
  $("say").hidden = $("react").hidden = false;
  $("say").elements.text.focus();
  connect();
}

$("enter").onsubmit = async (event) => {
  event.preventDefault();
  try {
    name = new FormData(event.target).get("name");
    await guest({ body: JSON.stringify({ name }) });
    begin();
  } catch (err) { complain(err); }
};

$("say").onsubmit = (event) => {
  event.preventDefault();
  const input = event.target.elements.text;
  const id = unique();
  waiting.set(id, { text: input.value, item: message("…", input.value, "waits") });
  add(waiting.get(id).item);
  input.value = "";
  if (due.size) due.add(id); // what was said before it comes first
  else send(id);
};
