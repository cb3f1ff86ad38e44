// Who has signed up: signing up, in and out, one's profile and stream, whom one follows, and
// how many watch.
let me = null; // who is signed in, as the server said

const spoken = (method, body) => ({
  method, headers: me ? { Authorization: "Bearer " + token } : {}, body: body && JSON.stringify(body),
});
const formOf = (event) => { event.preventDefault(); return Object.fromEntries(new FormData(event.target)); };

function signedIn(form) {
  me = form;
  ({ token, user } = form);
}

// again asks for another access token. One tab at a time does: the browser's refresh token is
// good once.
async function again() {
  const take = () => ask("/api/session/refresh", { method: "POST" });
  const form = await (navigator.locks ? navigator.locks.request("session", take) : take()).catch((err) => {
    if (err.status !== 401) throw err;
    return {};
  });
  if (form.token) signedIn(form);
  else if (me) location.reload(); // the session has ended
}

// asked is ask for who is signed in, with another token where the old one has ended.
async function asked(path, method, body) {
  try {
    return await ask(path, spoken(method, body));
  } catch (err) {
    if (err.status !== 401 || !me) throw err;
    await again();
    return ask(path, spoken(method, body));
  }
}

// face is a picture from where the operator lets them be, and else the name's first character:
// whoever has a picture would learn of all who see it.
let pictures = [];
function face(u) {
  if (!pictures.some((origin) => u.picture.startsWith(origin + "/"))) {
    const e = element("i", [...u.name][0], "face");
    e.setAttribute("aria-hidden", "true");
    return e;
  }
  const e = document.createElement("img");
  e.alt = "";
  e.referrerPolicy = "no-referrer";
  e.src = u.picture;
  return e;
}

function showMe() {
  $("who").hidden = $("profile").hidden = !me;
  $("in").hidden = Boolean(me);
  $("start").hidden = !me || me.role === "member";
  if (!me) return;
  $("name").replaceChildren(face(me), element("b", me.name));
  $("profile").elements.name.value = me.name;
  $("profile").elements.picture.value = me.picture;
}

$("signin").onsubmit = async (event) => {
  try {
    signedIn(await ask("/api/session", spoken("POST", formOf(event))));
    location.reload();
  } catch (err) { complain(err); }
};

$("signup").onsubmit = async (event) => {
  const form = formOf(event);
  try {
    await ask("/api/users", spoken("POST", form));
    signedIn(await ask("/api/session", spoken("POST", form)));
    location.reload();
  } catch (err) { complain(err); }
};

$("out").onclick = () => ask("/api/session", { method: "DELETE" }).then(() => location.reload(), complain);

$("profile").onsubmit = async (event) => {
  try {
    Object.assign(me, await asked("/api/me", "POST", formOf(event)));
    showMe();
    say("saved");
  } catch (err) { complain(err); }
};

$("start").onsubmit = async (event) => {
  try {
    const { id } = await asked("/api/streams", "POST", formOf(event));
    location.href = "/app?stream=" + id;
  } catch (err) { complain(err); }
};

// counted keeps counts of viewers up to date while the page is seen: a browser has few
// connections for all of its tabs.
function counted(ids, show) {
  let events = null;
  const look = () => {
    if (document.hidden && events) {
      events.close();
      events = null;
    } else if (!document.hidden && !events) {
      events = new EventSource("/api/viewers?streams=" + ids.join(","));
      events.onmessage = (event) => JSON.parse(event.data).forEach(show);
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    if (events) events.close();
  };
}

const watched = (c) => (c.ended ? "ended" : c.viewers + " watching");

// countList counts for the streams of the list, so many of them at most.
let stopCounting = () => {};
function countList() {
  const most = 60;
  const items = new Map([...document.querySelectorAll("#streams [data-stream]")].slice(0, most).map((e) => [Number(e.dataset.stream), e]));
  stopCounting();
  if (items.size) stopCounting = counted([...items.keys()], (c) => { items.get(c.stream).textContent = watched(c); });
}

async function present() {
  if (document.hidden) return;
  const { users } = await ask(`/api/streams/${encodeURIComponent(stream)}/presence`);
  $("present").replaceChildren(...users.map((u) => {
    const item = element("li", "");
    item.append(face(u), element("span", u.name));
    return item;
  }));
}

// room shows what is about the stream and its host.
async function room(s) {
  hostID = s.host_id || "";
  for (const item of $("messages").children) markHost(item);
  counted([s.id], (c) => { $("watching").textContent = watched(c); });
  const every = 15000;
  setInterval(() => present().catch(complain), every);
  present().catch(complain);
  if (!me) return;
  $("end").hidden = Boolean(s.ended) || me.role !== "admin" && (me.role !== "host" || s.host_id !== me.user);
  $("end").onclick = () => asked(`/api/streams/${s.id}/end`, "POST").then(() => { $("end").hidden = true; }, complain);
  if (!s.host_id || s.host_id === me.user) return;
  const path = "/api/hosts/" + encodeURIComponent(s.host_id);
  const show = async () => {
    const { relation, followers } = await asked(path, "GET");
    $("follow").hidden = false;
    $("follow").textContent = `${relation.follows ? "Unfollow" : "Follow"} ${s.host} (${followers})`;
    $("follow").onclick = () => asked(path + "/follow", relation.follows ? "DELETE" : "PUT").then(show).catch(complain);
  };
  await show();
}

// arrive finds out who one is, and goes on as that.
async function arrive() {
  await again().catch(complain);
  const { guests, provider, pictures: from } = await ask("/api/ways");
  pictures = from;
  $("profile").elements.picture.parentElement.hidden = !pictures.length;
  showMe();
  $("provider").hidden = !provider;
  $("provider").querySelector("a").textContent = "Sign in at " + provider;
  if (location.search === "?failed") say("the sign-in there failed: try again");
  if (!stream) return;
  $("enter").hidden = Boolean(me) || !guests;
  if (me) begin();
  const s = await ask("/api/streams/" + encodeURIComponent(stream));
  document.title = s.title;
  document.querySelector("h1").textContent = s.title;
  await room(s);
}

if (stream) $("room").hidden = false;
else {
  $("streams").hidden = false;
  list(1).catch(complain);
}
arrive().catch(complain);
