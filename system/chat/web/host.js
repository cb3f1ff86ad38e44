// What hosts and moderators have beside: tools at each message, and a view of the room's rules,
// of who is barred, and of who did what.
let role = "";
const acts = new Map(); // actions without an answer, by id

function act(action) {
  const id = unique();
  acts.set(id, action.action);
  tell({ type: "act", id, ...action });
}

function tool(name, action) {
  const button = element("button", name);
  button.type = "button";
  button.onclick = () => act(action);
  return button;
}

// equip gives a message its tools.
function equip(item) {
  const { offset, sender } = item.dataset;
  if (!role || !sender || item.querySelector(".tools")) return;
  const tools = element("span", "", "tools");
  tools.append(tool("Delete", { action: "delete", offset: Number(offset) }), tool("Pin", { action: "pin", offset: Number(offset) }));
  if (sender !== user) {
    tools.append(tool("Time out", { action: "timeout", user: sender, seconds: 300 }), tool("Ban", { action: "ban", user: sender }));
    if (role === "host") tools.append(tool("Make moderator", { action: "appoint", user: sender }));
  }
  item.append(tools);
}

function become(now) {
  role = now || "";
  $("host").hidden = !role;
  $("rulesForm").hidden = role !== "host";
  for (const item of $("messages").children) {
    item.querySelector(".tools")?.remove();
    equip(item);
  }
  if (role) look().catch(complain);
}

const about = (path) => ask(`/api/streams/${encodeURIComponent(stream)}/${path}`, { headers: { Authorization: "Bearer " + token } });

// look shows the room as it is now.
async function look() {
  const [room, log] = await Promise.all([about("room"), about("log")]);
  const form = $("rulesForm").elements;
  for (const name of ["slow", "delay"]) form[name].value = room.settings[name];
  for (const name of ["followers", "subscribers", "emotes", "unique"]) form[name].checked = room.settings[name];
  form.words.value = (room.settings.words || []).join("\n");
  $("barred").replaceChildren(...Object.entries(room.barred || {}).map(([name, bar]) => {
    const item = element("li", `${name}, ${bar.until ? "until " + new Date(bar.until).toLocaleTimeString() : "banned"} ${bar.reason || ""} `);
    item.append(tool("Let in", { action: "unban", user: name }));
    return item;
  }));
  $("log").replaceChildren(...log.entries.map((e) => element("li",
    `${new Date(e.at).toLocaleTimeString()} ${e.name}: ${e.action} ${e.user || ""} ${e.offset ?? ""} ${e.seconds ? e.seconds + " s" : ""} ${e.reason || ""}`)));
}

const refused = hear.error;
const joined = hear.joined;
const done = hear.messages;
Object.assign(hear, {
  joined(m) {
    joined(m);
    become(m.role);
  },
  role(m) { become(m.role); },
  messages(m) {
    for (const said of m.messages) itemOf(said.offset)?.remove(); // it was held back
    done(m);
    for (const said of m.messages) if (itemOf(said.offset)) equip(itemOf(said.offset));
  },
  held(m) {
    for (const said of m.messages) {
      if (itemOf(said.offset) || said.offset < next) continue;
      const item = shownAs(said);
      item.classList.add("held");
      if (said.deleted) erase(item);
      add(item);
      equip(item);
    }
  },
  done(m) {
    acts.delete(m.id);
    look().catch(complain);
  },
  error(m) {
    if (acts.delete(m.id)) say(m.message);
    else refused(m);
  },
});

$("rulesForm").onsubmit = (event) => {
  event.preventDefault();
  const form = event.target.elements;
  act({ action: "settings", settings: {
    slow: Number(form.slow.value), delay: Number(form.delay.value), followers: form.followers.checked, subscribers: form.subscribers.checked,
    emotes: form.emotes.checked, unique: form.unique.checked, words: form.words.value.split("\n").map((w) => w.trim()).filter(Boolean),
  } });
};
$("unpin").onclick = () => act({ action: "unpin" });
